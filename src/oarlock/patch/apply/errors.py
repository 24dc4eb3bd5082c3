"""Why an apply, or a managedFields entry, is refused.

ApplyError
├─ FieldsError     text that isn't a FieldsV1 set, or a path element (managedFields are then left alone)
├─ ManagedFieldsError  a managedFields entry that says nothing usable
├─ TypedError      a value that doesn't have the declared type: undeclared fields, duplicates, wrong kinds
├─ UnknownVersion  a version that isn't served any more (its managers are dropped)
└─ ApplyConflict   somebody else owns what the applied configuration changes (409)
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

__all__ = [
    "ApplyConflict",
    "ApplyError",
    "FieldsError",
    "ManagedFieldsError",
    "OwnerConflict",
    "TypedError",
    "UnknownVersion",
]


class ApplyError(ValueError):
    """Something of server-side apply that can't be done."""


class FieldsError(ApplyError):
    """Not a set of fields."""


class ManagedFieldsError(ApplyError):
    """An entry of ``metadata.managedFields`` that can't be used."""


class UnknownVersion(ApplyError):
    """A converter raises it for a version it doesn't know any more."""


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
    """The applied configuration changes fields that other managers own, and isn't forced.

    `conflicts` are grouped by manager, in the order of their names, then of paths.
    """

    def __init__(self, conflicts: Sequence[OwnerConflict]) -> None:
        super().__init__(f"{len(conflicts)} conflicts")
        self.conflicts = tuple(conflicts)
