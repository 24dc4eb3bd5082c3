"""Why a patch is refused: a family of exceptions, which `endpoints` turns into responses.

PatchError
├─ PatchFormatError   the bytes are not a valid patch (400)
├─ DirectiveError     a strategic merge patch has an invalid directive or list item (400)
├─ TooManyOperations  more operations than allowed (413)
└─ PatchFailed        the patch can't be applied to this object (422); `TestFailed` if a test of its own says so
"""

from __future__ import annotations


class PatchError(ValueError):
    """The patch can't be applied."""


class PatchFormatError(PatchError):
    """The bytes are not a valid patch; the message is what follows ``error decoding patch:``."""


class TooManyOperations(PatchError):
    """The patch has `count` operations, more than `limit`."""

    def __init__(self, count: int, limit: int) -> None:
        super().__init__(f"The allowed maximum operations in a JSON patch is {limit}, got {count}")
        self.count = count
        self.limit = limit


class PatchFailed(PatchError):
    """An operation can't be applied to the object: a missing path, a failed test, a copy beyond the size limit."""


class TestFailed(PatchFailed):
    """A ``test`` operation found another value."""

    __test__ = False


class DirectiveError(PatchError):
    """An unknown or malformed directive, or a list item without its merge key."""
