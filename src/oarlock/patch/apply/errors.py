"""Why an apply, or a managedFields entry, is refused.

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
