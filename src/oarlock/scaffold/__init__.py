"""Projects that serve an API: `project` makes one and reads it, `additions` adds to it, `templates` has the texts.

Files are rendered by Jinja, edited by syntax tree and formatted by ruff; the extra ``scaffold`` brings all three.
Must not know: command lines, servers.
"""
