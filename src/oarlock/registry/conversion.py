"""`Converter`: how objects get from one version to another, whoever does it: classes, nobody, somebody elsewhere.

Everything that callers may ask of one is a member of it. Write one as a subclass: what it doesn't say is what holds of
the least cooperative. Must not know: where objects come from. Next: `served`, which has one; ``declare`` for classes'.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Protocol, runtime_checkable

import msgspec

from oarlock.meta.errors import InternalError

__all__ = ["ConversionError", "Converter", "NoConversion", "Tree", "copy_tree", "lend", "name_of"]

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode

Tree = dict[str, Any]


class ConversionError(InternalError):
    """500: an object can't be converted, and the client that asked for it has nothing to do with that.

    `name` is the object's, with its kind and the version it was in.
    """

    def __init__(self, name: str, to_version: str, why: str) -> None:
        super().__init__(f"converting {name} to {to_version} failed: {why}")
        self.name = name
        self.why = why


def name_of(tree: Tree) -> str:
    """How answers and logs call an object: ``sea.example.com/v1 Boat default/a``."""
    metadata = tree.get("metadata") or {}
    place = "/".join(filter(None, (metadata.get("namespace"), metadata.get("name"))))
    return " ".join(filter(None, (tree.get("apiVersion"), tree.get("kind"), place)))


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

    alike: bool = False
    """Do versions differ in nothing but apiVersion? Then nobody tries whether an object can be converted."""

    threadsafe: bool = False
    """May its synchronous methods be called in another thread than the loop's, at the same time as in that?

    Large objects are then worked on in a thread; else nothing of its resource is."""

    def convert_now(self, trees: list[Tree], from_version: str, to_version: str) -> list[Tree] | None:
        """The trees in `to_version`, in the same order, without waiting; None when that isn't possible."""
        return None

    @abstractmethod
    async def convert(self, trees: list[Tree], from_version: str, to_version: str) -> list[Tree]:
        """The trees in `to_version`, in the same order. Raises for all when one of them can't be converted.

        It must end by itself, also when nobody answers: a `StatusError` of 429, 503 or 504 says that the objects have
        nothing to do with that. Any other is a refusal, told as it is to who writes the object, as is a `FieldError`.
        Anything else is a mistake of its own and answered 500.
        """
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
    alike = True
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
