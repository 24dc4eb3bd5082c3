"""Authentication, authorization and admission: siblings that never import one another.

They know users, targets and trees, but no sockets and no URLs. They are called by the filters of ``server``, and by the
recipes through ``registry.gate``. See also: ``authn.authenticator``.
"""
