"""All of the crds app, as a control plane takes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from oarlock.apps.controllers.definitions.serving import DefinitionServing
from oarlock.apps.controllers.definitions.status import DefinitionNaming, InstanceDeletion
from oarlock.apps.controlplane.part import ControlPlanePart
from oarlock.apps.crds.conversion import ConversionWebhooks
from oarlock.apps.crds.validation import definition_errors, status_errors
from oarlock.apps.kinds.apiextensions import GROUP, CustomResourceDefinition
from oarlock.client.client import Client
from oarlock.client.informers.informer import Informer
from oarlock.meta.context import Context
from oarlock.meta.errors import BadRequest
from oarlock.meta.fielderrors import FieldError
from oarlock.meta.go.gotext import quote
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupResource
from oarlock.meta.times import rfc3339
from oarlock.registry.hooks.object_hooks import served_from
from oarlock.registry.served import Hooks, Served
from oarlock.registry.stored.records import DefinitionRecords
from oarlock.schema.structural.formats import checker
from oarlock.server.assembly.own_work import Runnable
from oarlock.server.description import LiveCatalog
from oarlock.storage.backend import Backend

_FIELDS = frozenset(
    (
        *("id", "$schema", "$ref", "description", "type", "format", "title", "default", "maximum", "exclusiveMaximum"),
        *("minimum", "exclusiveMinimum", "maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems"),
        *("multipleOf", "enum", "maxProperties", "minProperties", "required", "externalDocs", "example", "nullable"),
        *("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"),
        *("x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-map-type", "dependencies"),
    )
)
_LEFT_OUT = frozenset(
    (
        *("id", "$schema", "description", "type", "format", "title", "pattern", "exclusiveMaximum", "exclusiveMinimum"),
        *("uniqueItems", "enum", "required", "allOf", "oneOf", "anyOf", "properties", "patternProperties", "nullable"),
        *("dependencies", "definitions", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"),
        *("x-kubernetes-list-map-keys", "x-kubernetes-validations"),
    )
)
"""What isn't stored when it is empty or false."""
_ONE = frozenset(("not", "items", "additionalProperties", "additionalItems"))
_LISTS = frozenset(("allOf", "anyOf", "oneOf"))
_BY_NAME = frozenset(("properties", "patternProperties", "definitions"))
_RULES = "x-kubernetes-validations"
_RULE_FIELDS = frozenset(("rule", "message", "messageExpression", "reason", "fieldPath", "optionalOldSelf"))

MAX_DEPTH = 100
"""No deeper: such a schema is refused as a whole."""


def prune_keywords(schema: Any, path: str, depth: int = 0) -> Iterator[str]:
    """Take unknown keywords out of `schema`, and empty ones; yields the path of each unknown one."""
    if type(schema) is not dict or depth > MAX_DEPTH:
        return
    for key in list(schema):
        value = schema[key]
        if value is None or (key in _LEFT_OUT and (value is False or value in ("", [], {}))):
            del schema[key]
            continue
        if key in _FIELDS:
            continue
        if key in _ONE:
            yield from prune_keywords(value, f"{path}.{key}", depth + 1)
        elif key in _LISTS:
            for at, child in enumerate(value if type(value) is list else ()):
                yield from prune_keywords(child, f"{path}.{key}[{at}]", depth + 1)
        elif key in _BY_NAME:
            for name, child in value.items() if type(value) is dict else ():
                yield from prune_keywords(child, f"{path}.{key}.{name}", depth + 1)
        elif key == _RULES:
            yield from _prune_rules(value, f"{path}.{key}")
        else:
            del schema[key]
            yield f"{path}.{key}"


def _prune_rules(rules: Any, path: str) -> Iterator[str]:
    for at, rule in enumerate(rules if type(rules) is list else ()):
        for key in list(rule) if type(rule) is dict else ():
            if key not in _RULE_FIELDS:
                del rule[key]
                yield f"{path}[{at}].{key}"
            elif rule[key] in (None, "") and key != "rule":
                del rule[key]


def unknown_formats(schema: Any, depth: int = 0) -> Iterator[str]:
    """The formats of texts in a schema that nothing checks."""
    if type(schema) is not dict or depth > MAX_DEPTH:
        return
    name = schema.get("format")
    if name and schema.get("type") == "string" and type(name) is str and checker(name) is None and name != "password":
        yield name
    for key, value in schema.items():
        if key in _BY_NAME:
            for child in value.values() if type(value) is dict else ():
                yield from unknown_formats(child, depth + 1)
        elif key in _ONE:
            yield from unknown_formats(value, depth + 1)


STORED_BY_KUBERNETES = f"{GROUP}/v1beta1"

_COMMON = {
    "subresources": "subresources",
    "validation": "schema",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}


def from_v1beta1(tree: Tree) -> Tree:
    """The definition in v1; `tree` isn't to be used afterwards. Raises what a tree of another shape raises."""
    spec: Tree = tree.get("spec") or {}
    version = spec.pop("version", "")
    versions: list[Tree] = spec.get("versions") or []
    if not versions and version:
        versions = [{"name": version, "served": True, "storage": True}]
    for name, now in _COMMON.items():
        common = spec.pop(name, None)
        for version_tree in versions:
            if common is not None:
                version_tree[now] = common
    for version_tree in versions:
        if version_tree.get("additionalPrinterColumns"):
            version_tree["additionalPrinterColumns"] = [
                _column(column) for column in version_tree["additionalPrinterColumns"]
            ]
    if versions:
        spec["versions"] = versions
    conversion = spec.setdefault("conversion", {"strategy": "None"})
    config = conversion.pop("webhookClientConfig", None)
    reviews = conversion.pop("conversionReviewVersions", None)
    if conversion.get("strategy") == "Webhook" and not reviews:
        reviews = ["v1beta1"]
    if config is not None or reviews is not None:
        conversion["webhook"] = {
            **({"clientConfig": config} if config is not None else {}),
            "conversionReviewVersions": reviews,
        }
    if not spec.setdefault("preserveUnknownFields", True):
        del spec["preserveUnknownFields"]
    return {**tree, "apiVersion": f"{GROUP}/v1", "spec": spec}


def _column(column: Tree) -> Tree:
    return {("jsonPath" if name == "JSONPath" else name): value for name, value in column.items()}


_MOST_TOLD = 100
_CANNOT = 'CustomResourceDefinition in version "v1" cannot be handled as a CustomResourceDefinition'


def served_definitions() -> Served:
    """The resource ``customresourcedefinitions``."""
    (served,) = served_from([CustomResourceDefinition])
    hooks = Hooks(
        default={"v1": _default}, prepare=_prepare, validate=_validate, mark_deleted=_mark_deleted, threadsafe=True
    )
    return replace(served, hooks=hooks, only_read={STORED_BY_KUBERNETES: from_v1beta1})


def _default(tree: Tree, ctx: Context) -> Tree:
    if ctx.target.subresource:
        return tree
    spec = tree["spec"]
    names = spec["names"]
    _prune_schemas(spec.get("versions") or (), ctx)
    if names["kind"]:
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", f"{names['kind']}List")
    conversion = spec.setdefault("conversion", {"strategy": "None"})
    service = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service")
    if service is not None:
        service.setdefault("port", 443)
    return tree


def _prune_schemas(versions: Sequence[Tree], ctx: Context) -> None:
    """Take unknown keywords out of the schemas; told as ``fieldValidation`` says. Raises BadRequest."""
    unknown: list[str] = []
    for at, version in enumerate(versions):
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        unknown += prune_keywords(schema, f"spec.versions[{at}].schema.openAPIV3Schema")
    validation = ctx.options.field_validation if ctx.options is not None and unknown else "Ignore"
    problems = [f"unknown field {quote(path)}" for path in unknown[:_MOST_TOLD]]
    if validation == "Strict":
        raise BadRequest(f"{_CANNOT}: strict decoding error: {', '.join(problems)}")
    if validation == "Warn":
        for problem in problems:
            ctx.warn(problem)


def _prepare(new: Tree, old: Tree | None, ctx: Context) -> Tree:
    stored = [version["name"] for version in new["spec"].get("versions") or () if version.get("storage")]
    if old is None:
        new["status"] = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored[:1]}
    status = new["status"]
    before = status.get("storedVersions") or []
    if ctx.target.subresource == "status":
        status["storedVersions"] = before or stored[:1]
    else:
        status["storedVersions"] = [*before, *(name for name in stored if name not in before)]
    return new


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterable[FieldError]:
    if ctx.target.subresource == "status":
        return status_errors(new["status"])
    errors = list(definition_errors(new, old))
    if not errors:
        before = set() if old is None else _formats(old)
        for name in sorted(_formats(new) - before):
            ctx.warn(f"unrecognized format {quote(name)}")
    return errors


def _formats(tree: Tree) -> set[str]:
    schemas = ((version.get("schema") or {}).get("openAPIV3Schema") for version in tree["spec"].get("versions") or ())
    return {name for schema in schemas for name in unknown_formats(schema)}


def _mark_deleted(new: Tree, ctx: Context) -> Tree:
    condition = {
        "type": "Terminating",
        "status": "True",
        "lastTransitionTime": rfc3339(ctx.clock.now()),
        "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    }
    status = new["status"]
    others = [other for other in status.get("conditions") or () if other["type"] != condition["type"]]
    status["conditions"] = [*others, condition]
    return new


def definitions_part(live: LiveCatalog, store: Callable[[], Backend]) -> ControlPlanePart:
    """Resources that are defined by objects. The first part, so that all others find what is defined."""
    definitions = Informer(CustomResourceDefinition)
    webhooks = ConversionWebhooks()
    serving = DefinitionServing(live, definitions, webhooks.converter)

    async def forget(resource: GroupResource) -> None:
        await DefinitionRecords(store()).forget(resource)

    async def start(client: Client) -> None:
        await webhooks.start(client)
        await serving.start(client)

    controllers: dict[str, Runnable] = {
        "crd-serving": serving,
        "crd-naming": DefinitionNaming(live, definitions, serving),
        "crd-finalizer": InstanceDeletion(serving, forget),
        "crd-conversion": webhooks,
    }
    return ControlPlanePart(
        "crds",
        serve=[served_definitions()],
        informers=[definitions],
        controllers=controllers,
        everywhere=(*controllers,),
        fills_catalog=True,
        start=start,
    )
