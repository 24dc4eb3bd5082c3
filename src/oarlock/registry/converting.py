"""`Conversions`: the one door to a resource's `Converter`. What fails is named here, in the answer and in the log.

A converter is users' code. When it raises, the client is told which object it was, and the log has the trace. What it
refuses with an error of ours (a `StatusError`, a `FieldError`) is told as it is to who writes the object; of an object
that is stored already, that is no client's fault either.
Must not know: who asks. Next: `conversion`, the protocol; `served`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from oarlock.meta.errors import InvalidObject, StatusError
from oarlock.meta.fielderrors import FieldError
from oarlock.registry.complaints import Complaints
from oarlock.registry.conversion import ConversionError, Converter, Tree, lend, name_of
from oarlock.schema.definition import ResourceDefinition

__all__ = ["FAILED", "Conversions"]

T = TypeVar("T")

log = logging.getLogger("oarlock.registry")

FAILED = "code of this server's own failed; its log has more"
"""What is told of an error that nobody meant for clients."""

LATER = (429, 503, 504)
"""Errors that say nothing of the object: whoever converts is busy, or can't be reached."""

MOST_TRIES = 100
"""So often a batch may fail while it is found out which of its objects can't be converted."""

SHOWN = 500
"""Characters of an error's text that are told."""


class Conversions:
    """Converts the trees of one resource. Trees that are given must not be used afterwards, but by `old`."""

    def __init__(self, definition: ResourceDefinition, converter: Converter) -> None:
        self._definition = definition
        self._converter = converter
        self._kind = definition.names.kind
        self._complaints = Complaints(log)

    def now(self, trees: list[Tree], from_version: str, to_version: str, *, stored: bool = False) -> list[Tree] | None:
        """The trees in another version; None when that has to be waited for.

        `stored` says that they are as the store has them, so that nobody who asks for them is to blame.
        Raises ConversionError, and what the converter refuses with.
        """
        if from_version == to_version:
            return trees
        try:
            made = self._converter.convert_now(trees, from_version, to_version)
        except Exception as error:
            raise self._failed(trees, (from_version, to_version), error, stored) from error
        return None if made is None else self._told(trees, made, from_version, to_version)

    async def convert(
        self, trees: list[Tree], from_version: str, to_version: str, *, stored: bool = False
    ) -> list[Tree]:
        """The same, waiting where it must."""
        made = self.now(trees, from_version, to_version, stored=stored)
        if made is not None:
            return made
        try:
            made = await self._converter.convert(trees, from_version, to_version)
        except Exception as error:
            raise self._failed(trees, (from_version, to_version), error, stored) from error
        return self._told(trees, made, from_version, to_version)

    async def each(
        self,
        items: Sequence[T],
        tree_of: Callable[[T], Tree],
        versions: tuple[str, str],
        tries: list[None] | None = None,
    ) -> list[Tree | StatusError]:
        """Many stored objects, converted together; in place of one that can't be, why. `tree_of` makes a fresh tree.

        When a batch fails its halves are tried, and theirs, until it is known which objects it was; so no more than
        `MOST_TRIES` times, and not where the error says nothing of the objects.
        """
        tries = [] if tries is None else tries
        try:
            made = await self.convert([tree_of(item) for item in items], *versions, stored=True) if items else []
        except StatusError as error:
            tries.append(None)
            if len(items) == 1 or error.code in LATER or len(tries) > MOST_TRIES:
                return [error] * len(items)
        else:
            return list(made)
        half = len(items) // 2
        first = await self.each(items[:half], tree_of, versions, tries)
        return first + await self.each(items[half:], tree_of, versions, tries)

    async def old(self, tree: Tree, from_version: str, to_version: str) -> Tree:
        """A stored object in another version, for who looks at it as it was: as far as it can be read.

        `tree` stays as it is. What comes of it may be `tree` itself, or share its metadata, and must never be stored.
        Raises ConversionError where the converter can't tell what can be read.
        """
        now = self.old_now(tree, from_version, to_version)
        if now is not None:
            return now
        try:
            return (await self.convert([lend(self._converter, tree)], from_version, to_version, stored=True))[0]
        except StatusError as error:
            return self._salvaged(tree, from_version, to_version, error)

    def old_now(self, tree: Tree, from_version: str, to_version: str) -> Tree | None:
        """The same without waiting; None when the converter has to wait."""
        if from_version == to_version:
            return tree
        try:
            made = self.now([lend(self._converter, tree)], from_version, to_version, stored=True)
        except StatusError as error:
            return self._salvaged(tree, from_version, to_version, error)
        return None if made is None else made[0]

    def _salvaged(self, tree: Tree, from_version: str, to_version: str, error: StatusError) -> Tree:
        """What can be read of an object whose conversion just failed with `error`, which is raised if nothing can."""
        salvaged = self._converter.salvage(tree, from_version, to_version)
        if salvaged is None:
            raise error
        return self._told([tree], [salvaged], from_version, to_version)[0]

    def _told(self, trees: list[Tree], made: list[Tree], from_version: str, to_version: str) -> list[Tree]:
        """What was made, which says of what version it is."""
        if len(made) != len(trees):
            raise ConversionError(_names(trees), to_version, f"{len(trees)} objects became {len(made)}")
        api_version = self._definition.api_version(to_version)
        for tree in made:
            tree["apiVersion"], tree["kind"] = api_version, self._kind
        return made

    def _failed(self, trees: list[Tree], versions: tuple[str, str], error: Exception, stored: bool) -> Exception:
        """What is raised instead of `error`: the same where it says all there is to say."""
        if isinstance(error, ConversionError):
            return error
        if isinstance(error, StatusError) and (not stored or error.code in LATER):
            return error
        if isinstance(error, FieldError) and not stored:
            name = (trees[0].get("metadata") or {}).get("name") or ""
            return InvalidObject(self._definition.group_kind, name, [error])
        from_version, to_version = versions
        culprit = self._culprit(trees, from_version, to_version)
        if culprit is None:
            name = _names(trees)  # `each` finds out, and it is logged then
        else:
            name = name_of({"apiVersion": self._definition.api_version(from_version), "kind": self._kind, **culprit})
        refused = isinstance(error, StatusError | FieldError)
        why = str(error) if refused else f"{type(error).__name__}: {error}"
        if len(why) > SHOWN:
            why = why[:SHOWN] + "…"
        if culprit is not None or not stored:
            self._complaints.tell(name, (to_version, why), f"can't be converted to {to_version}: {why}", error)
        return ConversionError(name, to_version, why if refused else FAILED)

    def _culprit(self, trees: list[Tree], from_version: str, to_version: str) -> Tree | None:
        """The tree that can't be converted; None where that can't be found out."""
        if len(trees) == 1:
            return trees[0]
        if self._converter.pure:
            for tree in trees:
                try:
                    self._converter.convert_now([tree], from_version, to_version)
                except Exception:
                    return tree
        return None


def _names(trees: list[Tree]) -> str:
    names = list(dict.fromkeys(map(name_of, trees)))
    return names[0] if len(names) == 1 else f"one of {len(names)} objects, {names[0]} to {names[-1]},"
