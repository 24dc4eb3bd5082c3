"""`ObjectPart`: which fields of an object a write may change.

A write to the object itself may change everything but what belongs to its subresources alone; a write to ``/status``
may change the status and nothing else. Whatever else a client sends is reset to the live object. The same rule says
which fields the writer may own in managedFields.
Must not know: how a subresource is declared, HTTP. See also: `update` and `create`, whose writes have a part. Source:
``PrepareForUpdate`` and ``GetResetFields`` of the API server's strategies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from oarlock.registry.conversion import Tree
from oarlock.schema.definition import ResourceDefinition, VersionDefinition

__all__ = ["STATUS", "ObjectPart", "Parts", "Path", "parts_of"]

Path = tuple[str, ...]
"""The names of nested fields, from the top of the object."""

STATUS: Final = "status"

_ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class ObjectPart:
    """The fields that a write may change: `fields`, or all if that is empty, and in them not `resets`.

    `name` is that of the subresource; empty for the object itself. `counts` says that a change increments generation.
    A write to a subresource changes no metadata either, except managedFields.
    """

    name: str
    fields: tuple[Path, ...] = ()
    resets: tuple[Path, ...] = ()
    counts: bool = True

    def confine(self, new: Tree, live: Tree) -> Tree:
        """`new` with all but this part as in `live`. Changes `new`; the result may share values with `live`."""
        if self.fields:
            sent, new = new, {**live, "metadata": _metadata(new["metadata"], live["metadata"])}
            for path in self.fields:
                _copy(path, sent, new)
        for path in self.resets:
            _copy(path, live, new)
        return new

    def clear(self, new: Tree) -> None:
        """Remove from a new object what this part may not set."""
        for path in self.resets:
            _copy(path, _NOTHING, new)


Parts = Mapping[str, ObjectPart]
"""The parts of a version by subresource; that of the object itself is at ``""``."""

_NOTHING: Tree = {}


def parts_of(definition: ResourceDefinition) -> dict[str, Parts]:
    """The parts of each version."""
    return {version.name: _parts(version) for version in definition.versions}


def _parts(version: VersionDefinition) -> Parts:
    status: dict[str, tuple[Path, ...]] = {STATUS: ((STATUS,),)} if version.status else {}
    parts = {
        name: ObjectPart(name, fields, (), counts=any(path[0] != STATUS for path in fields))
        for name, fields in status.items()
    }
    main = ObjectPart("", (), tuple(path for fields in status.values() for path in fields))
    parts[""] = main
    if version.scale is not None:
        parts["scale"] = ObjectPart("scale", main.fields, main.resets)
    return parts


def _metadata(sent: Tree, live: Tree) -> Tree:
    """The live metadata with the managedFields and the preconditions that were sent."""
    metadata = {**live}
    metadata.pop("resourceVersion", None)
    for name in ("resourceVersion", "managedFields", "uid"):
        if name in sent:
            metadata[name] = sent[name]
    return metadata


def _copy(path: Path, source: Tree, target: Tree) -> None:
    """Set or remove the field in `target` as it is in `source`. Objects on the way are copied, not changed."""
    found: Any = source
    for name in path:
        found = found.get(name, _ABSENT) if type(found) is dict else _ABSENT
    here = target
    for name in path[:-1]:
        below = here.get(name)
        if type(below) is not dict:
            if found is _ABSENT:
                return
            below = {}
        here[name] = here = {**below}
    if found is _ABSENT:
        here.pop(path[-1], None)
    else:
        here[path[-1]] = found
