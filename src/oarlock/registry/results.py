"""The results of recipes: an entry of the cache, or a tree in the request version.

An entry has the bytes of the stored version. A tree is the result of a dry run, of a virtual resource, or of a
deletion. See also: `create`.
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
    """The result of a write.

    `created` makes a 201; `gone` says that a DELETE removed the object with this `uid` and `name`.
    """

    item: Item
    created: bool = False
    gone: bool = False
    uid: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """A list at `resource_version`: chunks of items in key order. `remaining` is None when unknown."""

    chunks: Iterable[Sequence[Item]]
    resource_version: str
    continue_token: str = ""
    remaining: int | None = None
