"""`SimulatedNodes`: makes nodes, keeps them alive, and lets pods on them run, over a client and a clock."""

from __future__ import annotations

import asyncio
import heapq
import ipaddress
import logging
from collections import defaultdict
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from oarlock import Informer, errors
from oarlock.client import Client
from oarlock.controllers import ObjectKey
from oarlock.extend import SystemClock, TimerClock, Tree, rfc3339
from oarlock_cluster.controllers.persistent_volumes import DEFAULT_CLASS
from oarlock_cluster.nodes.behaviour import BehaviourRule, PodBehaviour, Usage, UsageSource, behaviour_of
from oarlock_cluster.nodes.lifecycle import ProcessEnd, next_step
from oarlock_cluster.nodes.processes import ContainerProcesses, RunningProcess
from oarlock_cluster.nodes.shapes import LEASE_S, lease_of, node_status
from oarlock_cluster.shapes import key_of
from oarlock_cluster.waiting import changed_or_due

__all__ = ["SimulatedNodes"]

log = logging.getLogger("oarlock_cluster.nodes")

PODS, NODES, LEASES = "v1/Pod", "v1/Node", "coordination.k8s.io/v1/Lease"
RENEW_S = LEASE_S / 4
AGAIN_S = 1.0
"""A step that was refused is tried again after this."""
AT_ONCE = 16
"""How many steps are written at the same time."""
ADDRESSES = ipaddress.ip_network("10.64.0.0/12")


class SimulatedNodes:
    """Makes `nodes` and a StorageClass, and runs the pods of all nodes that there are, as `rules` and annotations say.

    `usage` says what a pod uses, in place of its behaviour. `processes` are the containers that are processes of this
    machine; they take real time, so that there are none on a virtual clock. `stop` and `start` let a node go away and
    come back; they may be called at any time.
    """

    called = "simulated-nodes"

    def __init__(
        self,
        nodes: Sequence[Tree] = (),
        rules: Iterable[BehaviourRule] = (),
        usage: UsageSource | None = None,
        processes: ContainerProcesses | None = None,
    ) -> None:
        self._nodes = nodes
        self._processes = processes
        self._usage = usage
        self._rules = list(rules)
        self._stopped: set[str] = set()
        self._skews: dict[str, float] = {}
        self._run: _Kubelets | None = None

    def stop(self, name: str) -> None:
        """The node renews its lease no more, and reports nothing of its pods."""
        self._stopped.add(name)

    def start(self, name: str) -> None:
        """The node is back."""
        self._stopped.discard(name)
        if self._run is not None:
            self._run.node_is_back(name)

    def skew(self, name: str, seconds: float) -> None:
        """The node's clock is so far ahead, or behind if it is negative."""
        self._skews[name] = seconds

    def add_rule(self, rule: BehaviourRule) -> None:
        """Have pods behave by a rule besides, from now on."""
        self._rules.append(rule)
        if self._run is not None:
            self._run.look_at_all()

    def behaviour(self, pod: Tree) -> PodBehaviour:
        """What the containers of a pod do."""
        return behaviour_of(pod, self._rules)

    def runs(self, pod: Tree) -> bool:
        """Whether this very pod is there, and has not ended."""
        return self._run is not None and self._run.runs(pod)

    def process(self, pod: Tree, container: str) -> RunningProcess | None:
        """The process that is a container, or was."""
        return None if self._processes is None else self._processes.of(pod, container)

    def usages(self) -> list[tuple[Tree, Usage]]:
        """The pods that run on nodes that work, and what they use."""
        if self._run is None:
            return []
        return [(pod, usage) for pod in self._run.running() if (usage := self._used(pod)) is not None]

    def _used(self, pod: Tree) -> Usage | None:
        if self._usage is not None:
            return self._usage(pod)
        behaviour = self.behaviour(pod)
        used = {"cpu": behaviour.cpu, "memory": behaviour.memory}
        return {container["name"]: used for container in pod["spec"]["containers"]}

    def working(self) -> list[Tree]:
        """The nodes that aren't stopped."""
        return [] if self._run is None else self._run.working()

    async def ended(self, pod: Tree) -> None:
        """Wait until a pod has ended, or is gone."""
        while self._run is not None and self._run.runs(pod):
            await self._run.told.wait()

    async def run(self, client: Client, clock: TimerClock) -> None:
        """Work until cancelled. Raises RuntimeError for processes on a virtual clock."""
        if self._processes is not None and not isinstance(clock, SystemClock):
            raise RuntimeError("containers that are processes need the machine's clock: a virtual one waits for nobody")
        for tree in (*self._nodes, *([DEFAULT_CLASS] if self._nodes else ())):
            with suppress(errors.AlreadyExists):
                await client.create(tree)
            await asyncio.sleep(0)  # a store in memory never waits
        self._run = _Kubelets(client, clock, self._rules, self._stopped, self._skews, self._processes)
        try:
            await self._run.run()
        finally:
            self._run.told.set()
            self._run = None
            if self._processes is not None:
                await self._processes.close()


class _Kubelets:
    """One run of all nodes."""

    def __init__(
        self,
        client: Client,
        clock: TimerClock,
        rules: Sequence[BehaviourRule],
        stopped: set[str],
        skews: Mapping[str, float],
        processes: ContainerProcesses | None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._rules = rules
        self._stopped = stopped
        self._skews = skews
        self._processes = processes
        self._nodes: Informer[Any] = client.informer(NODES)
        self._pods: Informer[Any] = client.informer(PODS)
        self._on_node: defaultdict[str, set[ObjectKey]] = defaultdict(set)
        self._dirty: dict[ObjectKey, None] = {}
        self._dirty_nodes: dict[str, None] = {}
        self._due: list[tuple[float, ObjectKey]] = []
        self._changed = asyncio.Event()
        self.told = asyncio.Event()
        """Set at the next change of a pod, which has another."""
        self._addresses: set[str] = set()
        self._next_address = 1

    async def run(self) -> None:
        self._nodes.add_handler(self._node_changed)
        self._pods.add_handler(self._pod_changed)
        async with self._nodes, self._pods:
            await self._nodes.synced()
            await self._pods.synced()
            renewing = asyncio.create_task(self._renew(), name="leases of nodes")
            try:
                while True:
                    self._changed.clear()
                    self._take_due()
                    if not await self._step():
                        due_s = max(0.0, self._due[0][0] - self._clock.now()) if self._due else None
                        await changed_or_due(self._changed, self._clock, due_s)
            finally:
                renewing.cancel()
                await asyncio.gather(renewing, return_exceptions=True)

    def node_is_back(self, name: str) -> None:
        self._dirty_nodes[name] = None
        self._dirty.update(dict.fromkeys(self._on_node[name]))
        self._changed.set()

    def look_at_all(self) -> None:
        for keys in self._on_node.values():
            self._dirty.update(dict.fromkeys(keys))
        self._changed.set()

    def runs(self, pod: Tree) -> bool:
        """Whether this very pod is there, and has not ended."""
        seen = self._pods.get(pod["metadata"]["name"], pod["metadata"].get("namespace") or "")
        same = seen is not None and seen["metadata"].get("uid") == pod["metadata"].get("uid")
        return same and ((seen or {}).get("status") or {}).get("phase") not in ("Succeeded", "Failed")

    def running(self) -> list[Tree]:
        """The pods that run on nodes that work."""
        return [
            pod
            for pod in self._pods
            if (pod.get("status") or {}).get("phase") == "Running" and pod["spec"].get("nodeName") not in self._stopped
        ]

    def working(self) -> list[Tree]:
        return [node for node in self._nodes if node["metadata"]["name"] not in self._stopped]

    # What changes

    def _node_changed(self, old: Tree | None, new: Tree | None) -> None:
        if new is not None:
            name = new["metadata"]["name"]
            self._dirty_nodes[name] = None
            if old is None:
                self._dirty.update(dict.fromkeys(self._on_node[name]))
            self._changed.set()

    def _pod_changed(self, old: Tree | None, new: Tree | None) -> None:
        told, self.told = self.told, asyncio.Event()
        told.set()
        tree: Tree = new or old or {}
        key = key_of(tree)
        address = (tree.get("status") or {}).get("podIP")
        node: str = (tree.get("spec") or {}).get("nodeName") or ""
        gone = old is not None and (new is None or new["metadata"]["uid"] != old["metadata"]["uid"])
        if gone and self._processes is not None:
            self._processes.forget(old or {})
        if new is None:
            self._addresses.discard(address)
            self._on_node[node].discard(key)
        elif node:
            if address:
                self._addresses.add(address)
            self._on_node[node].add(key)
            self._dirty[key] = None
            self._changed.set()

    # Pods

    def _look_at(self, key: ObjectKey) -> None:
        self._dirty[key] = None
        self._changed.set()

    def _take_due(self) -> None:
        now = self._clock.now()
        while self._due and self._due[0][0] <= now:
            self._dirty[heapq.heappop(self._due)[1]] = None

    async def _step(self) -> bool:
        """Do what is due, some of it; returns whether there was anything."""
        work: list[Awaitable[None]] = []
        while self._dirty_nodes and len(work) < AT_ONCE:
            work.append(self._report_node(self._dirty_nodes.popitem()[0]))
        while self._dirty and len(work) < AT_ONCE:
            key = next(iter(self._dirty))
            del self._dirty[key]
            work.append(self._step_pod(key))
        await asyncio.gather(*work)
        return bool(work)

    async def _step_pod(self, key: ObjectKey) -> None:
        pod = self._pods.get(key.name, key.namespace)
        node = (pod or {}).get("spec", {}).get("nodeName")
        if pod is None or not node or node in self._stopped or self._nodes.get(node) is None:
            return
        skew = self._skews.get(node, 0.0)
        now = self._clock.now() + skew
        behaviour = behaviour_of(pod, self._rules)
        ends: dict[str, ProcessEnd | None] = {}
        if self._processes is not None:
            behaviour = replace(behaviour, image_error=self._processes.refusal(pod) or behaviour.image_error)
            if _stops(pod):
                if self._processes.stop(pod, _grace_s(pod)):
                    return  # their end is a change
            else:
                ends = self._processes.ends(pod, partial(self._now, node), partial(self._look_at, key))
        step = next_step(pod, behaviour, now, self._address(pod), self._attempt(pod, behaviour), ends)
        if step is None:
            return
        if step.at > now:
            heapq.heappush(self._due, (step.at - skew, key))
            return
        if self._processes is not None and step.status is not None:  # what is said to run runs
            self._processes.ends({**pod, "status": step.status}, partial(self._now, node), partial(self._look_at, key))
        try:
            if step.status is None:
                uid = pod["metadata"]["uid"]
                await self._client.delete(PODS, key.name, namespace=key.namespace, uid=uid, grace_period_s=0)
            else:
                body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": step.status}
                where = {"namespace": key.namespace, "subresource": "status"}
                await self._client.patch(PODS, key.name, body, type="strategic", **where)  # type: ignore[arg-type]
        except (errors.NotFound, errors.Conflict):
            if self._processes is not None:  # the pod is gone
                self._processes.forget(pod)
        except errors.StatusError as error:
            log.info("the status of pod %s was refused: %s", key, error)
            heapq.heappush(self._due, (now - skew + AGAIN_S, key))

    def _attempt(self, pod: Tree, behaviour: PodBehaviour) -> int:
        """How many pods of the same controller have failed."""
        owners = [each["uid"] for each in pod["metadata"].get("ownerReferences") or () if each.get("controller")]
        if behaviour.fails is None or not owners:
            return 0
        return sum(
            (other.get("status") or {}).get("phase") == "Failed"
            and any(each["uid"] == owners[0] for each in other["metadata"].get("ownerReferences") or ())
            for other in self._pods
        )

    def _address(self, pod: Tree) -> str:
        address = (pod.get("status") or {}).get("podIP")
        if address:
            return str(address)
        for _ in range(ADDRESSES.num_addresses - 2):
            address = str(ADDRESSES[self._next_address])
            self._next_address = self._next_address % (ADDRESSES.num_addresses - 2) + 1
            if address not in self._addresses:
                return address
        return ""

    # Nodes

    async def _report_node(self, name: str) -> None:
        node = self._nodes.get(name)
        if node is None or name in self._stopped:
            return
        if "sim/notready" in (node["metadata"].get("annotations") or {}):
            return
        conditions = (node.get("status") or {}).get("conditions") or ()
        if any(each["type"] == "Ready" and each["status"] == "True" for each in conditions):
            return
        with suppress(errors.NotFound, errors.Conflict):
            body = {"status": node_status(node, self._now(name))}
            await self._client.patch(NODES, name, body, type="strategic", subresource="status")
            await self._renew_lease(node)

    async def _renew(self) -> None:
        while True:
            await self._clock.sleep(RENEW_S)
            for node in list(self._nodes):
                if node["metadata"]["name"] not in self._stopped:
                    try:
                        await self._renew_lease(node)
                    except (errors.StatusError, OSError) as error:
                        log.info("the lease of node %s wasn't renewed: %s", node["metadata"]["name"], error)
                    await asyncio.sleep(0)  # a store in memory never waits

    def _now(self, node: str) -> float:
        """The time by the node's clock."""
        return self._clock.now() + self._skews.get(node, 0.0)

    async def _renew_lease(self, node: Tree) -> None:
        name = node["metadata"]["name"]
        now = self._now(name)
        time = f"{rfc3339(now)[:-1]}.{int(now % 1 * 1_000_000):06d}Z"
        try:
            await self._client.patch(LEASES, name, {"spec": {"renewTime": time}}, namespace="kube-node-lease")
        except errors.NotFound:
            with suppress(errors.AlreadyExists, errors.NotFound):
                await self._client.create(lease_of(node, time), kind=LEASES)


def _stops(pod: Tree) -> bool:
    """Whether the containers of a pod are to end, or have ended."""
    ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return ended or bool(pod["metadata"].get("deletionTimestamp"))


def _grace_s(pod: Tree) -> float:
    """How long its containers have to end."""
    asked = pod["metadata"].get("deletionGracePeriodSeconds")
    return float(pod["spec"].get("terminationGracePeriodSeconds", 30) if asked is None else asked)
