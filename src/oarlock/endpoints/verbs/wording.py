"""How the patching verbs say what is wrong with the object a patch leads to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from oarlock.meta.errors import InvalidObject, StatusError
from oarlock.meta.fielderrors import Invalid
from oarlock.meta.kinds import GroupKind

__all__ = ["PatchWording"]


@dataclass(frozen=True, slots=True)
class PatchWording:
    """422 on the pseudo-field ``patch``, with what `shown` gives: the object as the patch left it, as a rule.

    It is asked for when something is wrong, which may be after undeclared fields were removed from the object.
    """

    shown: Callable[[], str]

    def undecodable(self, why: str) -> StatusError:
        return InvalidObject(GroupKind("", ""), "", [Invalid("patch", self.shown(), why)])

    def strict(self, problems: list[str]) -> StatusError:
        return self.undecodable("strict decoding error: " + ", ".join(problems))
