"""How the patching verbs say what is wrong with the object a patch leads to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from oarlock.meta.context import Target
from oarlock.meta.errors import InvalidObject, StatusError
from oarlock.meta.fielderrors import FieldError, Invalid
from oarlock.meta.kinds import GroupKind

__all__ = ["PatchWording"]


@dataclass(frozen=True, slots=True)
class PatchWording:
    """422: of wrong types with the fields that have them, else on the pseudo-field ``patch`` with what `shown` gives.

    That is the object as the patch left it, as a rule. It is asked for when something is wrong, which may be after
    undeclared fields were removed from the object. `target` is what is patched.
    """

    target: Target
    shown: Callable[[], str]

    def misfits(self, errors: list[FieldError], problems: list[str]) -> StatusError:
        unknown: list[FieldError] = [Invalid("patch", "", problem) for problem in problems]
        return InvalidObject(self.target.group_kind, self.target.name, errors + unknown)

    def strict(self, problems: list[str]) -> StatusError:
        return self.refused("strict decoding error: " + ", ".join(problems))

    def refused(self, why: str) -> StatusError:
        """The patch as a whole can't be taken."""
        return InvalidObject(GroupKind("", ""), "", [Invalid("patch", self.shown(), why)])
