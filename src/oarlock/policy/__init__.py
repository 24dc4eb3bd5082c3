"""Who may, and what else must hold: authn, authz and admission, siblings that never import one another.

They know users, targets and trees; no sockets and no URLs. The filters of ``server`` and the gate that the
recipes are handed call them. Next: ``authn.authenticator``.
"""
