"""``oarlock schema``: writes a JSON Schema for each kind and version, and says how editors and kubeconform find it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from oarlock.registry.served import Served
from oarlock.schema.definition import ResourceDefinition, Schema, VersionDefinition
from oarlock.schema.types.reflect import DECIMAL_KEY
from oarlock.server.command import CommandError

DRAFT = "http://json-schema.org/draft-07/schema#"

_KEPT = [
    "title",
    "description",
    "format",
    "maximum",
    "minimum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "enum",
    "default",
    "example",
]

_INT_OR_STRING = "x-kubernetes-int-or-string"
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_TEXT: Schema = {"type": "string"}
_TEXTS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}

_METADATA: Schema = {
    "type": "object",
    "properties": {
        "name": _TEXT,
        "generateName": _TEXT,
        "labels": _TEXTS,
        "annotations": _TEXTS,
        "finalizers": {"type": "array", "items": _TEXT},
        "ownerReferences": {"type": "array", "items": {"type": "object"}},
    },
    "anyOf": [{"required": ["name"]}, {"required": ["generateName"]}],
}


def object_json_schema(definition: ResourceDefinition, version: VersionDefinition) -> Schema:
    """The schema of an object in one version, as its author writes it."""
    made = _of(version.schema)
    metadata: Schema = {**_METADATA, "properties": dict(_METADATA["properties"])}
    if definition.namespaced:
        metadata["properties"]["namespace"] = _TEXT
    own = {k: v for k, v in made.get("properties", {}).items() if k not in ("apiVersion", "kind", "metadata")}
    required = [name for name in made.get("required", ()) if name in own]
    return {
        "$schema": DRAFT,
        "title": f"{definition.names.kind} {definition.api_version(version.name)}",
        **made,
        "properties": {
            "apiVersion": {"const": definition.api_version(version.name)},
            "kind": {"const": definition.names.kind},
            "metadata": metadata,
            **own,
        },
        "required": ["apiVersion", "kind", "metadata", *required],
    }


def any_of_them(files: Sequence[tuple[str, str, str]]) -> Schema:
    """A schema for objects of any of these kinds: apiVersion, kind, and the file with its schema."""
    choices = [
        {
            "if": {"properties": {"apiVersion": {"const": api_version}, "kind": {"const": kind}}},
            "then": {"$ref": file},
        }
        for api_version, kind, file in files
    ]
    return {
        "$schema": DRAFT,
        "type": "object",
        "required": ["apiVersion", "kind"],
        "properties": {
            "apiVersion": {"enum": sorted({api_version for api_version, _, _ in files})},
            "kind": {"enum": sorted({kind for _, kind, _ in files})},
        },
        "allOf": choices,
    }


def _of(schema: Schema) -> Schema:
    """A structural schema as JSON Schema."""
    result: Schema = {key: schema[key] for key in _KEPT if key in schema}
    _types(result, schema)
    pattern = schema.get("pattern", "")
    if pattern and "(?" not in pattern and "\\p" not in pattern and "\\z" not in pattern:
        result["pattern"] = pattern  # what is only RE2's is left to the server
    for bound, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if schema.get(bound) and limit in result:
            result[bound] = result.pop(limit)
    _structure(result, schema)
    for key in ("allOf", "anyOf", "oneOf"):
        if key in schema and not (key == "anyOf" and schema.get(_INT_OR_STRING)):
            result[key] = [_junctor(part) for part in schema[key]]
    if "not" in schema:
        result["not"] = _junctor(schema["not"])
    return result


def _types(result: Schema, schema: Schema) -> None:
    kind = schema.get("type")
    kinds = [kind] if kind else []
    if schema.get(_INT_OR_STRING):
        kinds = ["integer", "string"]
    elif schema.get(DECIMAL_KEY):
        kinds = ["string", "number"]
    if schema.get("nullable") and kinds:
        kinds = [*kinds, "null"]
        if "enum" in result:
            result["enum"] = [*result["enum"], None]
    if kinds:
        result["type"] = kinds[0] if len(kinds) == 1 else kinds


def _structure(result: Schema, schema: Schema) -> None:
    properties = schema.get("properties") or {}
    if properties:
        result["properties"] = {name: _of(inner) for name, inner in properties.items()}
    filled = {name for name, inner in properties.items() if "default" in inner}
    required = [name for name in schema.get("required") or () if name not in filled]
    if required:
        result["required"] = required
    values = schema.get("additionalProperties")
    if isinstance(values, dict):
        result["additionalProperties"] = _of(values)
    elif schema.get("type") == "object" and not values and not schema.get(_PRESERVE):
        result["additionalProperties"] = False
    if isinstance(schema.get("items"), dict):
        result["items"] = _of(schema["items"])


def _junctor(schema: Schema) -> Any:
    """A part of ``anyOf`` and its like: it only adds constraints, so it may be about some of the fields."""
    made = _of({key: value for key, value in schema.items() if key != "type"})
    made.pop("additionalProperties", None)
    return made


ALL = "all.json"
"""The schema of any of the kinds."""


def schemas_of(resources: Sequence[Served]) -> dict[str, Schema]:
    """The schemas by their file names: ``GROUP/kind_version.json``, where kubeconform is told to look."""
    files: dict[str, Schema] = {}
    listed: list[tuple[str, str, str]] = []
    for served in resources:
        definition = served.definition
        for version in definition.served_versions():
            gvk = definition.gvk(version.name)
            file = f"{gvk.group or 'core'}/{gvk.kind.lower()}_{gvk.version}.json"
            files[file] = object_json_schema(definition, version)
            listed.append((gvk.api_version, gvk.kind, file))
    return {**files, ALL: any_of_them(listed)}


def write_schemas(files: dict[str, Schema], folder: Path) -> None:
    """Write them below `folder`. Raises CommandError."""
    for name, schema in files.items():
        file = folder / name
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(schema, indent=2, ensure_ascii=False) + "\n")
        except OSError as error:
            raise CommandError(f"{error.filename or file}: {error.strerror}") from None


def advice(files: dict[str, Schema], folder: Path) -> Iterator[str]:
    """What to write where, so that editors and kubeconform read the schemas."""
    yield "In a YAML file, as its first line:"
    for name in files:
        if name != ALL:
            yield f"  # yaml-language-server: $schema={folder / name}"
    yield "In VS Code, for all files of a folder (.vscode/settings.json):"
    setting = json.dumps({"yaml.schemas": {str(folder / ALL): "manifests/**/*.yaml"}})
    yield f"  {setting}"
    yield "With kubeconform:"
    place = "{{.Group}}/{{.ResourceKind}}_{{.ResourceAPIVersion}}.json"
    # The first place that has a schema is used: "default" asks a server of the internet, also about kinds of one's own.
    yield f"  kubeconform -strict -schema-location '{folder}/{place}' -schema-location default FILE.yaml"
