"""Compares the schemas of generated classes with those they were made from.

Must not know: how classes are written.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any

from oarlock.schema.crd import export_crd
from oarlock.schema.definition import ResourceDefinition, Schema
from oarlock.schema.types.definitions import definition_of
from oarlock.schema.types.resources import Resource, Spoke, declared

_HEAD = ("apiVersion", "kind", "metadata")
_MODULE = "oarlock_generated_classes"


def classes_in(source: str) -> dict[str, Any]:
    """What a module with this source has. Raises DeclarationError."""
    module = types.ModuleType(_MODULE)
    sys.modules[_MODULE] = module
    try:
        exec(compile(source, "<generated>", "exec"), vars(module))
    finally:
        del sys.modules[_MODULE]
    return vars(module)


def differences(definitions: Sequence[ResourceDefinition], names: dict[str, Any]) -> Iterator[str]:
    """What the classes among `names` say otherwise than the definitions, a line each."""
    every = [cls for cls in names.values() if isinstance(cls, type) and "__declared__" in vars(cls)]
    for definition in definitions:
        own = [cls for cls in every if declared(cls).kind == definition.names.kind]
        own = [cls for cls in own if declared(cls).group == definition.group]
        hub = next(cls for cls in own if issubclass(cls, Resource))
        made = definition_of(hub, [cls for cls in own if issubclass(cls, Spoke)])
        yield from _of_definition(definition, made)


def _of_definition(wanted: ResourceDefinition, made: ResourceDefinition) -> Iterator[str]:
    kind = wanted.names.kind
    before, after = export_crd(wanted)["spec"], export_crd(made)["spec"]
    for key in ("group", "scope", "names"):
        if before[key] != after[key]:
            yield f"{kind}, {key}: {before[key]} became {after[key]}"
    versions = {version["name"]: version for version in after["versions"]}
    for version in before["versions"]:
        path, there = f"{kind} {version['name']}", versions[version["name"]]
        for key in sorted({*version, *there} - {"schema"}):
            if version.get(key) != there.get(key):
                yield f"{path}, {key}: {_shown(version.get(key))} became {_shown(there.get(key))}"
        old, new = (_comparable(tree["schema"]["openAPIV3Schema"]) for tree in (version, there))
        yield from schema_differences(old, new, path)


def _comparable(schema: Schema) -> Schema:
    """A schema of a whole object without what Kubernetes itself says of every object."""
    properties = {name: inner for name, inner in schema.get("properties", {}).items() if name not in _HEAD}
    metadata = {k: v for k, v in schema.get("properties", {}).get("metadata", {}).items() if k != "description"}
    return {**schema, "properties": {**properties, "metadata": {"type": "object", **metadata}}}


def schema_differences(before: Any, after: Any, path: str) -> Iterator[str]:
    """What is different between two schemas, each with its path."""
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        if key == "required":
            old, new = sorted(old or ()), sorted(new or ())
        if old == new or (key in ("properties", "required") and not old and not new):
            continue
        if key == "properties":
            for name in sorted({*(old or {}), *(new or {})}):
                yield from _of_field((old or {}).get(name), (new or {}).get(name), f"{path}.{name}")
        elif key in ("items", "additionalProperties") and isinstance(old, dict) and isinstance(new, dict):
            yield from schema_differences(old, new, f"{path}[]")
        else:
            yield f"{path}: {key}: {_shown(old)} became {_shown(new)}"


def _of_field(old: Any, new: Any, path: str) -> Iterator[str]:
    if old is None or new is None:
        yield f"{path}: {'is new' if old is None else 'is missing'}"
    else:
        yield from schema_differences(old, new, path)


def _shown(value: Any) -> str:
    return "nothing" if value is None else f"{value!r:.200}"
