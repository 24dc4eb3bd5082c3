"""`ResourceBase`: what stored and virtual resources at run time have in common.

Must not know: where objects are. See also: `stored.resource`, `virtual.resource`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, TypeVar

from oarlock.meta.json_trees import Tree
from oarlock.patch.apply.tracking import FieldTracker
from oarlock.registry.conversions import copy_tree
from oarlock.registry.served import Served, Settings
from oarlock.registry.write.body import compile_bodies, parts_of
from oarlock.registry.write.metadata import tracker_of
from oarlock.schema.compiled import CompiledVersion, compile_version

T = TypeVar("T")


class ResourceBase:
    """A definition with its compiled versions. `compiled` and `parts` are by version."""

    def __init__(self, served: Served, settings: Settings) -> None:
        self.served = served
        self.definition = served.definition
        self.settings = settings
        self.compiled: dict[str, CompiledVersion] = {
            version.name: compile_version(served.definition, version.name) for version in served.definition.versions
        }
        if not served.definition.typed and len(self.compiled) > 1:
            served.conversions.compiled = self.compiled
        self.bodies = compile_bodies(served.definition)
        self.parts = parts_of(served.definition)
        if any(compiled.large for compiled in self.compiled.values()):
            _ = self.fields  # made here, beside the event loop

    def compile(self, version: str) -> None:
        """Compile the schema of a version that waits for its first use, and what tracks its fields. For a thread."""
        self.compiled[version].compile()
        _ = self.fields

    @cached_property
    def fields(self) -> FieldTracker:
        """The owners of fields. Made on first use."""
        return tracker_of(self.served, self.compiled, copy_tree)

    async def offload(self, size: int, step: Callable[..., T], /, *args: Any) -> T:
        """Run a pure step of a request that has begun: in a thread if `size` (its object's `workers.offload_bytes`)
        isn't 0.

        A step that may convert runs on the event loop if the converter isn't ``threadsafe``.
        """
        return await self.settings.workers.go_on(size if self.served.converter.threadsafe else 0, step, *args)

    async def convert(
        self, tree: Tree, from_version: str, to_version: str, size: int = 0, *, stored: bool = False
    ) -> Tree:
        """The tree in another version; `tree` itself must not be used afterwards.

        `size` is its `workers.offload_bytes`; `stored` says that it comes from the store (see `Conversions`).
        """
        offload = partial(self.offload, size) if size and self.served.converter.threadsafe else None
        return await self.served.conversions.one(tree, from_version, to_version, offload=offload, stored=stored)
