"""The type of a user in expressions, as ``request.userInfo`` of admission and ``user`` of authentication have it.

Source: k8s.io/api ``authentication/v1`` UserInfo.
"""

from __future__ import annotations

from oarlock.schema.structural.nodes import Node

_TEXT = Node(type="string")
_TEXTS = Node(type="array", items=_TEXT)

USER = Node(
    type="object",
    properties={
        "username": _TEXT,
        "uid": _TEXT,
        "groups": _TEXTS,
        "extra": Node(type="object", additional=_TEXTS),
    },
)
"""Every field may be missing."""
