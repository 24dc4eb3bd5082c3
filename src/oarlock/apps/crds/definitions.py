"""What is stored of a CustomResourceDefinition beyond what its author wrote: defaults, and the parts of the status.

The hooks work on trees: the definition is validated as it was written. Source: Kubernetes' defaults and strategy of
CustomResourceDefinitions. See also: ``controllers.definitions``, which reads what is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from oarlock.apps.crds.beta_definitions import STORED_BY_KUBERNETES, from_v1beta1
from oarlock.apps.crds.schema_keywords import prune_keywords, unknown_formats
from oarlock.apps.crds.validation import definition_errors, status_errors
from oarlock.apps.kinds.apiextensions import CustomResourceDefinition
from oarlock.meta.context import Context
from oarlock.meta.errors import BadRequest
from oarlock.meta.fielderrors import FieldError
from oarlock.meta.go.gotext import quote
from oarlock.meta.json_trees import Tree
from oarlock.meta.times import rfc3339
from oarlock.registry.hooks.declare import served_from
from oarlock.registry.served import Hooks, Served

__all__ = ["served_definitions"]


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
