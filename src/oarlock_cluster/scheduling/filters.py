"""Filters: why a pod can't run on a node, in kube-scheduler's order and words.

A filter is asked once a pod (`prepare`), and returns a function of a node, or None when it has nothing against any.
Source: kube-scheduler 1.36 ``framework/plugins``, in behaviour.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from oarlock.extend import Tree
from oarlock_cluster.scheduling.matching import node_selected, tolerated, untolerated_taint
from oarlock_cluster.scheduling.state import ClusterState, NodeState, PodState, host_ports_conflict

__all__ = [
    "FilterRefusal",
    "NodeFilter",
    "NodeTest",
    "PodRejected",
    "UserFilter",
    "affinity_filter",
    "from_user",
    "names_filter",
    "node_names",
    "ports_filter",
    "resources_filter",
    "taints_filter",
    "unschedulable_filter",
]


class FilterRefusal(NamedTuple):
    """Why a node is none for a pod. It is `final` when no preemption there would change it."""

    reasons: tuple[str, ...]
    final: bool = False


class PodRejected(Exception):
    """No node is one for the pod, whatever they have; the text says why. `of_nodes` if that is said of each node."""

    def __init__(self, text: str, *, of_nodes: bool = False) -> None:
        super().__init__(text)
        self.of_nodes = of_nodes


NodeTest = Callable[[NodeState], FilterRefusal | None]
NodeFilter = Callable[[PodState, ClusterState], NodeTest | None]


class UserFilter(Protocol):
    """A filter of a user: returns why the pod can't run on the node, or None."""

    def __call__(self, pod: Tree, node: Tree, /) -> str | None: ...


_UNSCHEDULABLE_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_UNSCHEDULABLE = FilterRefusal(("node(s) were unschedulable",), final=True)
_TAINTED = FilterRefusal(("node(s) had untolerated taint(s)",), final=True)
_NOT_SELECTED = FilterRefusal(("node(s) didn't match Pod's node affinity/selector",), final=True)
_LEFT_OUT = FilterRefusal(("node(s) didn't satisfy plugin(s) [NodeAffinity]",), final=True)
_PORTS_TAKEN = FilterRefusal(("node(s) didn't have free ports for the requested pod ports",))


def unschedulable_filter(pod: PodState, state: ClusterState) -> NodeTest | None:
    """NodeUnschedulable: cordoned nodes take only what tolerates that."""
    if tolerated(_UNSCHEDULABLE_TAINT, pod.tolerations):
        return None
    return lambda node: _UNSCHEDULABLE if node.unschedulable else None


def taints_filter(pod: PodState, state: ClusterState) -> NodeTest | None:
    """TaintToleration."""
    tolerations = pod.tolerations

    def test(node: NodeState) -> FilterRefusal | None:
        if node.taints and untolerated_taint(node.taints, tolerations, ("NoSchedule", "NoExecute")):
            return _TAINTED
        return None

    return test


def node_names(spec: Tree) -> set[str] | None:
    """The nodes that every term of the required node affinity names; None if a term names none."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    names: set[str] = set()
    for term in required.get("nodeSelectorTerms") or ():
        of_term: set[str] | None = None
        for each in term.get("matchFields") or ():
            if each["key"] == "metadata.name" and each["operator"] == "In":
                of_term = set(each["values"]) if of_term is None else of_term & set(each["values"])
        if of_term is None:
            return None
        names |= of_term
    return names if required.get("nodeSelectorTerms") else None


def names_filter(pod: PodState, state: ClusterState) -> NodeTest | None:
    """NodeAffinity before all filters: only the nodes are looked at that the required node affinity names.

    Raises PodRejected if no node can have the names.
    """
    names = node_names(pod.spec)
    if names is None:
        return None
    if not names:
        raise PodRejected("pod affinity terms conflict", of_nodes=True)
    return lambda node: None if node.name in names else _LEFT_OUT


def affinity_filter(pod: PodState, state: ClusterState) -> NodeTest | None:
    """NodeAffinity: ``nodeSelector`` and the required node affinity."""
    spec = pod.spec
    if not spec.get("nodeSelector") and not (spec.get("affinity") or {}).get("nodeAffinity"):
        return None
    return lambda node: None if node_selected(spec, node.labels, node.name) else _NOT_SELECTED


def ports_filter(pod: PodState, state: ClusterState) -> NodeTest | None:
    """NodePorts: the host's ports."""
    wanted = pod.host_ports
    if not wanted:
        return None
    return lambda node: _PORTS_TAKEN if host_ports_conflict(wanted, node.ports) else None


def resources_filter(pod: PodState, state: ClusterState) -> NodeTest | None:
    """NodeResourcesFit: what it requests is free, and one more pod may run there."""
    wanted: Sequence[tuple[str, int]] = [(name, value) for name, value in pod.requests.items() if value]
    order = ("cpu", "memory", "ephemeral-storage")
    wanted = sorted(wanted, key=lambda item: (order.index(item[0]) if item[0] in order else len(order), item[0]))

    def test(node: NodeState) -> FilterRefusal | None:
        reasons: list[str] = []
        final = False
        has, used = node.allocatable, node.used
        if len(node.pods) + 1 > has.get("pods", 0):
            reasons.append("Too many pods")
        for name, value in wanted:
            capacity = has.get(name, 0)
            if value > capacity - used[name]:
                reasons.append(f"Insufficient {name}")
                final = final or value > capacity
        return FilterRefusal(tuple(reasons), final) if reasons else None

    return test


def from_user(function: UserFilter) -> NodeFilter:
    """A filter that asks a function of two trees."""

    def prepare(pod: PodState, state: ClusterState) -> NodeTest | None:
        def test(node: NodeState) -> FilterRefusal | None:
            reason: Any = function(pod.tree, node.tree)
            return FilterRefusal((str(reason),)) if reason else None

        return test

    return prepare
