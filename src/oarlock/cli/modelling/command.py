"""``oarlock model``: prints classes, and tells on stderr what they don't say.

What was printed is made once, and its schemas are compared with those it was made from.
"""

from __future__ import annotations

import asyncio
import os
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from oarlock.cli.cluster_options import ModelOptions
from oarlock.cli.doctor.cluster import ClusterView, Missing, Unreadable
from oarlock.cli.modelling.classes import ClassSource
from oarlock.client.client import Client
from oarlock.client.http_transport import connect
from oarlock.client.keywords import RetryPolicy
from oarlock.client.login.kubeconfig import ClientConfigError, load_config
from oarlock.client.transport import TransportError
from oarlock.codec import yaml
from oarlock.codec.errors import DecodeError
from oarlock.codec.yaml import split_documents
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import version_priority
from oarlock.schema.crd import KIND, export_crd, read_definition
from oarlock.schema.crd_shape import shape_errors
from oarlock.schema.definition import Names, ResourceDefinition, Schema, VersionDefinition
from oarlock.schema.types.declaring import DeclarationError
from oarlock.schema.types.definitions import definition_of
from oarlock.schema.types.reflect import QUANTITY_PATTERN
from oarlock.schema.types.resources import Resource, Spoke, declared
from oarlock.server.command import CommandError
from oarlock.server.options.commands import Command

GVK = "x-kubernetes-group-version-kind"
_PREFIX = "#/components/schemas/"
_INT_OR_STRING: Schema = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
_FREE: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_TIME: Schema = {"type": "string", "format": "date-time"}

_KNOWN: Mapping[str, Schema] = {
    "resource.Quantity": {**_INT_OR_STRING, "pattern": QUANTITY_PATTERN},
    "intstr.IntOrString": _INT_OR_STRING,
    "v1.Time": _TIME,
    "v1.MicroTime": _TIME,
    "runtime.RawExtension": _FREE,
    "v1.FieldsV1": _FREE,
    "v1.JSON": {"x-kubernetes-preserve-unknown-fields": True},
}
"""Types by the ends of their names."""

_HEAD = ("apiVersion", "kind", "metadata")
"""What every object has."""

Tell = Callable[[str, str], None]


def definitions_of(document: Tree, tell: Tell) -> Iterator[ResourceDefinition]:
    """The resources that a document has paths for, in the one version that it is about."""
    schemas = (document.get("components") or {}).get("schemas") or {}
    found: dict[tuple[str, str, str], Schema] = {}
    for schema in schemas.values():
        for gvk in schema.get(GVK) or ():
            found.setdefault((gvk["group"], gvk["version"], gvk["kind"]), schema)
    for path, gvk in _listed(document.get("paths") or {}):
        group, version, kind = gvk
        schema = found.get(gvk)
        if schema is None or "metadata" not in schema.get("properties", {}):
            continue
        inline = _Inline(schemas, tell)
        own = {name: inner for name, inner in schema["properties"].items() if name not in _HEAD}
        kept = {key: value for key, value in schema.items() if key != GVK}
        whole = inline.of({**kept, "properties": own}, f"{kind} {version}", ())
        plural = path.rpartition("/")[2]
        status = f"{path}/{{name}}/status" in document["paths"]
        yield ResourceDefinition(
            group=group,
            names=Names(plural=plural, kind=kind),
            scope="Namespaced" if "/namespaces/{namespace}/" in path else "Cluster",
            versions=(VersionDefinition(version, whole, status=status and "status" in whole.get("properties", {})),),
            hub=version,
            stored_as=version,
        )


def _listed(paths: Tree) -> Iterator[tuple[str, tuple[str, str, str]]]:
    """The paths of collections in which an object has a path, each with its kind."""
    for path in paths:
        inner = paths.get(f"{path}/{{name}}")
        gvk = ((inner or {}).get("get") or {}).get(GVK)
        if not gvk or "/watch/" in path:
            continue
        yield path, (gvk["group"], gvk["version"], gvk["kind"])


def merged(definitions: Sequence[ResourceDefinition]) -> Sequence[ResourceDefinition]:
    """A definition for each resource, of those that have one version of it each. The preferred version is the hub."""
    by_kind: dict[tuple[str, str], list[ResourceDefinition]] = {}
    for definition in definitions:
        by_kind.setdefault((definition.group, definition.names.kind), []).append(definition)
    result = []
    for same in by_kind.values():
        versions = sorted((d.versions[0] for d in same), key=lambda version: version_priority(version.name))
        hub = versions[0].name
        result.append(replace(same[0], versions=tuple(versions), hub=hub, stored_as=hub))
    return result


def with_names(definition: ResourceDefinition, discovered: Tree) -> ResourceDefinition:
    """With the names that an APIResourceList has of it."""
    for resource in discovered.get("resources") or ():
        if resource.get("name") == definition.names.plural:
            names = replace(
                definition.names,
                singular=resource.get("singularName") or "",
                short_names=tuple(resource.get("shortNames") or ()),
                categories=tuple(resource.get("categories") or ()),
            )
            return replace(definition, names=names)
    return definition


class _Inline:
    """Schemas without references."""

    def __init__(self, schemas: Tree, tell: Tell) -> None:
        self._schemas = schemas
        self._tell = tell

    def of(self, schema: Schema, path: str, inside: tuple[str, ...]) -> Schema:
        """A schema with what its references lead to in their place. `inside` are the types around it."""
        result = dict(schema)
        reference = result.pop("$ref", "")
        alone = result.get("allOf")
        if not reference and isinstance(alone, list) and len(alone) == 1 and "$ref" in alone[0]:
            del result["allOf"]
            reference = alone[0]["$ref"]
        if reference:
            return self._referred(reference.removeprefix(_PREFIX), result, path, inside)
        if "properties" in result:
            required = result.get("required") or ()
            result["properties"] = {
                name: self.of(_without_zero(inner, name in required, bool(inside)), f"{path}.{name}", inside)
                for name, inner in result["properties"].items()
            }
        for key in ("items", "additionalProperties"):
            if isinstance(result.get(key), dict):
                result[key] = self.of(_without_zero(result[key], True, bool(inside)), f"{path}[]", inside)
        return result

    def _referred(self, name: str, said: Schema, path: str, inside: tuple[str, ...]) -> Schema:
        known = next((schema for end, schema in _KNOWN.items() if name.endswith(f".{end}")), None)
        if known is not None:
            return {**known, **said}
        if name in inside or name not in self._schemas:
            self._tell(path, f"{name} contains itself: it is free JSON there")
            return {**_FREE, **said}
        if said.get("default") == {}:
            del said["default"]  # that of a struct in Go, whose fields have their own
        target = {key: value for key, value in self._schemas[name].items() if key != GVK}
        return {**self.of(target, path, (*inside, name)), **said}


_ZEROS: tuple[Any, ...] = ({}, "", 0, False)


def _without_zero(schema: Schema, required: bool, referred: bool) -> Schema:
    """Without the zero value of Go as the default of a required field, as Kubernetes' own types have it."""
    if required and referred and schema.get("default", None) in _ZEROS and schema.get("default") is not None:
        return {key: value for key, value in schema.items() if key != "default"}
    return schema


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
