"""The error messages of PATCH for an invalid result."""

from __future__ import annotations

from collections.abc import Callable

from oarlock.meta.context import Target
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import InvalidObject, StatusError
from oarlock.meta.fielderrors import FieldError, Invalid, WrongType
from oarlock.meta.kinds import GroupKind

__all__ = ["PatchWording"]


@dataclass(frozen=True, slots=True)
class PatchWording:
    """422: for wrong types on their fields, else on the pseudo-field ``patch`` with the text of `shown`.

    `shown` is called only for an error, which may be after undeclared fields were removed; usually it shows the object
    right after the patch. `target` is the kind of what is patched. `strategic` says that it is a strategic merge patch:
    of wrong types the first is told then, in Go's words, which clients look for.
    """

    target: Target
    shown: Callable[[], str]
    strategic: bool = False

    def type_errors(self, errors: list[FieldError], problems: list[str]) -> StatusError:
        if self.strategic and isinstance(errors[0], WrongType) and errors[0].restoring:
            refusal = self.refused(errors[0].restoring)
            refusal.errors = errors
            return refusal
        unknown: list[FieldError] = [Invalid("patch", "", problem) for problem in problems]
        return InvalidObject(self.target.group_kind, self.target.name, errors + unknown)

    def strict(self, problems: list[str]) -> StatusError:
        return self.refused("strict decoding error: " + ", ".join(problems))

    def refused(self, why: str) -> StatusError:
        """The error for a patch that can't be applied at all."""
        return InvalidObject(GroupKind("", ""), "", [Invalid("patch", self.shown(), why)])
