"""Examples of objects: those of the author's files, else one made of the schema. All are checked against it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from oarlock.codec import yaml
from oarlock.codec.errors import DecodeError
from oarlock.codec.yaml import split_documents
from oarlock.meta.dataclass import dataclass
from oarlock.meta.json_trees import Tree, copy_json
from oarlock.registry.served import Served
from oarlock.schema.compiled import compile_version
from oarlock.schema.definition import ResourceDefinition, Schema, VersionDefinition
from oarlock.server.command import CommandError


@dataclass(frozen=True, slots=True)
class Examples:
    """Objects by apiVersion and kind, each in YAML. Where the author wrote none, one is made if that is possible."""

    written: dict[tuple[str, str], list[str]]

    def of(self, definition: ResourceDefinition, version: VersionDefinition) -> Sequence[str]:
        """The examples of a version."""
        own = self.written.get((definition.api_version(version.name), definition.names.kind))
        return own or [yaml.encode(tree).decode() for tree in _made(definition, version)]


def read_examples(folder: Path | None, resources: Sequence[Served]) -> Examples:
    """The objects in the YAML files of a folder. Raises CommandError for one that its schema refuses."""
    written: dict[tuple[str, str], list[str]] = {}
    for file in sorted(folder.rglob("*.y*ml")) if folder is not None else ():
        try:
            documents = [*split_documents(file.read_bytes().splitlines(keepends=True))]
            for document in documents:
                tree, duplicates = yaml.decode(document.data)
                if duplicates:
                    raise CommandError(f"{file}: {', '.join(duplicates)}")
                key, problems = _checked(tree, resources)
                if problems:
                    raise CommandError(f"{file}, line {document.line}: {'; '.join(problems)}")
                if key is not None:
                    written.setdefault(key, []).append(document.data.decode().strip("\n") + "\n")
        except OSError as error:
            raise CommandError(f"{file}: {error.strerror}") from None
        except (DecodeError, UnicodeDecodeError) as error:
            raise CommandError(f"{file}: {error}") from None
    return Examples(written)


def _checked(tree: Any, resources: Sequence[Served]) -> tuple[tuple[str, str] | None, list[str]]:
    """Which kind an object is of, None for one of no kind of ours; and its mistakes."""
    if not isinstance(tree, dict):
        return None, []
    key = (str(tree.get("apiVersion", "")), str(tree.get("kind", "")))
    for served in resources:
        definition = served.definition
        for version in definition.served_versions():
            if key == (definition.api_version(version.name), definition.names.kind):
                return key, mistakes_of(tree, definition, version)
    return None, []


def mistakes_of(tree: Tree, definition: ResourceDefinition, version: VersionDefinition) -> list[str]:
    """What the schema refuses in an object, unknown fields too."""
    compiled = compile_version(definition, version.name)
    copy = copy_json(tree)
    if not isinstance(copy.get("metadata"), dict):
        return ["metadata: Required value"]
    errors = compiled.type_errors(copy)
    if errors:
        return [error.message for error in errors]
    unknown = compiled.prune(copy)
    compiled.normalize(copy)
    compiled.default(copy)
    return [*(f"unknown field {path}" for path in unknown), *(error.message for error in compiled.validate(copy))]


def _made(definition: ResourceDefinition, version: VersionDefinition) -> Iterator[Tree]:
    """An object with the fields that are required, if one can be made."""
    names = definition.names
    metadata: Tree = {"name": f"my-{names.singular}"}
    if definition.namespaced:
        metadata["namespace"] = "default"
    own = {k: v for k, v in version.schema.get("properties", {}).items() if k not in ("apiVersion", "kind", "metadata")}
    body = _value({**version.schema, "properties": {k: v for k, v in own.items() if k != "status"}})
    tree = {"apiVersion": definition.api_version(version.name), "kind": names.kind, "metadata": metadata, **body}
    if not mistakes_of(tree, definition, version):
        yield tree


_TEXTS = {
    "date-time": "2026-01-02T15:04:05Z",
    "date": "2026-01-02",
    "byte": "aGVsbG8=",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "cidr": "192.0.2.0/24",
    "email": "someone@example.com",
    "uri": "https://example.com",
    "hostname": "example.com",
    "duration": "1h30m",
}


def _value(schema: Schema) -> Any:
    """The value that an example has."""
    for key in ("example", "default"):
        if key in schema:
            return copy_json(schema[key])
    if schema.get("enum"):
        return schema["enum"][0]
    if schema.get("x-kubernetes-int-or-string"):
        return "1"
    match schema.get("type"):
        case "object":
            required = schema.get("required") or ()
            properties = schema.get("properties") or {}
            shown = [name for name in required if name in properties and "default" not in properties[name]]
            return {name: _value(properties[name]) for name in shown}
        case "array":
            return [_value(schema.get("items") or {})] * int(schema.get("minItems", 0))
        case "integer" | "number":
            return _number(schema)
        case "boolean":
            return True
        case "string":
            return _text(schema)
    return {}


def _number(schema: Schema) -> int | float:
    step = schema.get("multipleOf", 1)
    low = schema.get("minimum")
    if low is not None:
        number = low + (step if schema.get("exclusiveMinimum") else 0)
    else:
        number = min(step, schema.get("maximum", step))
    return number if schema.get("type") == "number" else int(number)


def _text(schema: Schema) -> str:
    text = _TEXTS.get(schema.get("format", ""), "") or ("1" if "pattern" in schema else "text")
    least: int = schema.get("minLength", 0)
    most: int = schema.get("maxLength", len(text))
    return (text * (least // len(text) + 1))[: max(least, min(len(text), most))]
