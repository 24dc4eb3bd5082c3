"""`Converter`: how objects get from one version to another, whoever does it: classes, nobody, somebody elsewhere.

Everything that callers may ask of one is a member of it. Write one as a subclass: what it doesn't say is what holds of
the least cooperative. Must not know: where objects come from. Next: `served`, which has one; ``declare`` for classes'.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Protocol, runtime_checkable

import msgspec

__all__ = ["Converter", "NoConversion", "Tree", "convert_old", "convert_old_now", "copy_tree", "lend"]

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode

Tree = dict[str, Any]


@runtime_checkable
class Converter(Protocol):
    """Changes trees from one version to another, always several at once.

    It may change nothing of metadata but labels and annotations. The caller sets ``apiVersion`` and ``kind``
    afterwards. It may run any number of times for one request.
    """

    waits: bool = True
    """Could `convert` wait? Then requests for its resource get a task beforehand. Where it is False, `convert_now`
    always converts."""

    pure: bool = False
    """Do the trees that are given stay as they are? Else the caller gives copies of what it still needs."""

    threadsafe: bool = False
    """May its synchronous methods be called in another thread than the loop's, at the same time as in that?

    Large objects are then worked on in a thread; else nothing of its resource is."""

    def convert_now(self, trees: list[Tree], from_version: str, to_version: str) -> list[Tree] | None:
        """The trees in `to_version`, in the same order, without waiting; None when that isn't possible."""
        return None

    @abstractmethod
    async def convert(self, trees: list[Tree], from_version: str, to_version: str) -> list[Tree]:
        """The trees in `to_version`, in the same order. Raises for all when one of them can't be converted."""
        ...

    def carry_over(self, new_hub: Tree, live_hub: Tree, version: str) -> Tree:
        """On an update through `version`: `new_hub` with what that version can't say taken from the live object.

        Both are in the hub version, and neither is changed. A converter that doesn't know keeps `new_hub`.
        """
        return new_hub

    def salvage(self, tree: Tree, from_version: str, to_version: str) -> Tree | None:
        """What can be read in `to_version` of a stored object that can't be converted; None for nothing but metadata.

        For code that looks at an object as it was: what comes of it is never stored.
        """
        return None


class NoConversion(Converter):
    """The ``None`` strategy of custom resources: versions differ in apiVersion only."""

    waits = False
    threadsafe = True

    def convert_now(self, trees: list[Tree], from_version: str, to_version: str) -> list[Tree]:
        return trees

    async def convert(self, trees: list[Tree], from_version: str, to_version: str) -> list[Tree]:
        return trees


def copy_tree(tree: Tree) -> Tree:
    """A copy that shares nothing."""
    copied: Tree = _decode(_encode(tree))
    return copied


def lend(converter: Converter, tree: Tree) -> Tree:
    """`tree` as it may be given to `converter` while it is still needed: a copy, unless it says it is ``pure``."""
    return tree if converter.pure else copy_tree(tree)


async def convert_old(converter: Converter, tree: Tree, from_version: str, to_version: str) -> Tree:
    """A stored object in another version, for who looks at it as it was: as far as it can be read.

    `tree` stays as it is; what comes of it may share its metadata, and must never be stored.
    """
    now = convert_old_now(converter, tree, from_version, to_version)
    if now is not None:
        return now
    try:
        (made,) = await converter.convert([lend(converter, tree)], from_version, to_version)
    except Exception:
        return _salvaged(converter, tree, from_version, to_version)
    return made


def convert_old_now(converter: Converter, tree: Tree, from_version: str, to_version: str) -> Tree | None:
    """The same without waiting; None when the converter has to wait."""
    if from_version == to_version:
        return tree
    try:
        made = converter.convert_now([lend(converter, tree)], from_version, to_version)
    except Exception:
        return _salvaged(converter, tree, from_version, to_version)
    return None if made is None else made[0]


def _salvaged(converter: Converter, tree: Tree, from_version: str, to_version: str) -> Tree:
    """What can be read of an object whose conversion just failed; where nothing can, that error is raised again."""
    salvaged = converter.salvage(tree, from_version, to_version)
    if salvaged is None:
        raise
    return salvaged
