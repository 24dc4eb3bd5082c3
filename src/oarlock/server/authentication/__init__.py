"""Authentication that needs more than the options say: issuers of tokens, configured in a file or by flags.

See also: ``server.identities``, which puts all methods together; ``policy.authn``, the methods.
"""
