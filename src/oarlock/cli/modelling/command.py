"""``oarlock model``: prints classes, and tells on stderr what they don't say.

What was printed is made once, and its schemas are compared with those it was made from.
"""

from __future__ import annotations

import asyncio
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any

from oarlock.cli.cluster_options import ModelOptions
from oarlock.cli.doctor.cluster import ClusterView
from oarlock.cli.modelling.classes import ClassSource
from oarlock.cli.modelling.sources import definitions_in_cluster, definitions_in_file, is_file
from oarlock.client.client import Client
from oarlock.client.http_transport import connect
from oarlock.client.keywords import RetryPolicy
from oarlock.client.login.kubeconfig import ClientConfigError, load_config
from oarlock.client.transport import TransportError
from oarlock.schema.crd import export_crd
from oarlock.schema.definition import ResourceDefinition, Schema
from oarlock.schema.types.declaring import DeclarationError
from oarlock.schema.types.definitions import definition_of
from oarlock.schema.types.resources import Resource, Spoke, declared
from oarlock.server.command import CommandError
from oarlock.server.options.commands import Command

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


DEADLINE_S = 60.0


def run(options: ModelOptions) -> int:
    """Print classes for resources that exist: of a CustomResourceDefinition or of a cluster's OpenAPI document.

    oarlock crd prints the same schemas again. What classes can't express is listed on stderr, one line each.
    """
    told: list[str] = []

    def tell(path: str, what: str) -> None:
        told.append(f"{path}: {what}")

    if is_file(options.source):
        definitions = definitions_in_file(options.source, tell)
    else:
        try:
            client = connect(load_config(options.kubeconfig, context=options.context))
            definitions = asyncio.run(_asked(client, options.source, told))
        except (ClientConfigError, TransportError, ValueError) as error:
            raise CommandError(str(error)) from None
        except TimeoutError:
            raise CommandError(f"the cluster takes longer than {DEADLINE_S:g} s to answer") from None
    source, more, right = classes_for(definitions)
    print(source, end="")
    for line in [*told, *more]:
        print(f"not in it: {line}", file=sys.stderr)
    return 0 if right else 1


async def _asked(client: Client, name: str, told: list[str]) -> Sequence[ResourceDefinition]:
    async with asyncio.timeout(DEADLINE_S), client:
        view = ClusterView(client.using(retries=RetryPolicy(retries=0)))
        return await definitions_in_cluster(view, name, lambda path, what: told.append(f"{path}: {what}"))


def classes_for(definitions: Sequence[ResourceDefinition]) -> tuple[str, list[str], bool]:
    """The source, what it doesn't say, and whether the classes in it can be made."""
    names = ", ".join(
        f"{definition.names.kind} of {definition.group or 'the core group'}" for definition in definitions
    )
    made = ClassSource(definitions, f"{names}.")
    source = str(made)
    try:
        found = [*differences(definitions, classes_in(source))]
    except DeclarationError as error:
        return source, [*made.told, f"a mistake that a class isn't allowed: {error}"], False
    return source, [*made.told, *found], True


MODEL = Command("model", ModelOptions, run)
