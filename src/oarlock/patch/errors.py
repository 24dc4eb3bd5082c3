"""Why a patch is refused: a family of its own, which `endpoints` turns into answers.

PatchError
├─ PatchFormatError   the bytes are not a patch (400)
├─ DirectiveError     a strategic merge patch says what it may not say of this type (400)
├─ TooManyOperations  more operations than a request may have (413)
└─ PatchFailed        the patch can't be carried out on this object (422)
"""

from __future__ import annotations

__all__ = [
    "DirectiveError",
    "PatchError",
    "PatchFailed",
    "PatchFormatError",
    "TooManyOperations",
]


class PatchError(ValueError):
    """A patch that isn't applied."""


class PatchFormatError(PatchError):
    """The bytes are not a patch; the message is what follows ``error decoding patch:``."""


class TooManyOperations(PatchError):
    """The patch has `count` operations, and `limit` are allowed."""

    def __init__(self, count: int, limit: int) -> None:
        super().__init__(f"The allowed maximum operations in a JSON patch is {limit}, got {count}")
        self.count = count
        self.limit = limit


class PatchFailed(PatchError):
    """An operation doesn't fit the object: a path that isn't there, a failed test, a copy beyond the budget."""


class DirectiveError(PatchError):
    """A directive that doesn't exist or has the wrong form, or a list item that doesn't say which one it is."""
