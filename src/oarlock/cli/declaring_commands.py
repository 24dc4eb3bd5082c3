"""The commands about declared classes: ``oarlock check``, ``crd``, ``schema`` and ``docs``. None starts a server.

Must not know: how a server runs. See also: `loading`, which finds the classes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from oarlock.apps.api_server import APIServer
from oarlock.cli.loading import DeclarationsArgument, ServerArgument, load_declared, load_own, load_server
from oarlock.cli.publishing.schema_files import advice, schemas_of, write_schemas
from oarlock.cli.publishing.site import site_files, write_site
from oarlock.codec import yaml
from oarlock.meta.dataclass import dataclass
from oarlock.meta.kinds import BUILT_IN_GROUPS
from oarlock.registry.served import Hooks, Served
from oarlock.schema.crd import crd_errors, export_crd
from oarlock.schema.definition import Column, ResourceDefinition, VersionDefinition
from oarlock.schema.structural.merge_keys import MERGE_KEY, STRATEGY
from oarlock.schema.structural.proto_numbers import NUMBER
from oarlock.schema.types.reflect import DECIMAL_KEY
from oarlock.server.command import CommandError
from oarlock.server.options.commands import Command
from oarlock.server.options.option import argument, option
from oarlock.server.options.types import PathType, StringType, WordType


def describe(server: APIServer) -> Iterator[str]:
    """One line for each group of a user's, and for each kind in it, its versions and what is special about each."""
    group = None
    for served in sorted(_own(server), key=lambda own: (own.definition.group, own.definition.names.plural)):
        definition = served.definition
        if definition.group != group:
            group = definition.group
            yield group
        yield f"  {_kind(served)}"
        for version in definition.versions:
            yield f"    {_version(definition, version, stored=served.virtual is None)}"


def _own(server: APIServer) -> list[Served]:
    """The resources that aren't Kubernetes' own."""
    return [served for served in server.catalog.resources if served.definition.group not in BUILT_IN_GROUPS]


def _kind(served: Served) -> str:
    names = served.definition.names
    shown_names = ", ".join((names.plural, *names.short_names))
    attributes = [served.definition.scope.lower(), *(f"in {category}" for category in names.categories)]
    if served.virtual is not None:
        attributes.append("virtual: " + " ".join(served.verbs()))
    return f"{names.kind} ({shown_names}): {', '.join(attributes)}"


def _version(definition: ResourceDefinition, version: VersionDefinition, *, stored: bool) -> str:
    facts = [
        *(["hub"] if version.name == definition.hub and len(definition.versions) > 1 else []),
        *(["stored"] if stored and version.name == definition.stored_as else []),
        *(["deprecated"] if version.deprecated else []),
        *([] if version.served else ["not served"]),
        *(f"/{name}" for name, there in (("status", version.status), ("scale", version.scale is not None)) if there),
        *(f"/{subresource.name}" for subresource in version.subresources),
    ]
    return f"{version.name}: {', '.join(facts)}" if facts else version.name


def warnings_about(server: APIServer) -> Iterator[str]:
    """Warnings for what is allowed but probably not meant, each with what to write instead."""
    for served in _own(server):
        definition = served.definition
        for version in definition.versions:
            where = f"{definition.names.kind} {definition.api_version(version.name)}"
            for warning in _version_warnings(definition, version, stored=served.virtual is None):
                yield f"{where}: {warning}"
        if served.virtual is not None and "list" not in served.verbs():
            yield f"{definition.names.kind}: kubectl get can't list it: write a method list"
    if server.authorizer is None and not server.default_authorization:
        yield "every authenticated user may do everything: set authorizer= of APIServer"


def _version_warnings(definition: ResourceDefinition, version: VersionDefinition, *, stored: bool) -> Iterator[str]:
    if not version.schema.get("description"):
        yield "it has no description: write a docstring, which kubectl explain shows"
    if version.deprecated and stored and definition.stored_as == version.name and len(definition.versions) > 1:
        yield "it is deprecated, and objects are stored in it: store them in another version with stored_as"
    if stored and "status" in version.schema.get("properties", {}) and not version.status:
        yield "users who may write it may write its status: set status_subresource=True"


MOST_SELECTABLE = 8
"""How many selectable fields a version of a CustomResourceDefinition may have."""

_OPTIONS = (
    ("generation", True, "generation=False: a cluster counts generations of every custom resource"),
    ("unconditional_update", False, "unconditional_update: a PUT without resourceVersion is refused by a cluster"),
    ("create_on_update", False, "create_on_update: a PUT to a name that isn't there is a 404 in a cluster"),
    ("delete_returns", "status", "delete_returns='object': a cluster answers a DELETE with a Status"),
    ("ttl_s", None, "ttl_s: objects don't expire in a cluster"),
    (
        "name_rule",
        "dns-subdomain",
        "name_rule: in a cluster every DNS subdomain is a name; say it with a rule on metadata.name",
    ),
    ("gc_default", "background", "gc_default: a cluster deletes dependents in the background"),
    ("finalizers_at", "", "finalizers_at: only metadata.finalizers keep an object in a cluster"),
    ("initializers", (), "initializers: in a cluster objects are seen at once; write an admission webhook"),
    ("rbac", None, "rbac: add ClusterRoles with aggregate-to labels for view, edit and admin"),
    ("delete_collection", True, "delete_collection=False: a cluster lets everything be deleted at once"),
)


def exported(definition: ResourceDefinition) -> dict[str, Any]:
    """The definition as a CustomResourceDefinition: what a cluster has no place for is left out."""
    return export_crd(replace(definition, versions=tuple(_plain(version) for version in definition.versions)))


def _plain(version: VersionDefinition) -> VersionDefinition:
    columns = [_plain_column(column) for column in version.columns if not column.expression]
    return replace(version, columns=tuple(columns), selectable=version.selectable[:MOST_SELECTABLE])


def _plain_column(column: Column) -> Column:
    return replace(column, type="date" if column.type == "age" else column.type)


def missing(served: Served) -> Iterator[str]:
    """What the CustomResourceDefinition of a resource doesn't say, a line each, with what to do instead."""
    definition = served.definition
    yield from _code(served)
    for attribute, plain, text in _OPTIONS:
        if getattr(definition, attribute) != plain:
            yield text
    for version in definition.versions:
        for text in _of_version(version):
            yield f"{version.name}: {text}" if len(definition.versions) > 1 else text
    for error in crd_errors(exported(definition)):
        yield f"a cluster would refuse it: {error.message}"


def _code(served: Served) -> Iterator[str]:
    hooks = served.hooks
    if hooks.default:
        yield "default(): write defaults of the fields, or a mutating admission webhook"
    names = [name for name in ("prepare", "validate", "mark_deleted") if _has(hooks, name)]
    if names:
        yield f"{' and '.join(names)}: write rules, or an admission webhook"
    if hooks.subresources or hooks.parts:
        yield f"subresources of its own: {', '.join(sorted({*hooks.subresources, *hooks.parts}))}"
    if len(served.definition.versions) > 1 and not served.converter.alike:
        yield "conversion between its versions: add spec.conversion with a webhook, or fields are lost"


def _has(hooks: Hooks, name: str) -> bool:
    return getattr(hooks, name) is not None


def _of_version(version: VersionDefinition) -> Iterator[str]:
    for column in version.columns:
        if column.expression:
            yield f"column {column.name}: it is computed, and a cluster's has a jsonPath"
        elif not column.relative:
            yield f"column {column.name}: a cluster shows the date as an age"
    for path in version.selectable[MOST_SELECTABLE:]:
        yield f"selectable field {path}: a cluster takes {MOST_SELECTABLE}"
    if _has_key(version.schema, NUMBER):
        yield "protobuf: a cluster answers with JSON and YAML only"
    if _has_key(version.schema, DECIMAL_KEY):
        yield "numbers for decimals: a cluster takes texts only"
    if _has_key(version.schema, MERGE_KEY) or _has_key(version.schema, STRATEGY):
        yield "merge keys: a cluster refuses strategic merge patches of custom resources; apply merges lists"


def _has_key(schema: Any, key: str) -> bool:
    if isinstance(schema, dict):
        return key in schema or any(_has_key(value, key) for value in schema.values())
    return isinstance(schema, list) and any(_has_key(value, key) for value in schema)


def print_definitions(where: str, resource: str, output: str) -> None:
    """Print the definitions on stdout, as ``json`` or ``yaml``, and what they lack on stderr."""
    chosen = _chosen(where, resource)
    trees = [exported(resource.definition) for resource in chosen]
    if output == "json":
        tree = trees[0] if len(trees) == 1 else {"apiVersion": "v1", "kind": "List", "items": trees}
        print(json.dumps(tree, indent=2))
    else:
        for tree in trees:
            print("---")
            print(yaml.encode(tree).decode(), end="")
    for served in chosen:
        for text in missing(served):
            print(f"{served.definition.names.kind}: not in it: {text}", file=sys.stderr)


def _chosen(where: str, resource: str) -> Sequence[Served]:
    every = load_declared(where)
    stored = [served for served in every if served.virtual is None]
    if resource:
        chosen = [served for served in stored if resource == str(served.definition.group_resource)]
    else:
        chosen = [served for served in stored if served.definition.group not in BUILT_IN_GROUPS]
    if chosen:
        return chosen
    names = ", ".join(str(served.definition.group_resource) for served in stored) or "nothing is stored"
    raise CommandError(f"{where}: no {resource or 'resource'} to print: {names}")


def _check(options: ServerArgument) -> None:
    """Print which of your kinds an APIServer would serve, with warnings about doubtful declarations.

    Kubernetes' own kinds aren't shown. No server is started and no store is opened. A mistake is printed on one line,
    and the exit code is 1.
    """
    loaded = load_server(options.server)
    for line in [*describe(loaded)] or ["no kinds of your own"]:
        print(line)
    for warning in warnings_about(loaded):
        print(f"warning: {warning}")


@dataclass(frozen=True, kw_only=True, repr=False)
class _CRD(DeclarationsArgument):
    resource: str = argument(
        StringType("RESOURCE.GROUP"), "Print only this resource, for example orders.shop.example.com.", default=""
    )
    output: str = option("yaml", WordType("FORMAT", "yaml", "json"), "The format: yaml or json.", in_file=False)


def _crd(options: _CRD) -> None:
    """Print declared classes as CustomResourceDefinitions, for any cluster and for oarlock up.

    What a definition can't express, such as hooks and conversions, is listed on stderr, one line each.
    """
    print_definitions(options.declarations, options.resource, options.output)


@dataclass(frozen=True, kw_only=True, repr=False)
class _Schema(DeclarationsArgument):
    output: Path = option(Path("schemas"), PathType("DIR"), "The directory to write to.", short="o", in_file=False)


def _schema(options: _Schema) -> None:
    """Write a JSON Schema for each kind and version, for editors and for kubeconform.

    Prints the settings for yaml-language-server, VS Code and kubeconform.
    """
    files = schemas_of(load_own(options.declarations))
    write_schemas(files, options.output)
    for line in advice(files, options.output):
        print(line)


@dataclass(frozen=True, kw_only=True, repr=False)
class _Docs(DeclarationsArgument):
    output: Path = option(Path("build"), PathType("DIR"), "The directory to write to.", short="o", in_file=False)
    examples: Path | None = option(
        None, PathType("DIR"), "A directory with examples in YAML. Each is checked against its schema.", in_file=False
    )
    heading: str = option(
        "", StringType("TEXT"), "The title of the site. By default the groups.", flag="title", in_file=False
    )


def _docs(options: _Docs) -> None:
    """Write reference pages of the kinds: a site of static files with its own search, and Markdown.

    They show fields, constraints, defaults, examples, what changed between versions, and every operation.
    """
    resources = load_own(options.declarations)
    groups = dict.fromkeys(served.definition.group for served in resources)
    files = site_files(resources, options.heading or ", ".join(groups), options.examples)
    write_site(files, options.output)
    print(f"{options.output / 'index.html'}: {len(resources)} kinds, in HTML and Markdown")


CHECK = Command("check", ServerArgument, _check)
CRD = Command("crd", _CRD, _crd)
SCHEMA = Command("schema", _Schema, _schema)
DOCS = Command("docs", _Docs, _docs)
