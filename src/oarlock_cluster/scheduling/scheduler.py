"""`Scheduler`: binds pods to nodes, as kube-scheduler does, over a client and a clock."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any

from oarlock import Informer, errors
from oarlock.client import Client
from oarlock.controllers import EventRecorder
from oarlock.extend import EventSender, TimerClock, Tree, rfc3339
from oarlock_cluster.scheduling.claims import waits_for_claims
from oarlock_cluster.scheduling.filters import NodeFilter, UserFilter, from_user
from oarlock_cluster.scheduling.fit import FILTERS, Fit, Victims, find_nodes, find_victims
from oarlock_cluster.scheduling.queue import SchedulingQueue
from oarlock_cluster.scheduling.scores import SCORES, Score, UserScore, best_node, score_from_user
from oarlock_cluster.scheduling.state import ClusterState, NodeState, PodState, finished
from oarlock_cluster.scheduling.volumes import claims_to_bind, volume_for
from oarlock_cluster.waiting import changed_or_due

__all__ = ["Scheduler"]

log = logging.getLogger("oarlock_cluster.scheduler")

NAME = "default-scheduler"
_ENOUGH_NODES = 100
"""From so many nodes on, not all feasible ones are searched."""

_KINDS = {
    "v1/Namespace": "_namespace_changed",
    "v1/PersistentVolumeClaim": "_claim_changed",
    "v1/PersistentVolume": "_volume_changed",
    "resource.k8s.io/v1/ResourceClaim": "_resource_claim_changed",
    "resource.k8s.io/v1/DeviceClass": "_device_class_changed",
    "storage.k8s.io/v1/StorageClass": "_class_changed",
    "v1/Node": "_node_changed",
    "v1/Pod": "_pod_changed",
}
_BUDGETS = "policy/v1/PodDisruptionBudget"


def _nodes_to_find(total: int) -> int:
    """How many feasible nodes are enough, as kube-scheduler's adaptive ``percentageOfNodesToScore``."""
    if total < _ENOUGH_NODES:
        return 0
    return max(_ENOUGH_NODES, total * max(5, 50 - total // 125) // 100)


class Scheduler:
    """Binds the pods of ``schedulerName: default-scheduler``, or of another `name`.

    `filters` are functions of a pod and a node that return why it can't run there, or None; `scores` return how good
    it is, from 0 to 100, and are given with their weights. Both come after kube-scheduler's own.
    """

    called = "kube-scheduler"

    def __init__(
        self,
        name: str = NAME,
        *,
        filters: Sequence[UserFilter] = (),
        scores: Sequence[tuple[UserScore, int]] = (),
    ) -> None:
        self.name = name
        self._filters: Sequence[NodeFilter] = (*FILTERS, *map(from_user, filters))
        self._scores: Sequence[tuple[Score, int]] = (*SCORES, *((score_from_user(each), w) for each, w in scores))

    async def run(self, client: Client, clock: TimerClock) -> None:
        """Schedule until cancelled."""
        sender = EventSender(client, clock)
        work = _Scheduling(self.name, client, clock, EventRecorder(sender, self.name))
        work.filters, work.scores = self._filters, self._scores
        sender.start()
        try:
            await work.run()
        finally:
            await sender.stop()


class _Scheduling:
    """One run of a scheduler."""

    filters: Sequence[NodeFilter]
    scores: Sequence[tuple[Score, int]]

    def __init__(self, name: str, client: Client, clock: TimerClock, events: EventRecorder) -> None:
        self._name = name
        self._client = client
        self._clock = clock
        self._events = events
        self._state = ClusterState()
        self._queue = SchedulingQueue(clock.monotonic)
        self._assumed: dict[str, PodState] = {}
        """Pods that are bound, but not yet known to be, by uid."""
        self._placed: dict[str, PodState] = {}
        """Pods with a node, by uid."""
        self._changed = asyncio.Event()
        self._begin = 0
        self._binding: set[asyncio.Task[None]] = set()
        self._budgets: Informer[Any] | None = None

    async def run(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                budgets: Informer[Any] = self._client.informer(_BUDGETS)
                self._budgets = budgets
                await stack.enter_async_context(budgets)
                await budgets.synced()
                for kind, handler in _KINDS.items():
                    informer = self._client.informer(kind)
                    informer.add_handler(getattr(self, handler))
                    await (await stack.enter_async_context(informer)).synced()
                await self._loop()
        finally:
            for task in self._binding:
                task.cancel()

    async def _loop(self) -> None:
        while True:
            self._changed.clear()
            pod = self._queue.take()
            if pod is not None:
                await self._schedule(pod)
                await asyncio.sleep(0)
            else:
                await changed_or_due(self._changed, self._clock, self._queue.wait_s())

    # What changes

    def _wake(self) -> None:
        self._queue.wake()
        self._changed.set()

    def _namespace_changed(self, old: Tree | None, new: Tree | None) -> None:
        _put(self._state.namespaces, old, new, read=lambda tree: tree["metadata"].get("labels") or {})

    def _claim_changed(self, old: Tree | None, new: Tree | None) -> None:
        _put(self._state.claims, old, new, key=_in_namespace)
        self._wake()

    def _volume_changed(self, old: Tree | None, new: Tree | None) -> None:
        _put(self._state.volumes, old, new)
        self._wake()

    def _resource_claim_changed(self, old: Tree | None, new: Tree | None) -> None:
        _put(self._state.resource_claims, old, new, key=_in_namespace)
        self._wake()

    def _device_class_changed(self, old: Tree | None, new: Tree | None) -> None:
        _put(self._state.device_classes, old, new)
        self._wake()

    def _class_changed(self, old: Tree | None, new: Tree | None) -> None:
        _put(self._state.classes, old, new)
        self._wake()

    def _node_changed(self, old: Tree | None, new: Tree | None) -> None:
        nodes = self._state.nodes
        if new is None:
            nodes.pop((old or {})["metadata"]["name"], None)
            return
        name = new["metadata"]["name"]
        node = nodes.get(name)
        if node is None:
            nodes[name] = NodeState(new, [pod for pod in self._placed.values() if pod.node == name])
            self._wake()
            return
        before = node.labels, node.taints, node.unschedulable, node.allocatable
        node.update(new)
        if before != (node.labels, node.taints, node.unschedulable, node.allocatable):
            self._wake()

    def _pod_changed(self, old: Tree | None, new: Tree | None) -> None:
        if new is None or (old is not None and old["metadata"].get("uid") != new["metadata"].get("uid")):
            self._forget(PodState(old or {}))
        if new is not None:
            pod = PodState(new)
            if pod.node:
                self._assumed.pop(pod.uid, None)
                self._leave_queue(pod.uid)
                if finished(new):
                    self._forget(pod)
                else:
                    self._place(pod, told=old is None or not (old.get("spec") or {}).get("nodeName"))
            elif pod.uid not in self._assumed:
                self._pend(pod, old)

    def _pend(self, pod: PodState, old: Tree | None) -> None:
        if (pod.spec.get("schedulerName") or NAME) != self._name:
            return
        gated = pod.spec.get("schedulingGates") or waits_for_claims(pod)
        if pod.terminating or gated or finished(pod.tree):
            self._leave_queue(pod.uid)
            return
        if pod.status.get("nominatedNodeName"):
            self._state.nominated[pod.uid] = pod
        same = old is not None and all(
            old["metadata"].get(name) == pod.tree["metadata"].get(name) for name in ("generation", "labels")
        )
        same = same and not (old is not None and waits_for_claims(PodState(old)))
        self._queue.put(pod, changed=not same)
        self._changed.set()

    def _leave_queue(self, uid: str) -> None:
        self._queue.drop(uid)
        self._state.nominated.pop(uid, None)

    def _place(self, pod: PodState, *, told: bool) -> None:
        self._placed[pod.uid] = pod
        node = self._state.nodes.get(pod.node)
        if node is not None:
            node.add(pod)
        if told:
            self._queue.wake(lambda waiting: bool(waiting.affinity_terms("podAffinity")))
            self._changed.set()

    def _forget(self, pod: PodState) -> None:
        self._leave_queue(pod.uid)
        self._assumed.pop(pod.uid, None)
        placed = self._placed.pop(pod.uid, None)
        if placed is not None:
            node = self._state.nodes.get(placed.node)
            if node is not None:
                node.remove(pod.uid)
            self._wake()

    # One pod

    async def _schedule(self, pod: PodState) -> None:
        total = len(self._state.nodes)
        fit = find_nodes(pod, self._state, self.filters, begin=self._begin, enough=_nodes_to_find(total))
        if not fit.nodes:
            await self._unschedulable(pod, fit)
            return
        self._begin = (self._begin + len(fit.nodes) + len(fit.refusals)) % max(1, total)
        node = best_node(pod, fit.nodes, self._state, self.scores)
        unbound = claims_to_bind(pod, self._state)
        if unbound:
            self._queue.failed(pod.uid)
            await self._tolerant(self._patch_status(pod, {"nominatedNodeName": node.name}))
            await self._tolerant(self._bind_claims(unbound, node))
            return
        self._queue.drop(pod.uid)
        self._state.nominated.pop(pod.uid, None)
        bound = PodState({**pod.tree, "spec": {**pod.spec, "nodeName": node.name}})
        self._assumed[pod.uid] = bound
        self._place(bound, told=False)
        task = asyncio.create_task(self._bind(pod, node.name), name="binding")
        self._binding.add(task)
        task.add_done_callback(self._binding.discard)

    async def _bind(self, pod: PodState, node: str) -> None:
        metadata = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": {"kind": "Node", "name": node}}
        try:
            await self._client.post("v1/Pod", pod.name, "binding", body, namespace=pod.namespace)
        except Exception as error:
            if self._assumed.pop(pod.uid, None) is None:
                return
            self._forget(pod)
            if isinstance(error, errors.NotFound):
                return
            log.info("binding %s/%s failed: %s", pod.namespace, pod.name, error)
            self._events.warning(pod.tree, "FailedScheduling", f"binding rejected: {error}", action="Scheduling")
            self._queue.put(pod)
            self._queue.failed(pod.uid, retry=True)
            self._changed.set()
        else:
            note = f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
            self._events.normal(pod.tree, "Scheduled", note, action="Binding")

    async def _bind_claims(self, claims: Sequence[Tree], node: NodeState) -> None:
        """Give each claim a volume that can be used from the node, or have one provisioned there."""
        for claim in claims:
            namespace, name = claim["metadata"]["namespace"], claim["metadata"]["name"]
            volume = volume_for(claim, node, self._state)
            if volume is None:
                change: Mapping[str, Any] = {"annotations": {"volume.kubernetes.io/selected-node": node.name}}
                kind = "v1/PersistentVolumeClaim"
                await self._client.patch(kind, name, {"metadata": change}, namespace=namespace)
            elif not volume["spec"].get("claimRef"):
                owner = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": name}
                body = {
                    "metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
                    "spec": {"claimRef": {**owner, "uid": claim["metadata"].get("uid")}},
                }
                await self._client.patch("v1/PersistentVolume", volume["metadata"]["name"], body)

    async def _unschedulable(self, pod: PodState, fit: Fit) -> None:
        self._queue.failed(pod.uid)
        found: Victims | str = ""
        if fit.total:
            budgets = list(self._budgets or ())
            found = find_victims(pod, fit, self._state, self.filters, budgets)
        message = fit.message(found if isinstance(found, str) else "")
        status: Tree = {}
        if isinstance(found, Victims):
            status["nominatedNodeName"] = found.node
            nominated = PodState({**pod.tree, "status": {**pod.status, "nominatedNodeName": found.node}})
            self._state.nominated[pod.uid] = nominated
            for victim in found.pods:
                await self._tolerant(self._preempt(victim, pod, found.node))
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "observedGeneration": pod.tree["metadata"].get("generation"),
        }
        self._events.warning(pod.tree, "FailedScheduling", message, action="Scheduling")
        if status or not _has_condition(pod, condition):
            status["conditions"] = [self._dated(condition)]
            await self._tolerant(self._patch_status(pod, status))

    async def _preempt(self, victim: PodState, pod: PodState, node: str) -> None:
        if victim.terminating:
            return
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": f"{self._name}: preempting to accommodate a higher priority pod",
            "observedGeneration": victim.tree["metadata"].get("generation"),
        }
        await self._patch_status(victim, {"conditions": [self._dated(condition)]})
        await self._client.delete("v1/Pod", victim.name, namespace=victim.namespace, uid=victim.uid)
        note = f"Preempted by pod {pod.uid} on node {node}"
        self._events.normal(victim.tree, "Preempted", note, action="Preempting", related=pod.tree)

    def _dated(self, condition: Tree) -> Tree:
        return {**condition, "lastProbeTime": None, "lastTransitionTime": rfc3339(self._clock.now())}

    async def _patch_status(self, pod: PodState, status: Tree) -> None:
        body = {"metadata": {"uid": pod.uid}, "status": status}
        await self._client.patch(
            "v1/Pod", pod.name, body, type="strategic", namespace=pod.namespace, subresource="status"
        )

    async def _tolerant(self, writing: Awaitable[None]) -> None:
        """Write what another change makes superfluous: the pod is gone, or comes again with its change."""
        with suppress(errors.NotFound, errors.Conflict):
            await writing


def _has_condition(pod: PodState, wanted: Tree) -> bool:
    names = ("status", "reason", "message")
    return any(
        each.get("type") == wanted["type"] and all(each.get(name) == wanted[name] for name in names)
        for each in pod.status.get("conditions") or ()
    )


def _named(tree: Tree) -> Any:
    return tree["metadata"]["name"]


def _in_namespace(tree: Tree) -> Any:
    return tree["metadata"]["namespace"], tree["metadata"]["name"]


def _put(
    into: dict[Any, Any],
    old: Tree | None,
    new: Tree | None,
    *,
    key: Callable[[Tree], Any] = _named,
    read: Callable[[Tree], Any] = lambda tree: tree,
) -> None:
    if new is not None:
        into[key(new)] = read(new)
    elif old is not None:
        into.pop(key(old), None)
