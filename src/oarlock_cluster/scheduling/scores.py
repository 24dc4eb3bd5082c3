"""Scores: which of the feasible nodes is the best one, with kube-scheduler's plugins and weights.

A score is a function of a pod, the feasible nodes and the state; it returns a number from 0 to 100 for each node.
Source: kube-scheduler 1.36 ``framework/plugins``, in behaviour.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

from oarlock.extend import Tree
from oarlock_cluster.scheduling.matching import term_matches, tolerated
from oarlock_cluster.scheduling.pod_affinity import spread_selector, term_test
from oarlock_cluster.scheduling.state import SCORED, ClusterState, NodeState, PodState

__all__ = ["SCORES", "Score", "UserScore", "best_node", "score_from_user"]

MAX = 100
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
Score = Callable[[PodState, Sequence[NodeState], ClusterState], list[float] | None]
"""None when all nodes are as good."""


class UserScore(Protocol):
    """A score of a user: how good the node is for the pod, from 0 to 100."""

    def __call__(self, pod: Tree, node: Tree, /) -> float: ...


def _normalized(values: list[float], *, reverse: bool = False) -> list[float]:
    """Stretched to 0..100 by the largest."""
    most = max(values, default=0)
    if not most:
        return [float(MAX if reverse else 0)] * len(values)
    scaled = [value * MAX // most for value in values]
    return [MAX - value for value in scaled] if reverse else scaled


def taints_score(pod: PodState, nodes: Sequence[NodeState], state: ClusterState) -> list[float] | None:
    """Fewer taints of ``PreferNoSchedule`` that it doesn't tolerate."""
    if not any(node.taints for node in nodes):
        return None
    counts = [
        float(sum(t.get("effect") == "PreferNoSchedule" and not tolerated(t, pod.tolerations) for t in node.taints))
        for node in nodes
    ]
    return _normalized(counts, reverse=True)


def node_affinity_score(pod: PodState, nodes: Sequence[NodeState], state: ClusterState) -> list[float] | None:
    """The weights of the preferred terms of node affinity that match."""
    affinity = (pod.spec.get("affinity") or {}).get("nodeAffinity") or {}
    preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution")
    if not preferred:
        return None
    return _normalized(
        [
            float(sum(t["weight"] for t in preferred if term_matches(t["preference"], node.labels, node.name)))
            for node in nodes
        ]
    )


def _fractions(pod: PodState, node: NodeState) -> list[float]:
    """How full CPU and memory would be."""
    full = []
    for name, least in SCORED.items():
        capacity = node.allocatable.get(name, 0)
        if capacity:
            used = node.used[name] + node.idle[name] * least + (pod.requests.get(name) or least)
            full.append(min(1.0, used / capacity))
    return full


def least_allocated_score(pod: PodState, nodes: Sequence[NodeState], state: ClusterState) -> list[float] | None:
    """More free CPU and memory."""
    free = []
    for node in nodes:
        full = _fractions(pod, node)
        free.append(float(sum(int((1 - each) * MAX) for each in full) // len(full)) if full else 0.0)
    return free


def balanced_score(pod: PodState, nodes: Sequence[NodeState], state: ClusterState) -> list[float] | None:
    """CPU and memory as full as one another; all the same for a pod that requests nothing."""
    if not pod.requests:
        return None
    balanced = []
    for node in nodes:
        full = [
            min(1.0, (node.used[name] + pod.requests.get(name, 0)) / node.allocatable[name])
            for name in SCORED
            if node.allocatable.get(name)
        ]
        spread = abs(full[0] - full[1]) / 2 if len(full) == 2 else 0.0
        balanced.append(float(int((1 - spread) * MAX)))
    return balanced


def _counted(counts_pod: Callable[[PodState], bool]) -> Callable[[NodeState], int]:
    return lambda node: sum(map(counts_pod, node.pods.values()))


def spread_score(pod: PodState, nodes: Sequence[NodeState], state: ClusterState) -> list[float] | None:
    """Fewer pods of the same kind in its domains: by its soft constraints, or by zone and node for its controller."""
    own = pod.spec.get("topologySpreadConstraints")
    soft = [each for each in own or () if each.get("whenUnsatisfiable") == "ScheduleAnyway"]
    if own and not soft:
        return None
    if soft:
        rules = [(each["topologyKey"], each["maxSkew"], _counted(spread_selector(each, pod))) for each in soft]
    elif pod.controller:

        def alike(node: NodeState) -> int:
            return node.of_controller[pod.controller]

        rules = [(HOSTNAME, 3, alike), (ZONE, 5, alike)]
    else:
        return None
    totals = [0.0] * len(nodes)
    for key, skew, count in rules:
        counts: Counter[str] = Counter()
        for node in state.nodes.values():
            if key in node.labels:
                counts[node.labels[key]] += count(node)
        weight = math.log(len({node.labels[key] for node in nodes if key in node.labels}) + 2)
        for at, node in enumerate(nodes):
            if key in node.labels:
                totals[at] += counts[node.labels[key]] * weight + (skew - 1)
    totals = [float(round(total)) for total in totals]
    most, least = max(totals, default=0), min(totals, default=0)
    return [MAX * (most + least - total) // most if most else float(MAX) for total in totals]


def pod_affinity_score(pod: PodState, nodes: Sequence[NodeState], state: ClusterState) -> list[float] | None:
    """The weights of the preferred terms of pod affinity, less those of anti-affinity."""
    terms = [
        (sign * each["weight"], each["podAffinityTerm"]["topologyKey"], term_test(each["podAffinityTerm"], pod, state))
        for kind, sign in (("podAffinity", 1), ("podAntiAffinity", -1))
        for each in pod.affinity_terms(kind, required=False)
    ]
    if not terms:
        return None
    sums: Counter[tuple[str, str]] = Counter()
    for node in state.nodes.values():
        for other in node.pods.values():
            for weight, key, matches in terms:
                if key in node.labels and matches(other):
                    sums[key, node.labels[key]] += weight
    keys = {key for _, key, _ in terms}
    totals = [sum(sums[key, node.labels[key]] for key in keys if key in node.labels) for node in nodes]
    least, most = min(totals), max(totals)
    return [float(MAX * (total - least) // (most - least)) if most > least else 0.0 for total in totals]


SCORES: Sequence[tuple[Score, int]] = (
    (taints_score, 3),
    (node_affinity_score, 2),
    (least_allocated_score, 1),
    (spread_score, 2),
    (pod_affinity_score, 2),
    (balanced_score, 1),
)
"""Each with its weight."""


def score_from_user(function: UserScore) -> Score:
    """A score that asks a function of two trees."""
    return lambda pod, nodes, state: [min(MAX, max(0, function(pod.tree, node.tree))) for node in nodes]


def best_node(
    pod: PodState, nodes: Sequence[NodeState], state: ClusterState, scores: Sequence[tuple[Score, int]] = SCORES
) -> NodeState:
    """The node with the highest sum; of equal ones that with the fewest pods, then the first."""
    totals = [0.0] * len(nodes)
    for score, weight in scores if len(nodes) > 1 else ():
        values = score(pod, nodes, state)
        if values is not None:
            totals = [total + weight * value for total, value in zip(totals, values, strict=True)]
    at = max(range(len(nodes)), key=lambda i: (totals[i], -len(nodes[i].pods), -i))
    return nodes[at]
