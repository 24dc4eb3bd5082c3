"""Why a patch, an apply or a managedFields entry is refused: exceptions, which `endpoints` turns into responses.

PatchError
├─ PatchFormatError   the bytes are not a valid patch (400)
├─ DirectiveError     a strategic merge patch has an invalid directive or list item (400)
├─ TooManyOperations  more operations than allowed (413)
└─ PatchFailed        the patch can't be applied to this object (422); `TestFailed` if a test of its own says so

ApplyError
├─ FieldsError     malformed FieldsV1 or path element (managedFields are then left alone)
├─ ManagedFieldsError  an invalid managedFields entry
├─ TypedError      the value doesn't have the declared type: undeclared fields, duplicates, wrong kinds
├─ UnknownVersion  a version that isn't served any more (its managers are dropped)
└─ ApplyConflict   another manager owns fields that the applied configuration changes (409)
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple


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


class ApplyError(ValueError):
    """Base class of errors in server-side apply."""


class FieldsError(ApplyError):
    """The value is not a valid FieldsV1 set."""


class ManagedFieldsError(ApplyError):
    """An entry of ``metadata.managedFields`` is invalid."""


class UnknownVersion(ApplyError):
    """A converter raises it for a version that isn't served any more."""


class TypedError(ApplyError):
    """`problems` are pairs of path text (``.spec.ports``, empty for the whole value) and complaint."""

    def __init__(self, problems: Sequence[tuple[str, str]]) -> None:
        lines = [f"{path}: {why}" if path else why for path, why in problems]
        super().__init__(lines[0] if len(lines) == 1 else "\n".join(["errors:", *(f"  {line}" for line in lines)]))
        self.problems = tuple(problems)


class OwnerConflict(NamedTuple):
    """`manager` owns `path` (path elements), and the applied configuration would change it."""

    manager: Hashable
    path: tuple[str, ...]


class ApplyConflict(ApplyError):
    """The applied configuration changes fields that other managers own, without `force`.

    `conflicts` are grouped by manager, sorted by manager and then by path.
    """

    def __init__(self, conflicts: Sequence[OwnerConflict]) -> None:
        super().__init__(f"{len(conflicts)} conflicts")
        self.conflicts = tuple(conflicts)
