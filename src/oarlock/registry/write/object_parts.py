"""`ObjectPart`: which fields of an object a write may change.

A write to the object itself may change everything but what belongs to its subresources alone; a write to ``/status``
may change the status and nothing else. Whatever else a client sends is reset to the live object. The same rule says
which fields the writer may own in managedFields.
Must not know: how a subresource is declared, HTTP. See also: `update` and `create`, whose writes have a part. Source:
``PrepareForUpdate`` and ``GetResetFields`` of the API server's strategies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from oarlock.meta.dataclass import dataclass
from oarlock.meta.json_trees import Tree
from oarlock.patch.apply.fieldsets import Filter, excluding, including, make
from oarlock.schema.definition import ResourceDefinition, VersionDefinition

__all__ = ["STATUS", "FieldPath", "ObjectPart", "Parts", "field_filters", "parts_of"]

FieldPath = tuple[str, ...]
"""The names of nested fields, from the top of the object."""

STATUS: Final = "status"

_ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class ObjectPart:
    """The fields that a write may change: `fields`, or all if that is empty, and in them not `resets`.

    `name` is that of the subresource; empty for the object itself. `counts` says that a change increments generation,
    `takes_all` that a new object may have all of it, `defaults_status` that a status which nobody wrote has the default
    of its schema, as in custom resources.
    A write to a subresource changes no metadata but that in `fields`, and managedFields.
    """

    name: str
    fields: tuple[FieldPath, ...] = ()
    resets: tuple[FieldPath, ...] = ()
    counts: bool = True
    defaults_status: bool = False
    takes_all: bool = False

    def confine(self, new: Tree, live: Tree) -> Tree:
        """`new` with all but this part as in `live`. Changes `new`; the result may share values with `live`."""
        if self.fields:
            sent, new = new, {**live, "metadata": _metadata(new["metadata"], live["metadata"])}
            for path in self.fields:
                _copy(path, sent, new)
        for path in self.resets:
            _copy(path, live, new)
        return new

    def clear(self, new: Tree, default: Callable[[Tree], None]) -> None:
        """Remove from a new object what this part may not set; `default` sets the defaults of such fields again.

        Else there is no status at all before it is written.
        """
        if self.takes_all:
            return
        for path in self.resets:
            _copy(path, _NOTHING, new)
        if self.defaults_status:
            default(new)
        elif self.resets and self.resets != _ONLY_STATUS:
            default(new)
            if _ONLY_STATUS[0] in self.resets:
                new.pop(STATUS, None)


Parts = Mapping[str, ObjectPart]
"""The parts of a version by subresource; that of the object itself is at ``""``."""

_NOTHING: Tree = {}
_ONLY_STATUS: Final = ((STATUS,),)


def field_filters(definition: ResourceDefinition) -> dict[str, Filter]:
    """By subresource: which fields a write to it may own in managedFields."""
    fields: dict[str, dict[FieldPath, None]] = {}
    resets: dict[str, dict[FieldPath, None]] = {}
    for parts in parts_of(definition).values():
        for name, part in parts.items():
            if part.fields or part.resets:
                fields.setdefault(name, {}).update(dict.fromkeys(part.fields))
                resets.setdefault(name, {}).update(dict.fromkeys(part.resets))
    return {name: _filter(fields[name], resets[name]) for name in fields if name != "scale"}


def _filter(fields: Iterable[FieldPath], resets: Iterable[FieldPath]) -> Filter:
    owned, reset = ([tuple(f"f:{name}" for name in path) for path in paths] for paths in (fields, resets))
    keep, drop = including(*owned), excluding(make(reset))
    if not owned:
        return drop
    return keep if not reset else lambda given: drop(keep(given))


def parts_of(definition: ResourceDefinition) -> dict[str, Parts]:
    """The parts of each version."""
    return {version.name: _parts(version, typed=definition.typed) for version in definition.versions}


def _parts(version: VersionDefinition, *, typed: bool) -> Parts:
    fields: dict[str, tuple[FieldPath, ...]] = {}
    uncounted: set[str] = set()
    if version.status:
        fields[STATUS] = ((STATUS,), *(("metadata", name) for name in version.status_metadata))
    private: list[FieldPath] = [(STATUS,)] if version.status else []
    for subresource in version.subresources:
        if subresource.fields:
            fields[subresource.name] = tuple(tuple(path.split(".")) for path in subresource.fields)
            if not subresource.counts:
                uncounted.add(subresource.name)
            private += () if subresource.shared else fields[subresource.name]
    status = (version.schema.get("properties") or {}).get(STATUS) or {}
    defaults_status = version.status and not typed and status.get("default") is not None
    taken = version.status_at_creation
    main = ObjectPart("", (), _outermost(private), defaults_status=defaults_status, takes_all=taken)
    parts = {"": main}
    for name, own in fields.items():
        inside = [path for path in private if path not in own and any(_is_below(path, outer) for outer in own)]
        counts = name not in uncounted and not (version.status and all(path[0] in (STATUS, "metadata") for path in own))
        parts[name] = ObjectPart(name, own, _outermost(inside), counts)
    if version.scale is not None:
        parts["scale"] = ObjectPart("scale", main.fields, main.resets)
    return parts


def _outermost(paths: list[FieldPath]) -> tuple[FieldPath, ...]:
    """The paths that aren't below others, each once."""
    return tuple(dict.fromkeys(path for path in paths if not any(_is_below(path, other) for other in paths)))


def _is_below(path: FieldPath, outer: FieldPath) -> bool:
    return len(path) > len(outer) and path[: len(outer)] == outer


def _metadata(sent: Tree, live: Tree) -> Tree:
    """The live metadata with the managedFields and the preconditions that were sent."""
    metadata = {**live}
    metadata.pop("resourceVersion", None)
    for name in ("resourceVersion", "managedFields", "uid"):
        if name in sent:
            metadata[name] = sent[name]
    return metadata


def _copy(path: FieldPath, source: Tree, target: Tree) -> None:
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
