"""InterPodAffinity and PodTopologySpread as filters: where a pod may run next to others, and how evenly.

Source: kube-scheduler 1.36 ``interpodaffinity`` and ``podtopologyspread``, in behaviour.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from oarlock.extend import Selector, Tree, from_label_selector
from oarlock_cluster.scheduling.filters import FilterRefusal, NodeTest
from oarlock_cluster.scheduling.matching import node_selected, untolerated_taint
from oarlock_cluster.scheduling.state import ClusterState, NodeState, PodState

__all__ = ["counted_nodes", "pod_affinity_filter", "spread_filter", "spread_selector", "term_test"]

_NO_AFFINITY = FilterRefusal(("node(s) didn't match pod affinity rules",), final=True)
_ANTI = FilterRefusal(("node(s) didn't match pod anti-affinity rules",))
_EXISTING_ANTI = FilterRefusal(("node(s) didn't satisfy existing pods anti-affinity rules",))
_UNEVEN = FilterRefusal(("node(s) didn't match pod topology spread constraints",))
_NO_LABEL = FilterRefusal(
    ("node(s) didn't match pod topology spread constraints (missing required label)",), final=True
)

PodTest = Callable[[PodState], bool]
Domain = tuple[str, str]
"""A topology key and its value."""


def term_test(term: Tree, owner: PodState, state: ClusterState) -> PodTest:
    """Whether a term of the affinity of `owner` means a pod: by its labels and its namespace."""
    selector = _selector(term.get("labelSelector"))
    names = set(term.get("namespaces") or ())
    by_labels = term.get("namespaceSelector")
    if not names and by_labels is None:
        names = {owner.namespace}
    namespaces = _selector(by_labels)

    def test(pod: PodState) -> bool:
        here = pod.namespace in names or (
            by_labels is not None and namespaces.matches(state.namespaces.get(pod.namespace, {}))
        )
        return here and selector.matches(pod.labels)

    return test


def _selector(tree: Mapping[str, Any] | None) -> Selector:
    return Selector(nothing=True) if tree is None else from_label_selector(tree)


def pod_affinity_filter(pod: PodState, state: ClusterState) -> NodeTest | None:
    """InterPodAffinity."""
    wanted = [(term["topologyKey"], term_test(term, pod, state)) for term in pod.affinity_terms("podAffinity")]
    shunned = [(term["topologyKey"], term_test(term, pod, state)) for term in pod.anti_affinity]
    near: Counter[tuple[int, str]] = Counter()
    far: Counter[tuple[int, str]] = Counter()
    refusing: set[Domain] = set()
    for node in state.nodes.values():
        for other in node.shunning.values():
            for term in other.anti_affinity:
                value = node.labels.get(term["topologyKey"])
                if value is not None and term_test(term, other, state)(pod):
                    refusing.add((term["topologyKey"], value))
        for other in node.pods.values() if wanted or shunned else ():
            if wanted and all(test(other) for _, test in wanted):
                near.update((at, node.labels[key]) for at, (key, _) in enumerate(wanted) if key in node.labels)
            far.update(
                (at, node.labels[key]) for at, (key, test) in enumerate(shunned) if key in node.labels and test(other)
            )
    if not wanted and not shunned and not refusing:
        return None
    first_of_its_kind = not near and all(test(pod) for _, test in wanted)

    def test(node: NodeState) -> FilterRefusal | None:
        labels = node.labels
        if any(key not in labels for key, _ in wanted):
            return _NO_AFFINITY
        if not first_of_its_kind and any(not near[at, labels[key]] for at, (key, _) in enumerate(wanted)):
            return _NO_AFFINITY
        if any(key in labels and far[at, labels[key]] for at, (key, _) in enumerate(shunned)):
            return _ANTI
        if any(labels.get(key) == value for key, value in refusing):
            return _EXISTING_ANTI
        return None

    return test


def spread_selector(constraint: Tree, pod: PodState) -> PodTest:
    """The pods that a constraint counts: of the same namespace, by its selector and ``matchLabelKeys``."""
    selector = _selector(constraint.get("labelSelector"))
    same = {key: pod.labels[key] for key in constraint.get("matchLabelKeys") or () if key in pod.labels}

    def test(other: PodState) -> bool:
        if other.namespace != pod.namespace or other.terminating or not selector.matches(other.labels):
            return False
        return all(other.labels.get(key) == value for key, value in same.items())

    return test


def counted_nodes(constraint: Tree, pod: PodState, state: ClusterState) -> list[NodeState]:
    """The nodes whose domains a constraint counts, by its node policies."""
    nodes = [node for node in state.nodes.values() if constraint["topologyKey"] in node.labels]
    if constraint.get("nodeAffinityPolicy") != "Ignore":
        nodes = [node for node in nodes if node_selected(pod.spec, node.labels, node.name)]
    if constraint.get("nodeTaintsPolicy") == "Honor":
        effects = ("NoSchedule", "NoExecute")
        nodes = [node for node in nodes if not untolerated_taint(node.taints, pod.tolerations, effects)]
    return nodes


def _most_there(constraint: Tree, pod: PodState, state: ClusterState, keys: set[str]) -> NodeTest:
    key = constraint["topologyKey"]
    counts_pod = spread_selector(constraint, pod)
    counts: Counter[str] = Counter()
    domains: set[str] = set()
    for node in counted_nodes(constraint, pod, state):
        if keys <= node.labels.keys():
            domains.add(node.labels[key])
            counts[node.labels[key]] += sum(map(counts_pod, node.pods.values()))
    least = min((counts[domain] for domain in domains), default=0)
    if len(domains) < (constraint.get("minDomains") or 1):
        least = 0
    own = int(counts_pod(PodState({**pod.tree, "metadata": {**pod.tree["metadata"], "deletionTimestamp": None}})))
    most = constraint["maxSkew"] + least - own

    def test(node: NodeState) -> FilterRefusal | None:
        if key not in node.labels:
            return _NO_LABEL
        return _UNEVEN if counts[node.labels[key]] > most else None

    return test


def spread_filter(pod: PodState, state: ClusterState) -> NodeTest | None:
    """PodTopologySpread: the constraints that say ``DoNotSchedule``."""
    constraints = [
        each
        for each in pod.spec.get("topologySpreadConstraints") or ()
        if each.get("whenUnsatisfiable") == "DoNotSchedule"
    ]
    if not constraints:
        return None
    keys = {each["topologyKey"] for each in constraints}
    tests = [_most_there(each, pod, state, keys) for each in constraints]

    def test(node: NodeState) -> FilterRefusal | None:
        return next((refusal for each in tests if (refusal := each(node)) is not None), None)

    return test
