"""``oarlock schema``: writes a JSON Schema for each kind and version, and says how editors and kubeconform find it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from oarlock.cli.publishing.json_schema import any_of_them, object_json_schema
from oarlock.registry.served import Served
from oarlock.schema.definition import Schema
from oarlock.server.command import CommandError

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
