"""`ClusterInMemory`: a whole cluster inside a test, whose time only moves when the test says so.

    async with ClusterInMemory() as cluster:
        await cluster.client.create(deployment)
        await cluster.settle()

See also: `plugin`, the fixture ``cluster`` of pytest.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from oarlock import ControlPlane
from oarlock.client import Client
from oarlock.extend import Backend, ControlPlanePart, MakePart, PartSurroundings, Selector, Tree, from_label_selector
from oarlock.testing import InMemory, VirtualClock
from oarlock_cluster.nodes.behaviour import BehaviourRule, PodBehaviour, UsageSource
from oarlock_cluster.nodes.kubelets import SimulatedNodes
from oarlock_cluster.nodes.shapes import new_nodes
from oarlock_cluster.scheduling.scheduler import Scheduler
from oarlock_cluster.simulation import simulated_cluster
from oarlock_cluster.workloads import workloads_part

__all__ = ["ClusterInMemory", "ClusterNode"]

_NOT_COUNTED = ("/leases/", "/events/")
"""Nodes renew their leases for ever, and what waits is told again and again."""
QUIET_S = 15.0


class ClusterNode:
    """One of the nodes that a cluster was made with."""

    def __init__(self, simulated: SimulatedNodes, name: str) -> None:
        self._simulated = simulated
        self.name = name

    def stop(self) -> None:
        """The node is cut off: it renews its lease no more, and reports nothing of its pods."""
        self._simulated.stop(self.name)

    def start(self) -> None:
        """The node is back."""
        self._simulated.start(self.name)

    def skew(self, seconds: float) -> None:
        """The node's clock is so far ahead, or behind if it is negative."""
        self._simulated.skew(self.name, seconds)


class ClusterInMemory:
    """A control plane with controllers of workloads, a scheduler and simulated nodes, while the context lasts.

    `nodes` are Node objects, or how many to make: ``n1``, ``n2``, and so on. `scheduler` is one with filters and scores
    of yours. `usage` is a function of a pod that says what its containers use, as the metrics API shows it. Further
    keywords are those of `ControlPlane`: `serve`, `controllers`, `admission`.
    """

    def __init__(
        self,
        nodes: int | Sequence[Tree] = 3,
        *,
        scheduler: Scheduler | None = None,
        usage: UsageSource | None = None,
        **control_plane: Any,
    ) -> None:
        trees = new_nodes(nodes, "n{}", 1) if isinstance(nodes, int) else nodes
        simulated = SimulatedNodes(trees, usage=usage)
        self.clock = VirtualClock(patient=True)
        self.nodes: Mapping[str, ClusterNode] = {
            tree["metadata"]["name"]: ClusterNode(simulated, tree["metadata"]["name"]) for tree in trees
        }
        """The nodes by their names, to stop and start."""
        self._simulated = simulated
        self._store: Callable[[], Backend] | None = None
        parts: list[MakePart] = [
            workloads_part,
            *simulated_cluster(simulated, scheduler),
            self._part,
        ]
        parts += control_plane.pop("parts", ())
        self.api = InMemory(ControlPlane(parts=parts, **control_plane), clock=self.clock)
        """Requests as an administrator sends them, by path; see `InMemory`."""
        self.faults = self.api.faults
        """What goes wrong on purpose with requests: slow ones, watches that are cut, a server that is away."""

    @property
    def client(self) -> Client:
        """A client of the server, as its own code has it."""
        return self.api.client()

    def _part(self, around: PartSurroundings) -> ControlPlanePart:
        self._store = around.store
        return ControlPlanePart("cluster-in-memory")

    async def __aenter__(self) -> Self:
        collects = gc.isenabled()
        gc.disable()  # what is made now lives as long as the cluster: looking for garbage takes as long as the start
        try:
            await self.api.__aenter__()
            await self.clock.run(0)
        finally:
            if collects:
                gc.enable()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.api.__aexit__(kind, error, trace)

    def fail(self, verb: str, kind: Any = "*", *, status: int = 500, times: int | None = 1, **which: Any) -> None:
        """Answer the next requests of your clients with an error; see `RequestFaults.fail`."""
        self.faults.fail(verb, kind, status=status, times=times, **which)

    def behave(
        self,
        selector: str | Mapping[str, str],
        behaviour: Callable[[Tree], PodBehaviour] | None = None,
        *,
        namespace: str = "",
        **settings: Any,
    ) -> None:
        """Have the pods with some labels behave as `settings` say, which are fields of `PodBehaviour`, or a function.

        `selector` is the value of the label ``app``, or labels.
        """
        labels = {"app": selector} if isinstance(selector, str) else dict(selector)
        chosen: Selector = from_label_selector({"matchLabels": labels})
        self._simulated.add_rule(BehaviourRule(chosen, behaviour or settings, namespace))

    # Time

    async def run(self, seconds: float) -> None:
        """Let time pass: whatever is due is done at its time, and all that follows from it."""
        await self.clock.run(seconds)

    async def settle(self, quiet_s: float = QUIET_S, within_s: float = 86_400.0) -> None:
        """Let time pass until nothing has changed for `quiet_s`, but leases and events. Raises TimeoutError.

        What waits for longer, such as a deadline of ten minutes, needs a longer `quiet_s`, or `run`.
        """
        end = self.clock.monotonic() + within_s
        while True:
            before = await self._state()
            await self.run(quiet_s)
            if await self._state() == before:
                return
            if self.clock.monotonic() >= end:
                raise TimeoutError(f"things still change after {within_s:g} s")

    async def _state(self) -> tuple[int, int]:
        """The number of objects and the last revision of one, but leases and events."""
        assert self._store is not None
        page = await self._store().list("/", "0")
        revisions = [kv.mod_rev for kv in page.kvs if not any(part in kv.key for part in _NOT_COUNTED)]
        return len(revisions), max(revisions, default=0)
