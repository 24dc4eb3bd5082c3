"""How the patching verbs say what is wrong with the object a patch leads to."""

from __future__ import annotations

from dataclasses import dataclass

from oarlock.codec import json as json_codec
from oarlock.meta.errors import InvalidObject, StatusError
from oarlock.meta.fielderrors import Invalid
from oarlock.meta.kinds import GroupKind
from oarlock.registry.served import Tree

__all__ = ["PatchWording"]


@dataclass(frozen=True, slots=True)
class PatchWording:
    """422 on the pseudo-field ``patch``, with the object as it would be."""

    tree: Tree

    def undecodable(self, why: str) -> StatusError:
        shown = json_codec.encode(self.tree).decode()
        return InvalidObject(GroupKind("", ""), "", [Invalid("patch", shown, why)])

    def strict(self, problems: list[str]) -> StatusError:
        return self.undecodable("strict decoding error: " + ", ".join(problems))
