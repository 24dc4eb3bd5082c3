"""The subresources of pods that the server answers itself: binding to a node, and eviction.

See also: ``workloads.kubelets``, which passes logs and commands on; `PodHooks`, a user's answers to them.
Source: Kubernetes' registry of pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from oarlock.apps.kinds.common.late_client import LateClient
from oarlock.apps.kinds.common.trees import at, below
from oarlock.apps.kinds.core.objects import ObjectReference
from oarlock.client.client import Client
from oarlock.client.keywords import DeleteKeywords
from oarlock.meta import labels, times
from oarlock.meta.context import Context
from oarlock.meta.errors import BadRequest, Conflict, NotFound, StatusError, TooManyRequests
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

BUDGET = "policy/v1/PodDisruptionBudget"
ENDED = ("Succeeded", "Failed", "Pending")
"""Phases in which a pod can go without disrupting anything."""

MOST_DISRUPTED = 2000
"""So many evicted pods a budget may remember that its controller hasn't seen the end of."""

DONE: Tree = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
_MIGHT = {"uid": "deleted and then recreated", "resourceVersion": "modified"}
_REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."


class Evictions:
    """The subresource ``eviction``."""

    def __init__(self, late: LateClient) -> None:
        self._late = late

    async def evict(self, ctx: Context, pod: Tree, body: Tree | None, given: Mapping[str, Any] | None = None) -> Tree:
        """Delete `pod`. Raises TooManyRequests when its budget forbids that now."""
        client, metadata = self._late.client, pod["metadata"]
        if at(body or {}, "metadata.name") != metadata["name"]:
            raise BadRequest("name in URL does not match name in Eviction object")
        options = at(body or {}, "deleteOptions", {})
        dry_run = ctx.dry_run or "All" in (options.get("dryRun") or ())
        _check_preconditions(options, pod)
        if not (at(pod, "status.phase") in ENDED or metadata.get("deletionTimestamp")):
            await _decrement_budget(client, pod, ctx, dry_run=dry_run)
        if not dry_run:
            await _add_target_condition(client, pod, ctx)
        how = DeleteKeywords(uid=metadata["uid"], dry_run=dry_run)
        if options.get("gracePeriodSeconds") is not None:
            how["grace_period_s"] = options["gracePeriodSeconds"]
        if options.get("propagationPolicy"):
            how["propagation"] = options["propagationPolicy"]
        await client.delete("v1/Pod", metadata["name"], namespace=metadata["namespace"], **how)
        return dict(DONE)


def _check_preconditions(options: Tree, pod: Tree) -> None:
    wanted, metadata = options.get("preconditions") or {}, pod["metadata"]
    for key in ("uid", "resourceVersion"):
        if wanted.get(key) and wanted[key] != metadata.get(key):
            what = "UID" if key == "uid" else "ResourceVersion"
            why = (
                f"the {what} in the precondition ({wanted[key]}) does not match the {what} in record "
                f"({metadata.get(key)}). The object might have been {_MIGHT[key]}"
            )
            raise Conflict(GroupResource("", "Pod"), metadata["name"], why)


async def _decrement_budget(client: Client, pod: Tree, ctx: Context, *, dry_run: bool) -> None:
    """Take one disruption from the budget of the pod, if it has one."""
    namespace, pod_labels = pod["metadata"]["namespace"], pod["metadata"].get("labels") or {}
    try:
        known = [budget async for budget in client.list(BUDGET, namespace=namespace)]
    except NotFound:
        return  # budgets aren't served here
    budgets = [
        budget for budget in known if labels.from_label_selector(at(budget, "spec.selector")).matches(pod_labels)
    ]
    if not budgets:
        return
    if len(budgets) > 1:
        raise StatusError(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    (budget,) = budgets
    if _is_idle(budget, pod):
        return

    def spend(now: Tree) -> None:
        _refuse_if_spent(now)
        status = below(now, "status")
        status["disruptionsAllowed"] -= 1
        if not status["disruptionsAllowed"]:
            _set_exhausted_condition(now, ctx)
        disrupted = below(status, "disruptedPods")
        if len(disrupted) > MOST_DISRUPTED:
            raise TooManyRequests("DisruptedPods map too big - too many evictions not confirmed by PDB controller")
        disrupted[pod["metadata"]["name"]] = times.rfc3339(ctx.clock.now())

    if dry_run:
        _refuse_if_spent(budget)
        return
    await client.change(BUDGET, budget["metadata"]["name"], spend, namespace=namespace, subresource="status")


async def _add_target_condition(client: Client, pod: Tree, ctx: Context) -> None:
    """Tell in the status of a pod why it ends."""
    now = times.rfc3339(ctx.clock.now())
    condition = {"type": "DisruptionTarget", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    condition.update(reason="EvictionByEvictionAPI", message="Eviction API: evicting")

    def add(live: Tree) -> None:
        status = below(live, "status")
        others = [other for other in status.get("conditions") or () if other.get("type") != condition["type"]]
        status["conditions"] = [*others, condition]

    metadata = pod["metadata"]
    await client.change("v1/Pod", metadata["name"], add, namespace=metadata["namespace"], subresource="status")


def _set_exhausted_condition(budget: Tree, ctx: Context) -> None:
    """Tell in a budget's conditions that it allows no more disruptions."""
    status = below(budget, "status")
    others = [other for other in status.get("conditions") or () if other.get("type") != "DisruptionAllowed"]
    condition = {
        "type": "DisruptionAllowed",
        "status": "False",
        "observedGeneration": status.get("observedGeneration", 0),
        "lastTransitionTime": times.rfc3339(ctx.clock.now()),
        "reason": "InsufficientPods",
        "message": "",
    }
    status["conditions"] = [*others, condition]


def _is_idle(budget: Tree, pod: Tree) -> bool:
    """Whether a pod that isn't ready may go whatever the budget says."""
    ready = any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in at(pod, "status.conditions", ())
    )
    if ready:
        return False
    if at(budget, "spec.unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    healthy, wanted = at(budget, "status.currentHealthy", 0), at(budget, "status.desiredHealthy", 0)
    return bool(wanted > 0 and healthy >= wanted)


def _refuse_if_spent(budget: Tree) -> None:
    name, status = budget["metadata"]["name"], budget.get("status") or {}
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _refusal(f"The disruption budget {name} is still being processed by the server.", 10)
    if status.get("disruptionsAllowed", 0) < 1:
        raise _refusal(_why(name, status), 0)


def _why(name: str, status: Tree) -> str:
    """Why a budget allows no disruption."""
    conditions = status.get("conditions") or ()
    allowed: Tree = next((condition for condition in conditions if condition.get("type") == "DisruptionAllowed"), {})
    refuses, reason, message = f"The disruption budget {name} does not allow evicting pods currently", "", ""
    if allowed.get("status") == "False":
        reason, message = allowed.get("reason", ""), allowed.get("message", "")
    if reason == "SyncFailed":
        return f"{refuses} because it failed sync: {message}"
    needs, has = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
    if has <= needs:
        return f"The disruption budget {name} needs {needs} healthy pods and has {has} currently"
    return f"{refuses} ({reason}): {message}" if message else refuses


def _refusal(why: str, retry_s: int) -> StatusError:
    cause = {"reason": "DisruptionBudget", "message": why}
    return TooManyRequests(_REFUSED, retry_s).explained(_REFUSED, [cause])


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
