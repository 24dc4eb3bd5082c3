"""`Converter`: the interface for conversion between versions, by classes, by a webhook, or by no code at all.

Write a converter as a subclass; the defaults of its attributes are the ones that promise least.
Must not know: where objects come from. See also: `served`, which holds one; ``declare``, for that of declared classes.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol, runtime_checkable

import msgspec

from oarlock.meta.errors import InternalError
from oarlock.meta.json_trees import Tree

__all__ = ["ConversionError", "Converter", "NoConversion", "copy_tree", "copy_unless_pure", "name_of"]

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class ConversionError(InternalError):
    """500: an object can't be converted, which isn't the fault of the client that asked for it.

    `name` names the object, with its kind and the version it was in. `advice` is what the client can do about it.
    """

    def __init__(self, name: str, to_version: str, why: str, advice: str = "") -> None:
        super().__init__(f"converting {name} to {to_version} failed: {why}{'; ' if advice else ''}{advice}")
        self.name = name
        self.why = why
        self.of_all = False
        """Whether it says nothing about the single objects of a batch."""


def name_of(tree: Tree) -> str:
    """The name of an object in answers and in the log: ``sea.example.com/v1 Boat default/a``."""
    metadata = tree.get("metadata") or {}
    place = "/".join(filter(None, (metadata.get("namespace"), metadata.get("name"))))
    return " ".join(filter(None, (tree.get("apiVersion"), tree.get("kind"), place)))


@runtime_checkable
class Converter(Protocol):
    """Converts lists of trees from one version to another.

    Of metadata it may change labels and annotations only. The caller sets ``apiVersion`` and ``kind`` afterwards. It
    may be called any number of times for one request.
    """

    waits: bool = True
    """Whether `convert` may wait; requests for its resource then run in a task.

    If False, `convert_now` always converts.
    """

    pure: bool = False
    """Whether it leaves the given trees unchanged. If False, callers pass copies of what they still need."""

    alike: bool = False
    """Whether versions differ in apiVersion only. Then writes aren't checked for convertibility."""

    threadsafe: bool = False
    """Whether its synchronous methods may be called in another thread, concurrently with the event loop.

    If so, large objects of its resource are handled in a thread.
    """

    def convert_now(self, trees: list[Tree], from_version: str, to_version: str) -> list[Tree] | None:
        """The trees in `to_version`, in the same order, without waiting; None when it has to wait."""
        return None

    @abstractmethod
    async def convert(self, trees: list[Tree], from_version: str, to_version: str) -> list[Tree]:
        """The trees in `to_version`, in the same order. Raises if any of them can't be converted.

        It must set its own timeout. A `StatusError` of 429, 503 or 504 means that the converter is busy or unreachable.
        Any other `StatusError`, or a `FieldError`, refuses the object and is shown to the client that writes it. Any
        other exception is a bug of the converter and is answered with 500.
        """
        ...

    def carry_over(self, new_hub: Tree, live_hub: Tree, version: str) -> Tree:
        """On an update through `version`: `new_hub` plus what `version` can't represent, from the live object.

        Both are in the hub version, and neither may be changed. The default returns `new_hub`.
        """
        return new_hub

    def convert_partially(self, tree: Tree, from_version: str, to_version: str) -> Tree | None:
        """As much of an unconvertible stored object as can be read in `to_version`; None for its metadata only.

        For hooks that look at the old object: the result is never stored.
        """
        return None


class NoConversion(Converter):
    """The ``None`` conversion strategy of CustomResourceDefinitions: versions differ in apiVersion only.

    A converter that may take the place of another one, with what it has converted, is equal to it.
    """

    waits = False
    alike = True
    threadsafe = True

    def convert_now(self, trees: list[Tree], from_version: str, to_version: str) -> list[Tree]:
        return trees

    async def convert(self, trees: list[Tree], from_version: str, to_version: str) -> list[Tree]:
        return trees

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))


def copy_tree(tree: Tree) -> Tree:
    """A deep copy."""
    copied: Tree = _decode(_encode(tree))
    return copied


def copy_unless_pure(converter: Converter, tree: Tree) -> Tree:
    """`tree` to pass to `converter` while the caller still needs it: a copy, unless the converter is ``pure``."""
    return tree if converter.pure else copy_tree(tree)
