"""Which nodes a pod fits on, why it doesn't on the others, and which pods would have to go for it.

`find_nodes` and `find_victims` are pure. Source: kube-scheduler 1.36 ``schedule_one`` and ``preemption``, in behaviour.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from oarlock.extend import Tree, from_label_selector
from oarlock_cluster.scheduling.claims import claims_filter
from oarlock_cluster.scheduling.filters import (
    FilterRefusal,
    NodeFilter,
    NodeTest,
    PodRejected,
    affinity_filter,
    names_filter,
    ports_filter,
    resources_filter,
    taints_filter,
    unschedulable_filter,
)
from oarlock_cluster.scheduling.pod_affinity import pod_affinity_filter, spread_filter
from oarlock_cluster.scheduling.state import ClusterState, NodeState, PodState
from oarlock_cluster.scheduling.volumes import restrictions_filter, volume_binding_filter, volume_zone_filter

__all__ = ["FILTERS", "Fit", "Victims", "feasible", "find_nodes", "find_victims", "preemption_message"]

FILTERS: Sequence[NodeFilter] = (
    names_filter,
    unschedulable_filter,
    taints_filter,
    affinity_filter,
    ports_filter,
    resources_filter,
    restrictions_filter,
    volume_binding_filter,
    volume_zone_filter,
    claims_filter,
    spread_filter,
    pod_affinity_filter,
)

_NOT_HELPFUL = "Preemption is not helpful for scheduling"
_NO_VICTIMS = "No preemption victims found for incoming pod"


def _histogram(total: int, reasons: Iterable[str]) -> str:
    counted = sorted(f"{count} {reason}" for reason, count in Counter(reasons).items())
    return f"0/{total} nodes are available" + (f": {', '.join(counted)}." if counted else "")


@dataclass(slots=True)
class Fit:
    """The nodes that a pod fits on, and why not on the others; `rejected` when it fits on none, whatever they have."""

    total: int
    nodes: list[NodeState] = field(default_factory=list)
    refusals: dict[str, FilterRefusal] = field(default_factory=dict)
    rejected: str = ""

    def message(self, preemption: str = "") -> str:
        """As ``FailedScheduling`` says it. What preemption says follows."""
        if not self.total:
            return "no nodes available to schedule pods"
        if self.rejected:
            said = f"0/{self.total} nodes are available: {self.rejected}."
        else:
            reasons = [reason for refusal in self.refusals.values() for reason in refusal.reasons]
            said = _histogram(self.total, reasons)
        return f"{said} {preemption}" if preemption else said


def _tests(pod: PodState, state: ClusterState, filters: Sequence[NodeFilter]) -> list[NodeTest]:
    return [test for each in filters if (test := each(pod, state)) is not None]


def _first(tests: Iterable[NodeTest], node: NodeState) -> FilterRefusal | None:
    for test in tests:
        refusal = test(node)
        if refusal is not None:
            return refusal
    return None


def _refusal(
    pod: PodState, node: NodeState, state: ClusterState, filters: Sequence[NodeFilter], tests: Sequence[NodeTest]
) -> FilterRefusal | None:
    """What refuses the node, also once the pods that it is being cleared for are there."""
    waiting = [p for p in state.nominated_to(node.name) if p.uid != pod.uid and p.priority >= pod.priority]
    if waiting:
        full = node.copy(and_also=waiting)
        refusal = _first(_tests(pod, state.with_node(full), filters), full)
        if refusal is not None:
            return refusal
    return _first(tests, node)


def feasible(
    pod: PodState, node: NodeState, state: ClusterState, filters: Sequence[NodeFilter] = FILTERS
) -> FilterRefusal | None:
    """Why the pod can't run on the node; None if it can. Raises `PodRejected` if it can't on any."""
    return _refusal(pod, node, state, filters, _tests(pod, state, filters))


def find_nodes(
    pod: PodState, state: ClusterState, filters: Sequence[NodeFilter] = FILTERS, *, begin: int = 0, enough: int = 0
) -> Fit:
    """Ask the filters about the nodes, from the `begin`th on, until `enough` are found (0 for all)."""
    fit = Fit(len(state.nodes))
    try:
        tests = _tests(pod, state, filters)
    except PodRejected as rejection:
        fit.rejected = str(rejection)
        if rejection.of_nodes:
            fit.refusals = dict.fromkeys(state.nodes, FilterRefusal((fit.rejected,), final=True))
        return fit
    nodes = list(state.nodes.values())
    for at in range(len(nodes)):
        node = nodes[(begin + at) % len(nodes)]
        refusal = _refusal(pod, node, state, filters, tests)
        if refusal is not None:
            fit.refusals[node.name] = refusal
            continue
        fit.nodes.append(node)
        if len(fit.nodes) == enough:
            break
    return fit


@dataclass(frozen=True, slots=True)
class Victims:
    """The pods that have to leave a node for another; `violations` of them have a budget that doesn't allow it."""

    node: str
    pods: tuple[PodState, ...]
    violations: int

    def cost(self) -> tuple[object, ...]:
        """Less is better, as in ``pickOneNodeForPreemption``; of equal ones that whose first victim is youngest."""
        first = self.pods[0]
        started = first.status.get("startTime") or ""
        return (
            self.violations,
            first.priority,
            sum(pod.priority + 2**31 for pod in self.pods),
            len(self.pods),
            [-ord(letter) for letter in started],
        )


def _importance(pod: PodState) -> tuple[int, str]:
    return -pod.priority, pod.status.get("startTime") or "~"


def _with_budgets(pods: Sequence[PodState], budgets: Iterable[Tree]) -> tuple[list[PodState], list[PodState]]:
    """Those whose eviction a budget doesn't allow, and the others."""
    left = [
        (each, from_label_selector(each["spec"].get("selector") or {}), [each["status"].get("disruptionsAllowed", 0)])
        for each in budgets
        if each.get("status") and each["spec"].get("selector")
    ]
    violating: list[PodState] = []
    others: list[PodState] = []
    for pod in pods:
        violates = False
        for budget, selector, allowed in left:
            same = budget["metadata"]["namespace"] == pod.namespace
            if not same or not pod.labels or not selector.matches(pod.labels):
                continue
            if pod.name in (budget["status"].get("disruptedPods") or {}):
                continue
            allowed[0] -= 1
            violates = violates or allowed[0] < 0
        (violating if violates else others).append(pod)
    return violating, others


def _victims_on(
    pod: PodState, node: NodeState, state: ClusterState, filters: Sequence[NodeFilter], budgets: Sequence[Tree]
) -> Victims | FilterRefusal:
    lower = sorted((other for other in node.pods.values() if other.priority < pod.priority), key=_importance)
    if not lower:
        return FilterRefusal((_NO_VICTIMS,), final=True)

    def refused(gone: Iterable[str]) -> FilterRefusal | None:
        trial = node.copy(without=gone)
        return feasible(pod, trial, state.with_node(trial), filters)

    gone = {other.uid for other in lower}
    refusal = refused(gone)
    if refusal is not None:
        return refusal
    violations = 0
    protected, others = _with_budgets(lower, budgets)
    for group in (protected, others):
        for other in group:
            if refused(gone - {other.uid}) is None:
                gone.discard(other.uid)
            elif group is protected:
                violations += 1
    return Victims(node.name, tuple(other for other in lower if other.uid in gone), violations)


def preemption_message(total: int, reasons: Mapping[str, Sequence[str]]) -> str:
    """What preemption says when no node can be cleared."""
    return "preemption: " + _histogram(total, [reason for several in reasons.values() for reason in several])


def find_victims(
    pod: PodState, fit: Fit, state: ClusterState, filters: Sequence[NodeFilter] = FILTERS, budgets: Sequence[Tree] = ()
) -> Victims | str:
    """The node that is cleared at the least cost for a pod that fits on none, or why none can be."""
    if fit.rejected and not fit.refusals:
        return "not found"
    prefix = "no new claims to deallocate, "
    if pod.spec.get("preemptionPolicy") == "Never":
        return prefix + "preemption: not eligible due to preemptionPolicy=Never."
    nominated = pod.status.get("nominatedNodeName") or ""
    node = state.nodes.get(nominated)
    final = fit.refusals.get(nominated, FilterRefusal(())).final
    leaving = [] if node is None or final else [other for other in node.pods.values() if _preempted(other)]
    if any(other.priority < pod.priority for other in leaving):
        return prefix + "preemption: not eligible due to a terminating pod on the nominated node."
    candidates: list[Victims] = []
    reasons: dict[str, Sequence[str]] = {}
    for name, refusal in fit.refusals.items():
        found: Victims | FilterRefusal = FilterRefusal((_NOT_HELPFUL,))
        if not refusal.final:
            found = _victims_on(pod, state.nodes[name], state, filters, budgets)
        if isinstance(found, FilterRefusal):
            reasons[name] = found.reasons
        elif found.pods:
            candidates.append(found)
    if candidates:
        return min(candidates, key=Victims.cost)
    return prefix + preemption_message(fit.total, reasons)


def _preempted(pod: PodState) -> bool:
    return pod.terminating and any(
        each.get("type") == "DisruptionTarget"
        and each.get("status") == "True"
        and each.get("reason") == "PreemptionByScheduler"
        for each in pod.status.get("conditions") or ()
    )
