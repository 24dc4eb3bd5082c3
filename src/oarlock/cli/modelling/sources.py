"""Finds definitions: in files of YAML or JSON, and in a cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from oarlock.cli.doctor.cluster import ClusterView, Missing, Unreadable
from oarlock.cli.modelling.openapi import Tell, definitions_of, merged, with_names
from oarlock.codec import yaml
from oarlock.codec.errors import DecodeError
from oarlock.codec.yaml_documents import split_documents
from oarlock.meta.json_trees import Tree
from oarlock.schema.crd import KIND, read_definition
from oarlock.schema.crd_shape import shape_errors
from oarlock.schema.definition import ResourceDefinition
from oarlock.server.command import CommandError

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def is_file(source: str) -> bool:
    """Whether a source is a file rather than a resource in a cluster."""
    return source == "-" or os.sep in source or source.endswith((".yaml", ".yml", ".json")) or Path(source).is_file()


def definitions_in_file(source: str, tell: Tell) -> Sequence[ResourceDefinition]:
    """The definitions in a file, ``-`` for stdin: CustomResourceDefinitions, or an OpenAPI v3 document."""
    try:
        data = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
        trees = [yaml.decode(document.data)[0] for document in split_documents(data.splitlines(keepends=True))]
    except OSError as error:
        raise CommandError(f"{source}: {error.strerror}") from None
    except DecodeError as error:
        raise CommandError(f"{source}: {error}") from None
    found: list[ResourceDefinition] = []
    for tree in trees:
        if isinstance(tree, dict) and str(tree.get("openapi", "")).startswith("3"):
            found += merged([*definitions_of(tree, tell)])
        else:
            found += [_definition(item, source, tell) for item in _objects(tree) if item.get("kind") == KIND]
    if not found:
        raise CommandError(f"{source}: it contains neither a {KIND} nor an OpenAPI v3 document with resources")
    return found


def _objects(tree: object) -> Iterator[Tree]:
    if not isinstance(tree, dict):
        return
    items = tree.get("items") if str(tree.get("kind", "")).endswith("List") else None
    yield from (item for item in items if isinstance(item, dict)) if isinstance(items, list) else [tree]


def _definition(tree: Tree, source: str, tell: Tell) -> ResourceDefinition:
    errors = [*shape_errors(tree)]
    if errors:
        raise CommandError(f"{source}: {'; '.join(error.message for error in errors)}")
    spec = tree["spec"]
    for version in spec["versions"]:
        version.setdefault("schema", {}).setdefault("openAPIV3Schema", {"type": "object"})
    if not any(version["storage"] for version in spec["versions"]):
        raise CommandError(f"{source}: no version of {spec['names']['kind']} is the stored one")
    if ((spec.get("conversion") or {}).get("strategy")) == "Webhook":
        kind = spec["names"]["kind"]
        tell(kind, "what the webhook does that converts between its versions")
    return read_definition(tree)


async def definitions_in_cluster(view: ClusterView, name: str, tell: Tell) -> Sequence[ResourceDefinition]:
    """The definition of ``PLURAL.GROUP``: the CustomResourceDefinition, or what OpenAPI and discovery say.

    Raises CommandError, TransportError.
    """
    try:
        return [_definition(await view.read(f"{DEFINITIONS}/{name}"), name, tell)]
    except (Missing, Unreadable):
        pass  # served by something else, or not to be read by everybody
    plural, _, group = name.partition(".")
    try:
        found = await _published(view, plural, group, tell)
    except (Missing, Unreadable) as error:
        raise CommandError(f"{name}: its OpenAPI document can't be read: {error}") from None
    if not found:
        raise CommandError(f"{name}: the cluster serves no such resource; kubectl api-resources shows what there is")
    return found


async def _published(view: ClusterView, plural: str, group: str, tell: Tell) -> Sequence[ResourceDefinition]:
    prefix = f"apis/{group}/" if group else "api/"
    paths = (await view.read("/openapi/v3")).get("paths") or {}
    found: list[ResourceDefinition] = []
    for path, place in sorted(paths.items()):
        if path.startswith(prefix) and path.count("/") == prefix.count("/"):
            url, _, query = place["serverRelativeURL"].partition("?")
            document = await view.read(url, **dict(pair.split("=", 1) for pair in query.split("&") if pair))
            own = [d for d in definitions_of(document, tell) if d.names.plural == plural]
            discovered = await view.read(f"/{path}") if own else {}
            found += [with_names(definition, discovered) for definition in own]
    return merged(found)
