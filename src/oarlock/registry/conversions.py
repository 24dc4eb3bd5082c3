"""`Converter`: the interface for conversion between versions, by classes, by a webhook, or by no code at all.

Write a converter as a subclass; the defaults of its attributes are the ones that promise least.
Must not know: where objects come from. See also: `served`, which holds one; ``object_hooks``, for declared classes.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Protocol, TypeVar, runtime_checkable

import msgspec

from oarlock.client.informers.remote_objects import ObjectLog
from oarlock.meta.errors import InternalError, InvalidObject, StatusError
from oarlock.meta.fielderrors import FieldError
from oarlock.meta.json_trees import Tree
from oarlock.meta.memo import RecentlyUsed
from oarlock.registry.workers import Offload
from oarlock.schema.compiled import CompiledVersion
from oarlock.schema.definition import ResourceDefinition
from oarlock.storage.pacing import Pacer

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class ConversionError(InternalError):
    """500: an object can't be converted, through no fault of the client.

    `name` names the object, with its kind and version. `advice` says what the client can do.
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
    may be called several times for one request.
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

    Two converters are equal if one can replace the other without converting anything again.
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
    """The tree to pass to `converter` if the caller still needs `tree`: a copy, unless the converter is ``pure``."""
    return tree if converter.pure else copy_tree(tree)


ConversionKey = tuple[str, int, object]
"""The key of an object, its revision, and the mark of a version; for an encoding the mark with its `Encode`."""


class Encode(Protocol):
    """Another encoding of an object's body. Hashable."""

    def __call__(self, body: bytes, /) -> bytes: ...


_OVERHEAD = 200  # memory of an item besides its bytes


class ConversionCache(RecentlyUsed[ConversionKey, bytes]):
    """Bodies of objects in other versions, and other encodings of bodies.

    A mark is one version of one `StoredResource`, so that a changed definition never finds the bodies of the old one.
    """

    __slots__ = ()

    def __init__(self, limit_bytes: int = 64 * 1024 * 1024) -> None:
        super().__init__(limit_bytes, lambda body: len(body) + _OVERHEAD)


T = TypeVar("T")
log = logging.getLogger("oarlock.registry")

FAILED = "code of this server's own failed; its log has more"
"""Shown to clients instead of an exception that wasn't meant for them."""

LATER = (429, 503, 504)
"""Status codes that say nothing about the object: the converter is busy or can't be reached."""

MOST_TRIES = 100
"""How many failing calls `each` makes at most to find out which objects of a batch can't be converted."""

SHOWN = 500
"""How many characters of an error's text are shown."""


class Conversions:
    """Converts the trees of one resource. All methods but `old` and `old_now` may change the trees they are given."""

    def __init__(
        self,
        definition: ResourceDefinition,
        converter: Converter,
        only_read: Mapping[str, Callable[[Tree], Tree]] = MappingProxyType({}),
    ) -> None:
        self.only_read = only_read
        self._definition = definition
        self._converter = converter
        self._kind = definition.names.kind
        self._object_log = ObjectLog(log)
        self.compiled: Mapping[str, CompiledVersion] = {}
        """The versions whose schemas prune what is converted to them: those of a custom resource, once it is loaded."""

    def now(self, trees: list[Tree], from_version: str, to_version: str, *, stored: bool = False) -> list[Tree] | None:
        """The trees in another version; None when the converter has to wait.

        `stored` says that they come from the store, so that a failure isn't blamed on the client. Raises
        ConversionError, and what the converter refuses with.
        """
        if from_version == to_version:
            return trees
        try:
            made = self._converter.convert_now(trees, from_version, to_version)
        except Exception as error:
            raise self._failed(trees, from_version, to_version, error, stored) from error
        return None if made is None else self._with_kind(trees, made, to_version)

    async def convert(
        self, trees: list[Tree], from_version: str, to_version: str, *, stored: bool = False
    ) -> list[Tree]:
        """The same, waiting where necessary."""
        made = self.now(trees, from_version, to_version, stored=stored)
        return made if made is not None else await self._waited_for(trees, from_version, to_version, stored)

    async def one(
        self, tree: Tree, from_version: str, to_version: str, *, offload: Offload | None = None, stored: bool = False
    ) -> Tree:
        """One tree in another version. `offload` runs the conversion of a large object in a thread."""
        if offload is None:
            made = self.now([tree], from_version, to_version, stored=stored)
        else:
            made = await offload(partial(self.now, stored=stored), [tree], from_version, to_version)
        if made is None:
            made = await self._waited_for([tree], from_version, to_version, stored)
        return made[0]

    async def wait_for(self, tree: Tree, from_version: str, to_version: str) -> Tree:
        """One tree of a request in another version, by a converter that waits."""
        return (await self._waited_for([tree], from_version, to_version, stored=False))[0]

    async def _waited_for(self, trees: list[Tree], from_version: str, to_version: str, stored: bool) -> list[Tree]:
        try:
            made = await self._converter.convert(trees, from_version, to_version)
        except Exception as error:
            raise self._failed(trees, from_version, to_version, error, stored) from error
        return self._with_kind(trees, made, to_version)

    async def each(
        self,
        items: Sequence[T],
        tree_of: Callable[[T], Tree],
        from_version: str,
        to_version: str,
        tries: list[None] | None = None,
    ) -> list[Tree | StatusError]:
        """Convert many stored objects at once. The result has a tree or an error for each; `tree_of` makes its tree.

        A batch that fails is halved until the failing objects are found, with at most `MOST_TRIES` failures, and not at
        all for an error that says nothing about the objects (`LATER`, ``ConversionError.of_all``).
        """
        tries = [] if tries is None else tries
        try:
            made = (
                await self.convert(await _paced(tree_of, items), from_version, to_version, stored=True) if items else []
            )
        except StatusError as error:
            tries.append(None)
            of_all = error.code in LATER or (isinstance(error, ConversionError) and error.of_all)
            if len(items) == 1 or of_all or len(tries) > MOST_TRIES:
                return [error] * len(items)
        else:
            return list(made)
        half = len(items) // 2
        first = await self.each(items[:half], tree_of, from_version, to_version, tries)
        return first + await self.each(items[half:], tree_of, from_version, to_version, tries)

    async def old(self, tree: Tree, from_version: str, to_version: str) -> Tree:
        """A stored object in another version, as far as it can be read, for hooks that look at the old object.

        `tree` isn't changed. The result may be `tree` itself or share its metadata, and must never be stored. Raises
        ConversionError where the converter can't tell what can be read.
        """
        now = self.old_now(tree, from_version, to_version)
        if now is not None:
            return now
        try:
            return (
                await self.convert([copy_unless_pure(self._converter, tree)], from_version, to_version, stored=True)
            )[0]
        except StatusError as error:
            return self._convert_partially(tree, from_version, to_version, error)

    def old_now(self, tree: Tree, from_version: str, to_version: str) -> Tree | None:
        """The same without waiting; None when the converter has to wait."""
        if from_version == to_version:
            return tree
        try:
            made = self.now([copy_unless_pure(self._converter, tree)], from_version, to_version, stored=True)
        except StatusError as error:
            return self._convert_partially(tree, from_version, to_version, error)
        return None if made is None else made[0]

    def _convert_partially(self, tree: Tree, from_version: str, to_version: str, error: StatusError) -> Tree:
        """The readable part of an object whose conversion failed with `error`, which is raised if there is none."""
        converted = self._converter.convert_partially(tree, from_version, to_version)
        if converted is None:
            raise error
        return self._with_kind([tree], [converted], to_version)[0]

    def _with_kind(self, trees: list[Tree], made: list[Tree], to_version: str) -> list[Tree]:
        """The converted trees, with their new apiVersion."""
        if len(made) != len(trees):
            raise ConversionError(_names(trees), to_version, f"{len(trees)} objects became {len(made)}")
        api_version = self._definition.api_version(to_version)
        compiled = self.compiled.get(to_version)
        for tree in made:
            tree["apiVersion"], tree["kind"] = api_version, self._kind
            if compiled is not None:
                compiled.prune(tree)
        return made

    def _failed(
        self, trees: list[Tree], from_version: str, to_version: str, error: Exception, stored: bool
    ) -> Exception:
        """The exception to raise for `error`: itself where it can be shown as it is."""
        if isinstance(error, ConversionError):
            return error
        if isinstance(error, StatusError) and (not stored or error.code in LATER):
            return error
        if isinstance(error, FieldError) and not stored:
            name = (trees[0].get("metadata") or {}).get("name") or ""
            return InvalidObject(self._definition.group_kind, name, [error])
        culprit = self._culprit(trees, from_version, to_version)
        if culprit is None:
            name = _names(trees)  # `each` looks for the failing object, and logs it then
        else:
            name = name_of({"apiVersion": self._definition.api_version(from_version), "kind": self._kind, **culprit})
        refused = isinstance(error, StatusError | FieldError)
        why = str(error) if refused else f"{type(error).__name__}: {error}"
        if len(why) > SHOWN:
            why = why[:SHOWN] + "…"
        if culprit is not None or not stored:
            self._object_log.warn(name, (to_version, why), f"can't be converted to {to_version}: {why}", error)
        return ConversionError(
            name, to_version, why if refused else FAILED, self._advice(from_version) if stored else ""
        )

    def _advice(self, version: str) -> str:
        """The way out for a stored object that can't be converted from the version it is in."""
        definition = self._definition
        if version != definition.stored_as or not definition.version(version).served:
            return ""
        return f"it is stored, and can be read and repaired, as {definition.api_version(version)}"

    def _culprit(self, trees: list[Tree], from_version: str, to_version: str) -> Tree | None:
        """The tree that can't be converted; None when unknown."""
        if len(trees) == 1:
            return trees[0]
        if self._converter.pure:
            for tree in trees:
                try:
                    self._converter.convert_now([tree], from_version, to_version)
                except Exception:
                    return tree
        return None


STEP = 50
"""After how many trees the clock is looked at."""


async def _paced(tree_of: Callable[[T], Tree], items: Sequence[T]) -> list[Tree]:
    """The tree of each item, with pauses for the event loop."""
    pacer = Pacer()
    trees: list[Tree] = []
    for start in range(0, len(items), STEP):
        trees += map(tree_of, items[start : start + STEP])
        await pacer.turn()
    return trees


def _names(trees: list[Tree]) -> str:
    names = list(dict.fromkeys(map(name_of, trees)))
    return names[0] if len(names) == 1 else f"one of {len(names)} objects, {names[0]} to {names[-1]},"
