"""What the schema tests share: a reader of Go-shaped schemas in tables of cases, and small definitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from oarlock.schema.compiled import CompiledVersion, compile_version
from oarlock.schema.definition import Names, ResourceDefinition, VersionDefinition

_GO_KEYS = {
    "XIntOrString": "x-kubernetes-int-or-string",
    "XPreserveUnknownFields": "x-kubernetes-preserve-unknown-fields",
    "XEmbeddedResource": "x-kubernetes-embedded-resource",
    "XListType": "x-kubernetes-list-type",
    "XListMapKeys": "x-kubernetes-list-map-keys",
    "XMapType": "x-kubernetes-map-type",
    "XValidations": "x-kubernetes-validations",
}


def from_go(value: Any) -> Any:
    """A schema as Go's structs spell it (``Properties``, ``Items.Schema``, ``XIntOrString``) in JSON's spelling."""
    if value is None:
        return None
    schema: dict[str, Any] = {}
    for key, item in value.items():
        if key == "$type" or item is None:
            continue
        if key in ("Generic", "Extensions", "ValueValidation", "ValidationExtensions"):
            schema.update(from_go(item))
        elif key == "Properties":
            schema["properties"] = {name: from_go(child) for name, child in item.items()}
        elif key in ("Items", "AdditionalProperties", "Not"):
            name = key[0].lower() + key[1:]
            inner = item.get("Schema", item.get("Structural", item))
            if key == "AdditionalProperties" and set(item) - {"$type"} <= {"Bool", "Allows"}:
                schema[name] = item.get("Allows", "Bool" in item)
            else:
                schema[name] = from_go(inner)
        elif key in ("AllOf", "AnyOf", "OneOf"):
            schema[key[0].lower() + key[1:]] = [from_go(child) for child in item]
        elif key == "XValidations":
            schema[_GO_KEYS[key]] = [{name[0].lower() + name[1:]: said for name, said in rule.items()} for rule in item]
        elif key == "Default":
            schema["default"] = item["Object"] if isinstance(item, dict) and "Object" in item else item
        else:
            schema[_GO_KEYS.get(key, key[0].lower() + key[1:])] = item
    return schema


@pytest.fixture(scope="session")
def go_schema() -> Callable[[Any], Any]:
    return from_go


@pytest.fixture(scope="session")
def compiled() -> Callable[..., CompiledVersion]:
    """`compiled(spec_schema, typed=True)`: a compiled version v1 of kind Thing whose spec has that schema.

    `root` are the schemas of other fields of the object.
    """

    def compile_spec(
        spec: dict[str, Any], *, typed: bool = True, selectable: tuple[str, ...] = (), **root: dict[str, Any]
    ) -> CompiledVersion:
        schema = {
            "type": "object",
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": {"type": "object"},
                "spec": spec,
                **root,
            },
        }
        version = VersionDefinition("v1", schema, selectable=selectable)
        names = Names("things", "Thing")
        definition = ResourceDefinition("example.com", names, "Namespaced", (version,), "v1", "v1", typed=typed)
        return compile_version(definition, "v1")

    return compile_spec
