"""Node lifecycle: a node that tells nothing for too long is unknown, and one that isn't ready has taints.

`desired_taints` says which. Source: k8s.io/kubernetes ``pkg/controller/nodelifecycle``, in behaviour.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oarlock.controllers import ObjectKey, ObjectSelection, Result, Watched
from oarlock.extend import ReadOnlyTree, Tree, rfc3339
from oarlock_cluster.controllers.acting import AGAIN, TreeController
from oarlock_cluster.shapes import condition_of, created, labels_of

__all__ = ["GRACE_S", "NodeLifecycle", "desired_taints", "eviction_pause_s", "pods_by_node", "unknown_conditions"]

GRACE_S = 50.0
"""How long a node may be silent before it counts as lost."""
LEASES = "kube-node-lease"
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"

_TAINTS = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
_MANAGED = {*_TAINTS.values(), UNSCHEDULABLE}
_REPORTED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_BETA_LABELS = {"kubernetes.io/os": "beta.kubernetes.io/os", "kubernetes.io/arch": "beta.kubernetes.io/arch"}


def _readiness(node: ReadOnlyTree) -> str:
    """The status of the condition Ready; empty if it was never told."""
    return str((condition_of(node, "Ready") or {}).get("status", ""))


def desired_taints(node: ReadOnlyTree, evicts: bool | None, now: float) -> list[Tree]:
    """The taints of a node as its conditions ask for; others stay.

    `evicts` says whether a node that isn't ready gets the taint by which pods are evicted; None leaves it as it is.
    """
    before: Sequence[Tree] = node["spec"].get("taints") or ()
    conditions = (node.get("status") or {}).get("conditions") or ()
    wanted = {
        (key, "NoSchedule")
        for condition in conditions
        if (key := _TAINTS.get((condition["type"], condition["status"])))
    }
    if node["spec"].get("unschedulable"):
        wanted.add((UNSCHEDULABLE, "NoSchedule"))
    ready = _readiness(node)
    evicting = {(taint["key"], "NoExecute") for taint in before if taint["effect"] == "NoExecute"} & _EVICTING
    if ready and ready != "True":
        right = (_TAINTS["Ready", ready], "NoExecute")
        if evicts or (evicts is None and evicting):
            wanted.add(right)
    managed = {(key, "NoSchedule") for key in _MANAGED} | (_EVICTING if ready else set())
    kept = [taint for taint in before if (taint["key"], taint["effect"]) not in managed - wanted]
    known = {(taint["key"], taint["effect"]) for taint in kept}
    added = [{"key": key, "effect": effect, "timeAdded": rfc3339(now)} for key, effect in sorted(wanted - known)]
    return [*kept, *added]


_EVICTING = {(NOT_READY, "NoExecute"), (UNREACHABLE, "NoExecute")}


def unknown_conditions(node: ReadOnlyTree, now: float) -> list[Tree]:
    """The conditions of a node that tells nothing any more."""
    conditions = {condition["type"]: condition for condition in (node.get("status") or {}).get("conditions") or ()}
    time = rfc3339(now)
    for kind in _REPORTED:
        known = conditions.get(kind)
        lost = {"type": kind, "status": "Unknown", "lastTransitionTime": time}
        if known is None:
            born = node["metadata"].get("creationTimestamp")
            why = {"reason": "NodeStatusNeverUpdated", "message": "Kubelet never posted node status."}
            conditions[kind] = {**lost, **why, "lastHeartbeatTime": born}
        elif known["status"] != "Unknown":
            why = {"reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
            conditions[kind] = {**known, **lost, **why}
    return list(conditions.values())


def eviction_pause_s(nodes: Iterable[ReadOnlyTree]) -> float | None:
    """How long after one node of a zone the pods of the next are evicted; None for never."""
    states = [_readiness(node) == "True" for node in nodes]
    lost = states.count(False)
    partly = lost > 2 and lost < len(states) and lost / len(states) >= 0.55
    if partly:
        return 100.0 if len(states) > 50 else None
    return 10.0


def _zone(node: ReadOnlyTree) -> str:
    labels = labels_of(node)
    return f"{labels.get('topology.kubernetes.io/region', '')}:{labels.get('topology.kubernetes.io/zone', '')}"


def pods_by_node(pod: ReadOnlyTree) -> Iterable[str]:
    """The index of pods by their node."""
    if pod["spec"].get("nodeName"):
        yield pod["spec"]["nodeName"]


@dataclass
class _Seen:
    """What a node told last, and when that was seen."""

    uid: str
    heartbeat: str
    renewed: str
    at: float


def _readiness_changed(old: ReadOnlyTree | None, new: ReadOnlyTree | None) -> bool:
    """Whether a node that was there before is ready no more, or again, or gone."""
    return old is not None and (new is None or _readiness(old) != _readiness(new))


class NodeLifecycle(
    TreeController[dict[str, Any]],
    of="v1/Node",
    name="node-controller",
    watches=[
        Watched(
            "coordination.k8s.io/v1/Lease",
            to=lambda lease: [("", lease["metadata"]["name"])],
            selection=ObjectSelection(namespace=LEASES),
        ),
        Watched("v1/Pod", to=lambda pod: ()),
        Watched("v1/Node", to="_neighbours", when=_readiness_changed),
    ],
):
    """Watches over nodes: `grace_s` is how long one may tell nothing, `startup_grace_s` a new one."""

    def __init__(self, *, grace_s: float = GRACE_S, startup_grace_s: float = 60.0) -> None:
        super().__init__()
        self._grace_s, self._startup_grace_s = grace_s, startup_grace_s
        self._seen: dict[str, _Seen] = {}
        self._evicted: dict[str, float] = {}
        """When pods of a node were evicted last, by zone."""

    def _neighbours(self, node: ReadOnlyTree) -> Iterable[tuple[str, str]]:
        """Whether pods are evicted from nodes that aren't ready depends on how the other nodes are."""
        lost = [other for other in self.informer if _readiness(other) in ("False", "Unknown")]
        return [("", other["metadata"]["name"]) for other in lost]

    async def reconcile(self, key: ObjectKey) -> Result | None:
        node = self.informer.get(key.name)
        if node is None:
            gone = self._seen.pop(key.name, None)
            if gone is not None:
                self._tell(key.name, gone.uid, "RemovingNode", f"Removing Node {key.name} from Controller")
            return None
        wait_s = self._look(node)
        if wait_s <= 0:
            await self._lose(node)
            return AGAIN
        pause_s = await self._taint(node)
        return Result(wait_s if pause_s is None else min(wait_s, pause_s))

    def _tell(self, name: str, uid: str, reason: str, event: str) -> None:
        reference = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": uid}}
        self.events.normal(reference, reason, f"Node {name} event: {event}", action="")

    def _look(self, node: ReadOnlyTree) -> float:
        """How long the node may go on to tell nothing; not above 0 if it is lost now."""
        name, uid, now = node["metadata"]["name"], node["metadata"]["uid"], self._now()
        ready = condition_of(node, "Ready")
        heartbeat = str((ready or {}).get("lastHeartbeatTime", ""))
        lease = self.informers["coordination.k8s.io/v1/Lease"].get(name, LEASES)
        renewed = str(((lease or {}).get("spec") or {}).get("renewTime", ""))
        seen = self._seen.get(name)
        if seen is None or seen.uid != uid:
            seen = self._seen[name] = _Seen(uid, heartbeat, renewed, now if ready else max(created(node), now))
            self._tell(name, uid, "RegisteredNode", f"Registered Node {name} in Controller")
        elif (seen.heartbeat, seen.renewed) != (heartbeat, renewed):
            seen.heartbeat, seen.renewed, seen.at = heartbeat, renewed, now
        if ready is not None and ready["status"] == "Unknown" and seen.at + self._grace_s <= now:
            return self._grace_s  # it is known to be lost
        return seen.at + (self._grace_s if ready else self._startup_grace_s) - now

    async def _lose(self, node: Tree) -> None:
        """Say that nothing is known of the node and of its pods."""
        now, name = self._now(), node["metadata"]["name"]
        was_ready = _readiness(node) == "True"
        await self._write_status(node, {**(node.get("status") or {}), "conditions": unknown_conditions(node, now)})
        if not was_ready:
            return
        self.events.normal(node, "NodeNotReady", f"Node {name} status is now: NodeNotReady", action="")
        for pod in self._index("v1/Pod", "node", pods_by_node, name):
            ready = condition_of(pod, "Ready")
            if ready is not None and ready["status"] != "False":
                condition = {**ready, "status": "False", "lastTransitionTime": rfc3339(now)}
                await self._patch("v1/Pod", pod, {"status": {"conditions": [condition]}}, "status")
                self.events.warning(pod, "NodeNotReady", "Node is not ready", action="")

    async def _taint(self, node: Tree) -> float | None:
        """Have the right taints and labels. Returns when pods may be evicted, if that has to wait."""
        now = self._now()
        evicts, pause_s = self._evicts(node)
        taints = desired_taints(node, evicts, now)
        labels = labels_of(node)
        beta = {
            new: labels[old] for old, new in _BETA_LABELS.items() if old in labels and labels.get(new) != labels[old]
        }
        patch: Tree = {"metadata": {"labels": beta}} if beta else {}
        if taints != (node["spec"].get("taints") or []):
            patch["spec"] = {"taints": taints or None}
        if patch:
            patch.setdefault("metadata", {})["resourceVersion"] = node["metadata"]["resourceVersion"]
            await self.client.patch("v1/Node", node["metadata"]["name"], patch)
            if evicts:
                self._evicted[_zone(node)] = now
        return pause_s

    def _evicts(self, node: ReadOnlyTree) -> tuple[bool | None, float | None]:
        """Whether pods of the node are evicted, and how long to wait until they may be."""
        if _readiness(node) == "True":
            return False, None
        nodes: list[Mapping[str, Any]] = list(self.informer)
        if all(_readiness(other) != "True" for other in nodes):
            return False, None  # it isn't the nodes that are lost
        tainted = any((taint["key"], taint["effect"]) in _EVICTING for taint in node["spec"].get("taints") or ())
        pause_s = eviction_pause_s(other for other in nodes if _zone(other) == _zone(node))
        if tainted or pause_s is None:
            return None, None
        left_s = self._evicted.get(_zone(node), float("-inf")) + pause_s - self._now()
        return (True, None) if left_s <= 0 else (None, left_s)
