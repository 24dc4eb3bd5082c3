"""A control plane with controllers of workloads in memory, on a virtual clock, and what tests look at in it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from oarlock import ControlPlane
from oarlock.controllers import Controller, ObjectKey
from oarlock.extend import ControlPlanePart, MakePart, PartSurroundings, rfc3339
from oarlock.testing import InMemory, VirtualClock
from oarlock_cluster.workloads import workloads_part

__all__ = ["HOLD", "ClusterInMemory", "cluster_in_memory", "pod_template", "ready_pods_part"]

STEP_S = 0.1
LONGEST_S = 120.0
PATHS = {
    **dict.fromkeys(("pods", "services", "events", "persistentvolumeclaims", "endpoints"), "/api/v1"),
    **dict.fromkeys(
        ("deployments", "replicasets", "statefulsets", "daemonsets", "controllerrevisions"), "/apis/apps/v1"
    ),
    **dict.fromkeys(("jobs", "cronjobs"), "/apis/batch/v1"),
    "endpointslices": "/apis/discovery.k8s.io/v1",
    "poddisruptionbudgets": "/apis/policy/v1",
    **dict.fromkeys(("nodes", "persistentvolumes", "replicationcontrollers"), "/api/v1"),
    "storageclasses": "/apis/storage.k8s.io/v1",
    **dict.fromkeys(("resourceclaims", "resourceclaimtemplates"), "/apis/resource.k8s.io/v1"),
    "horizontalpodautoscalers": "/apis/autoscaling/v2",
}
_OF_THE_CLUSTER = {"nodes", "persistentvolumes", "storageclasses"}


def pod_template(name: str, image: str = "i:1", **spec: Any) -> dict[str, Any]:
    """A template of pods with the label ``app``."""
    return {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": image}], **spec}}


class ClusterInMemory:
    """Reads and writes objects of the namespace ``default``."""

    def __init__(self, api: InMemory, clock: VirtualClock) -> None:
        self.api, self.clock = api, clock

    def path(self, plural: str, name: str = "") -> str:
        namespace = "" if plural in _OF_THE_CLUSTER else "/namespaces/default"
        return f"{PATHS[plural]}{namespace}/{plural}{name and '/' + name}"

    async def create(self, plural: str, name: str, spec: dict[str, Any], **rest: Any) -> Any:
        answer = await self.api.post(self.path(plural), {"metadata": {"name": name}, "spec": spec, **rest})
        assert answer.status == 201, answer.json
        return answer.json

    async def patch(self, plural: str, name: str, patch: dict[str, Any]) -> Any:
        answer = await self.api.patch(self.path(plural, name), patch)
        assert answer.status == 200, answer.json
        return answer.json

    async def delete(self, plural: str, name: str) -> None:
        assert (await self.api.delete(self.path(plural, name))).status in (200, 202)

    async def get(self, plural: str, name: str) -> Any:
        answer = await self.api.get(self.path(plural, name))
        return answer.json if answer.status == 200 else None

    async def all(self, plural: str) -> list[Any]:
        found: list[Any] = (await self.api.get(self.path(plural))).json["items"]
        return found

    async def events(self) -> list[tuple[str, str]]:
        """Reason and message of each event, as often as it is counted."""
        items = await self.all("events")
        return sorted((one["reason"], one["message"]) for one in items for _ in range(one.get("count", 1)))

    async def report(self, pod: str, phase: str = "Running", ready: bool = True, **status: Any) -> None:
        """Write the status of a pod, as a kubelet does."""
        since = rfc3339(self.clock.now())
        condition = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": since}
        whole = {"phase": phase, "conditions": [condition], **status}
        await self.patch("pods", f"{pod}/status", {"status": whole})

    async def until(self, look: Callable[[], Awaitable[Any]]) -> Any:
        """What `look` returns once it is true; time passes until then."""
        end = self.clock.now() + LONGEST_S
        while self.clock.now() < end:
            found = await look()
            if found:
                return found
            await self.clock.run(STEP_S)
        raise AssertionError(f"it wasn't so within {LONGEST_S:g} s")

    async def until_count(self, plural: str, count: int) -> list[Any]:
        """The objects of a kind, once there are so many."""

        async def look() -> Any:
            found = await self.all(plural)
            return (found,) if len(found) == count else None

        found: list[Any] = (await self.until(look))[0]
        return found

    async def until_status(self, plural: str, name: str, **wanted: Any) -> Any:
        """The status of an object, once it has these values; None is a field that isn't there."""

        async def look() -> Any:
            status = ((await self.get(plural, name)) or {}).get("status") or {}
            return status if all(status.get(key) == value for key, value in wanted.items()) else None

        return await self.until(look)


HOLD = "test/hold"
"""The annotation of a pod that stays as it is."""


class _ReadyPods(Controller[dict[str, Any]], of="v1/Pod", name="ready-pods"):
    """Reports each pod as running and ready, as soon as it is there."""

    async def reconcile(self, key: ObjectKey) -> None:
        pod = self.informer.get(key.name, key.namespace)
        if pod is None or pod["metadata"].get("deletionTimestamp") or pod["status"]["phase"] != "Pending":
            return
        if HOLD not in (pod["metadata"].get("annotations") or {}):
            since = rfc3339(self.clock.now())
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": since}
            status = {"status": {"phase": "Running", "conditions": [ready], "podIP": "10.0.0.1"}}
            await self.client.patch("v1/Pod", key.name, status, namespace=key.namespace, subresource="status")


def ready_pods_part(around: PartSurroundings) -> ControlPlanePart:
    """What a kubelet does in the simplest case."""
    return ControlPlanePart("ready-pods", controllers={"ready-pods": _ReadyPods()})


@asynccontextmanager
async def cluster_in_memory(parts: Sequence[MakePart] = (workloads_part,)) -> AsyncIterator[ClusterInMemory]:
    clock = VirtualClock(patient=True)
    async with InMemory(ControlPlane(parts=parts), clock=clock) as api:
        await clock.run(1)
        yield ClusterInMemory(api, clock)
