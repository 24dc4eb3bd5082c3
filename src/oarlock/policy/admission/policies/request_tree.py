"""What expressions see of a request: ``request``, and the namespace of its object.

Source: k8s.io/api ``admission/v1`` AdmissionRequest, less its objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupVersionKind
from oarlock.policy.admission.policies.matching import RequestedResource
from oarlock.policy.admission.request_parts import options_tree, user_tree
from oarlock.registry.write.write_request import AdmissionRequest

__all__ = ["namespace_tree", "request_tree", "requested_resource"]

_NAMESPACE_METADATA = (
    *("name", "generateName", "labels", "annotations", "creationTimestamp", "deletionTimestamp"),
    *("deletionGracePeriodSeconds", "generation", "resourceVersion", "finalizers"),
)


def requested_resource(request: AdmissionRequest, name: str = "") -> RequestedResource:
    """What a request is about, for rules."""
    target, definition = request.ctx.target, request.served.definition
    namespaced = bool(target.namespace) and (target.resource != "namespaces" or bool(target.group))
    version = definition.version_in(target.group, target.version)
    return RequestedResource(
        target.group,
        version,
        target.resource,
        target.subresource,
        request.operation,
        namespaced,
        name,
        tuple(
            [
                other.name
                for other in definition.versions
                if (other.served or "/" in other.name) and other.name != version
            ]
        ),
        definition.group,
    )


def request_tree(request: AdmissionRequest, asked: RequestedResource, version: str) -> Tree:
    """The value of ``request``; `version` is the one that the rules take."""
    ctx, target = request.ctx, request.ctx.target
    definition = request.served.definition
    taken = definition.gvk(version)
    kind = request.body_kind or GroupVersionKind(target.group, target.version, definition.names.kind)
    matched = kind if request.body_kind is not None else taken
    resource = {"group": target.group, "version": target.version, "resource": target.resource}
    tree: Tree = {
        "kind": _kind(matched),
        "resource": {**resource, "group": taken.group, "version": taken.version},
        "requestKind": _kind(kind),
        "requestResource": resource,
        "operation": request.operation,
        "userInfo": user_tree(ctx.user),
        "dryRun": ctx.dry_run,
    }
    optional = {
        "subResource": target.subresource,
        "requestSubResource": target.subresource,
        "name": asked.name,
        "namespace": target.namespace,
    }
    tree.update({key: value for key, value in optional.items() if value})
    options = options_tree(ctx, request.operation)
    if options is not None:
        tree["options"] = options
    return tree


def _kind(kind: GroupVersionKind) -> Tree:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def namespace_tree(tree: Mapping[str, Any]) -> Tree:
    """The value of ``namespaceObject``."""
    metadata = tree.get("metadata") or {}
    shown = {name: metadata[name] for name in _NAMESPACE_METADATA if metadata.get(name) is not None}
    if metadata.get("uid"):
        shown["UID"] = metadata["uid"]
    made: Tree = {"metadata": shown}
    made.update({part: tree[part] for part in ("spec", "status") if tree.get(part)})
    return made
