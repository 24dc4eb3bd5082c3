"""Options: one declaration gives a flag, a field of ``ServerConfig`` and a field of the configuration file.

`option` declares them, `groups` lists them; `flags` and `file` read them, `layers` merges what was read. What
``--help`` and docs/flags.md say is made from the declarations.
"""
