"""The subresources of pods that the server answers itself: binding to a node, and eviction.

See also: ``workloads.kubelets``, which passes logs and commands on; `PodHooks`, a user's answers to them; `eviction`.
Source: Kubernetes' registry of pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from oarlock.apps.kinds.common.late_client import LateClient
from oarlock.apps.kinds.common.trees import below
from oarlock.apps.kinds.core.objects import ObjectReference
from oarlock.apps.kinds.pods.eviction import Evictions
from oarlock.meta import times
from oarlock.meta.context import Context
from oarlock.meta.errors import BadRequest, Conflict, StatusError
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupResource
from oarlock.registry.conversions import NoConversion
from oarlock.registry.hooks.collection import VirtualCollection
from oarlock.registry.hooks.object_hooks import subresource_hooks
from oarlock.registry.hooks.subresource import DeclaredSubresource, find_subresources
from oarlock.registry.served import AnyHook, SubresourceHook
from oarlock.schema.definition import ResourceDefinition
from oarlock.schema.types.declaring import HookError
from oarlock.schema.types.resources import Resource
from oarlock.schema.types.views import builtins_of

_NAMES = ("attach", "exec", "log", "portforward")


class PodHooks:
    """Serves ``log``, ``exec``, ``attach`` or ``portforward`` of pods, by methods of a subclass with `@subresource`.

    `parent` is the pod as a dict. The methods are called for every pod, also without a node. Subresources that have no
    method aren't served. `log` streams, the others connect.
    """

    __subresources__: ClassVar[tuple[DeclaredSubresource, ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.__subresources__ = find_subresources(cls)
        for hook in cls.__subresources__:
            subject, mark = f"{cls.__name__}.{hook.attribute}", hook.mark
            if mark.name not in _NAMES:
                raise HookError(subject, f"pods have no {mark.name!r} to answer", "there are " + ", ".join(_NAMES))
            if mark.name == "log" and not mark.media_type:
                raise HookError(subject, "a log is a stream", "write async def with yield")
            if mark.name != "log" and not mark.end:
                raise HookError(subject, "it has to connect", "say connect=True, ports=True or upgrade=")


def hooks_of_pods(pods: PodHooks, definition: ResourceDefinition) -> dict[str, AnyHook]:
    """The hooks of `pods` by subresource; `definition` is that of pods."""
    return subresource_hooks(pods, definition, NoConversion())


class Binding(Resource, group="", version="v1", generation=False, name_rule="path-segment"):
    """Says on which node the pod of this name runs."""

    target: ObjectReference = ObjectReference()


class Bindings(VirtualCollection[Binding]):
    """Binds the pod that has the name of a binding, as its subresource does; nothing of it is kept."""

    def __init__(self, late: LateClient) -> None:
        self._late = late

    async def create(self, new: Binding, ctx: Context, *, dry_run: bool = False) -> Binding:
        metadata = {key: value for key, value in builtins_of(new.metadata).items() if key in _GIVEN and value}
        body = {"metadata": metadata, "target": builtins_of(new.target)}
        query = {"dryRun": "All"} if dry_run else None
        name, namespace = new.metadata.name, ctx.target.namespace
        await self._late.client.post("v1/Pod", name, "binding", body, namespace=namespace, query=query)
        return new


_GIVEN = ("annotations", "labels", "name", "namespace")
PODS = GroupResource("", "pods")
BINDING = GroupResource("", "pods/binding")
DONE: Tree = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def pod_subresources(late: LateClient) -> Mapping[str, AnyHook]:
    """The hooks by subresource, besides those that a kubelet answers."""
    return {
        "binding": SubresourceHook("binding", "POST", _bound, change=_bind),
        "eviction": SubresourceHook("eviction", "POST", Evictions(late).evict),
    }


def _bind(pod: Tree, body: Tree, ctx: Context) -> None:
    """Write the node into the pod, with the annotations of the binding, and its labels that the pod doesn't have."""
    _check_about(pod, body.get("metadata") or {}, ctx)
    target = body.get("target") or {}
    if not target.get("name"):
        raise StatusError("target.name: Required value")
    if target.get("kind") not in (None, "", "Node"):
        raise StatusError(f'target.kind: Unsupported value: "{target["kind"]}": supported values: "Node", "<empty>"')
    name, spec = pod["metadata"]["name"], below(pod, "spec")
    if pod["metadata"].get("deletionTimestamp"):
        raise Conflict(BINDING, name, f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise Conflict(BINDING, name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise Conflict(BINDING, name, f"pod {name} has non-empty .spec.schedulingGates")
    spec["nodeName"] = target["name"]
    metadata, given = pod["metadata"], body.get("metadata") or {}
    if given.get("annotations"):
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **given["annotations"]}
    if given.get("labels"):
        metadata["labels"] = {**given["labels"], **(metadata.get("labels") or {})}
    status = below(pod, "status")
    status.pop("nominatedNodeName", None)  # the node that was being cleared for it
    conditions = [condition for condition in status.get("conditions") or () if condition.get("type") != "PodScheduled"]
    now = times.rfc3339(ctx.clock.now())
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    status["conditions"] = [*conditions, scheduled]


def _check_about(pod: Tree, given: Tree, ctx: Context) -> None:
    """Check that a binding is about this very pod: its name and, where it says them, its uid and resourceVersion."""
    target, live = ctx.target, pod["metadata"]
    if given.get("namespace", target.namespace) != target.namespace:
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
    if given.get("name") != target.name:
        raise BadRequest("name in URL does not match name in Binding object")
    for what, name in (("UID", "uid"), ("ResourceVersion", "resourceVersion")):
        wanted, found = given.get(name), live.get(name, "")
        if wanted and wanted != found:
            why = f"Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
            raise Conflict(PODS, target.name, f"{_ANOTHER.format(target.namespace, target.name)}{why}")


_ANOTHER = "StorageError: invalid object, Code: 4, Key: /registry/pods/{}/{}, ResourceVersion: 0, AdditionalErrorMsg: "


async def _bound(ctx: Context, pod: Tree, body: Tree | None, given: Mapping[str, Any] | None = None) -> Tree:
    return dict(DONE)
