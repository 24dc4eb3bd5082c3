"""What is stored of a CustomResourceDefinition beyond what its author wrote: defaults, and the parts of the status.

The hooks work on trees: the definition is validated as it was written. Source: Kubernetes' defaults and strategy of
CustomResourceDefinitions. See also: `serving`, which reads what is stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from oarlock.apps.crds.validation import definition_errors
from oarlock.apps.kinds.apiextensions import CustomResourceDefinition
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError
from oarlock.meta.times import rfc3339
from oarlock.registry.declare import served_from
from oarlock.registry.served import Hooks, Served

__all__ = ["served_definitions"]

Tree = dict[str, Any]


def served_definitions() -> Served:
    """The resource ``customresourcedefinitions``."""
    (served,) = served_from([CustomResourceDefinition])
    hooks = Hooks(
        default={"v1": _default}, prepare=_prepare, validate=_validate, mark_deleted=_mark_deleted, threadsafe=True
    )
    return replace(served, hooks=hooks)


def _default(tree: Tree, ctx: Context) -> Tree:
    spec = tree["spec"]
    names = spec["names"]
    if names["kind"]:
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", f"{names['kind']}List")
    conversion = spec.setdefault("conversion", {"strategy": "None"})
    if not conversion.get("strategy"):
        conversion["strategy"] = "None"
    service = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service")
    if service is not None:
        service.setdefault("port", 443)
    return tree


def _prepare(new: Tree, old: Tree | None, ctx: Context) -> Tree:
    stored = [one["name"] for one in new["spec"].get("versions") or () if one.get("storage")]
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
        return []
    return definition_errors(new, old)


def _mark_deleted(new: Tree, ctx: Context) -> Tree:
    condition = {
        "type": "Terminating",
        "status": "True",
        "lastTransitionTime": rfc3339(ctx.clock.now()),
        "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    }
    status = new["status"]
    others = [one for one in status.get("conditions") or () if one["type"] != condition["type"]]
    status["conditions"] = [*others, condition]
    return new
