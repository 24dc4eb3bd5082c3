"""`Evictions`: deletes pods as far as their disruption budgets allow. Source: Kubernetes' eviction subresource."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oarlock.apps.kinds.common.late_client import LateClient
from oarlock.apps.kinds.common.trees import at, below
from oarlock.client.client import Client
from oarlock.client.keywords import DeleteKeywords
from oarlock.meta import labels, times
from oarlock.meta.context import Context
from oarlock.meta.errors import BadRequest, Conflict, NotFound, StatusError, TooManyRequests
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupResource

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
