"""What a recipe hands back to be shown: an entry of the cache, or a tree in the request version.

An entry is already bytes of the stored version; a tree stands for what isn't stored (a dry run, an
object of a virtual resource, an object that was just removed). Next: `create`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from oarlock.registry.served import Tree
from oarlock.storage.cache.entry import Entry

__all__ = ["Item", "Listing", "MutationResult"]

Item = Entry | Tree


class MutationResult(NamedTuple):
    """`created` makes a 201. `gone` means a DELETE removed the object, of which `uid` and `name` tell."""

    item: Item
    created: bool = False
    gone: bool = False
    uid: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """A list at `resource_version`: chunks of items in key order. `remaining` is None when it isn't told."""

    chunks: Iterable[Sequence[Item]]
    resource_version: str
    continue_token: str = ""
    remaining: int | None = None
