"""Conversions for managedFields tracking with a converter that has to wait, such as a webhook.

Fields owned through another version are compared in that version, by code that is synchronous. That code raises
`NeedsConversion` at the first conversion it lacks; the conversion is awaited, and the code runs again, until it has
all. A converter that never waits is called directly.
Must not know: fields and their owners. See also: `managed_fields`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

from oarlock.codec import json
from oarlock.meta.errors import StatusError
from oarlock.meta.json_trees import Tree
from oarlock.patch.apply.errors import ApplyError, UnknownVersion
from oarlock.registry.served import Served
from oarlock.registry.workers import Offload

__all__ = ["ConversionFailed", "FieldConversions", "NeedsConversion"]

R = TypeVar("R")
_Known = dict[tuple[bytes, str], "Tree | StatusError"]


class ConversionFailed(ApplyError):
    """The converter refused; `status` is its answer."""

    def __init__(self, status: StatusError) -> None:
        super().__init__(str(status))
        self.status = status


class NeedsConversion(Exception):
    """`tree` is needed in `to_api_version`, and the conversion has to be awaited, which `then` does."""

    def __init__(self, conversions: FieldConversions, tree: Tree, to_api_version: str) -> None:
        super().__init__(f"{to_api_version} of an object must be awaited")
        self.conversions = conversions
        self.tree = tree
        self.to_api_version = to_api_version

    async def then(self, call: Callable[[], R], along: Iterable[Tree], offload: Offload) -> R:
        """Run `call` with the conversions it needs. It must be pure: it runs again for each conversion.

        `along` are trees that will be needed in the same versions and are converted with the first. `offload` runs
        `call`.
        """
        known: _Known = {}
        trees = {_key(tree): tree for tree in map(_bare, along)}
        needed = self
        while True:
            bare = _bare(needed.tree)
            trees[_key(bare)] = bare
            await self.conversions.learn(known, trees, needed)
            try:
                return await offload(self.conversions.knowing, known, call)
            except NeedsConversion as another:
                needed = another


class _Here(threading.local):
    """The known conversions of the call that runs in this thread."""

    def __init__(self) -> None:
        self.known: _Known = {}


class FieldConversions:
    """The ``convert`` function of a `FieldTracker`. `copy` makes the copies that a converter may change."""

    def __init__(self, served: Served, copy: Callable[[Tree], Tree]) -> None:
        self._served = served
        self._versions = {served.definition.api_version(v.name): v.name for v in served.definition.versions}
        self._copy = copy
        self._here = _Here()

    def __call__(self, tree: Tree, from_api_version: str, to_api_version: str) -> Tree:
        """The tree in another version. Raises UnknownVersion, NeedsConversion, ConversionFailed."""
        versions, served = self._versions, self._served
        if from_api_version not in versions or to_api_version not in versions:
            raise UnknownVersion(f"{to_api_version} is no version of {served.definition.group_resource}")
        try:
            made = served.converter.convert_now(
                [self._copy(tree)], versions[from_api_version], versions[to_api_version]
            )
        except Exception:
            return tree  # what can't be converted, such as part of an object, keeps its field names
        if made is not None:
            made[0]["apiVersion"] = to_api_version
            return made[0]
        found = self._here.known.get((_key(_bare({**tree, "apiVersion": from_api_version})), to_api_version))
        if found is None:
            raise NeedsConversion(self, {**tree, "apiVersion": from_api_version}, to_api_version)
        if isinstance(found, StatusError):
            raise ConversionFailed(found)
        return found

    def knowing(self, known: _Known, call: Callable[[], R]) -> R:
        """Run `call` with these known conversions."""
        before, self._here.known = self._here.known, known
        try:
            return call()
        finally:
            self._here.known = before

    async def learn(self, known: _Known, trees: dict[bytes, Tree], needed: NeedsConversion) -> None:
        """Convert the tree that `needed` asks for, and all of `trees` in the same version, and add them to `known`."""
        source, to = needed.tree["apiVersion"], needed.to_api_version
        wanted = {
            key: tree for key, tree in trees.items() if tree.get("apiVersion") == source and (key, to) not in known
        }
        copies = [self._copy(tree) for tree in wanted.values()]
        for copy in copies:
            copy.setdefault("kind", self._served.definition.names.kind)
            copy.setdefault("metadata", {})
        try:
            made = await self._served.convert(copies, self._versions[source], self._versions[to])
        except StatusError as error:
            known.update(dict.fromkeys(((key, to) for key in wanted), error))
        else:
            known.update({(key, to): tree for key, tree in zip(wanted, made, strict=True)})


def _bare(tree: Tree) -> Tree:
    """The tree without managedFields, which are the same in every version."""
    metadata = tree.get("metadata")
    if type(metadata) is not dict or "managedFields" not in metadata:
        return tree
    return {**tree, "metadata": {name: value for name, value in metadata.items() if name != "managedFields"}}


def _key(tree: Tree) -> bytes:
    return json.encode_canonical(tree)
