"""The second control plane of a process begins with what the first one made, and nobody can tell."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from oarlock import APIServer, Resource
from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.apps.controlplane.options import ControlPlaneOptions
from oarlock.apps.kinds.core.objects import Namespace
from oarlock.policy.admission.plugin import Admission, Review
from oarlock.storage.memory import MemoryBackend
from oarlock.testing import InMemory, ServerThread, VirtualClock

ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
OPTIONS = ControlPlaneOptions(service_node_port_range="30000-30100")
"""Of this file alone, so that its first control plane is the first."""


class Boat(Resource, group="harbour.example.com", version="v1"):
    """A user's kind."""

    length: int = 0


class Watchman(Admission[Namespace]):
    """Sees what the control plane makes at its start."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def validate(self, review: Review[Namespace]) -> None:
        if review.operation == "CREATE":
            self.seen.append(review.new.metadata.name)  # type: ignore[union-attr]


class Harbourmaster(Admission[Boat]):
    """Sees a user's own objects only."""

    async def validate(self, review: Review[Boat]) -> None:
        return None


def contents(server: APIServer, epoch_s: float = 1_767_225_600.0) -> Mapping[str, Any]:
    """All that is in the store after a start, by key."""

    async def run() -> Mapping[str, Any]:
        clock = VirtualClock(epoch_s)
        async with InMemory(server, clock=clock) as api:
            await settled(api, clock)
            found = (await api.parts.storage.backend.list("/registry/", "/registry0")).kvs
            return {one.key: json.loads(one.value) for one in found}

    return asyncio.run(run())


async def settled(api: InMemory, clock: VirtualClock) -> None:
    """Wait until nothing more is written: some of what servers do is done in threads."""
    quiet, rev = 0, 0
    while quiet < 5:
        await asyncio.sleep(0.01)
        await clock.run(1)
        before, rev = rev, await api.parts.storage.backend.current_rev()
        quiet = quiet + 1 if rev == before else 0


def creations(server: APIServer) -> int:
    """How many objects were created through the chain until the server had settled."""

    async def run() -> int:
        async with InMemory(server) as api:
            assert isinstance(api.clock, VirtualClock)
            await api.clock.run(0)
            lines = (await api.get("/metrics")).body.decode().splitlines()
            total = [line for line in lines if line.startswith("apiserver_request_total") and 'verb="POST"' in line]
            return int(sum(float(line.rpartition(" ")[2]) for line in total))

    return asyncio.run(run())


def timeless(tree: Any) -> Any:
    """An object without what each start makes anew."""
    if isinstance(tree, dict):
        return {
            key: timeless(value)
            for key, value in tree.items()
            if key not in ("uid", "holderIdentity", "resourceVersion", "acquireTime", "renewTime", "time")
        }
    return [timeless(one) for one in tree] if isinstance(tree, list) else tree


def test_what_is_copied_is_what_a_start_makes() -> None:
    first, second, third = (contents(ControlPlane(options=OPTIONS)) for _ in range(3))
    assert {key: timeless(one) for key, one in second.items()} == {key: timeless(one) for key, one in first.items()}
    assert {key: timeless(one) for key, one in third.items()} == {key: timeless(one) for key, one in first.items()}


def test_few_objects_go_through_the_chain() -> None:
    counts = [creations(ControlPlane(serve=[Boat], admission=[Harbourmaster()])) for _ in range(3)]
    assert counts[2] < 25


def test_no_two_control_planes_have_a_uid_in_common() -> None:
    uids = [{one["metadata"]["uid"] for one in contents(ControlPlane()).values()} for _ in range(3)]
    assert len(uids[0]) > 150
    assert uids[0].isdisjoint(uids[1])
    assert uids[1].isdisjoint(uids[2])


def test_times_are_those_of_the_clock() -> None:
    for year, epoch_s in (("2030", 1_893_456_000.0), ("2031", 1_924_992_000.0), ("2032", 1_956_528_000.0)):
        found = contents(ControlPlane(), epoch_s)
        assert {one["metadata"]["creationTimestamp"][:4] for one in found.values()} == {year}
        assert not any(day in json.dumps(list(found.values())) for day in ("2001-02-03T", "2026-01-01T"))


def test_what_one_changes_is_not_changed_in_another() -> None:
    async def run() -> Any:
        async with InMemory(ControlPlane()) as api:
            before = (await api.get(f"{ROLES}/system:basic-user")).json
            assert (await api.patch(f"{ROLES}/system:basic-user", {"rules": []})).status == 200
            return before["rules"]

    assert len({json.dumps(asyncio.run(run())) for _ in range(4)}) == 1


def test_a_plugin_sees_what_the_control_plane_makes_each_time() -> None:
    for _ in range(3):
        watchman = Watchman()
        contents(ControlPlane(admission=[watchman]))
        assert "kube-system" in watchman.seen


def test_parts_that_are_left_out_stay_out() -> None:
    for _ in range(3):
        found = contents(ControlPlane(disable=["flowcontrol"]))
        assert found
        assert not any("flowschemas" in key for key in found)


def test_what_a_user_serves_gets_its_roles_and_registration() -> None:
    for _ in range(3):
        found = contents(ControlPlane(serve=[Boat]))
        assert any(key.endswith("/apiservices/v1.harbour.example.com") for key in found)


def test_a_store_that_is_given_is_left_alone() -> None:
    async def run() -> None:
        clock = VirtualClock()
        backend = MemoryBackend(clock)
        empty = backend.known_rev()
        async with InMemory(ControlPlane(on_start=lambda client: None), clock=clock, backend=backend):
            roles = (await backend.list("/registry//clusterroles", "/registry//clusterroles0")).kvs
        assert min(one.mod_rev for one in roles) > empty + 50

    for _ in range(3):
        asyncio.run(run())


@pytest.mark.parametrize("time", [1, 2, 3])
def test_a_server_on_a_port_says_where_it_is(time: int) -> None:
    with ServerThread(ControlPlane()) as running:
        service = running.client().get("/api/v1/namespaces/default/services/kubernetes").json
        assert service["spec"]["ports"][0]["targetPort"] == int(running.url.rpartition(":")[2])
        assert running.server.storage is not None
    assert running.server.storage is None
