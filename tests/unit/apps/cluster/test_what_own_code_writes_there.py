"""Events and Leases of a server's controllers are in the cluster that it is behind."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from boats_behind_a_cluster import Boat, behind, boat, login_of

from oarlock.apps.admission.cluster_plugins import rights_of
from oarlock.cli.deploying.plan import EVENTS, LEASES
from oarlock.controllers import Controller, ObjectKey
from oarlock.server.assembly.run import Running
from oarlock.server.cluster.own_objects import ClusterObjects
from oarlock.server.fairness.cluster import FLOW_CONTROL_RIGHTS
from oarlock.server.options.groups.generic import CLUSTER_PLUGINS

pytestmark = pytest.mark.anyio
RULES = (*rights_of(CLUSTER_PLUGINS), FLOW_CONTROL_RIGHTS)
EVENT, LEASE = "events.k8s.io/v1/Event", "coordination.k8s.io/v1/Lease"


class Captain(Controller[Boat], lease="default/captains"):
    def __init__(self) -> None:
        self.seen = asyncio.Event()

    async def reconcile(self, key: ObjectKey) -> None:
        found = self.informer.get(key.name, key.namespace)
        if found is not None:
            self.events.normal(found, "Boarded", "the captain is here")
            self.seen.set()


async def test_events_and_leases_are_written_with_the_rights_that_are_asked_for(
    cluster: Running, tmp_path: Path
) -> None:
    admin, captain = cluster.client(None, "test"), Captain()
    login = await login_of(cluster, tmp_path, "boats", [*RULES, EVENTS, LEASES])
    async with behind(tmp_path, {"controllers": [captain]}, cluster_kubeconfig=login) as running, asyncio.timeout(30):
        created = await running.client(None, "test").create(boat("a"))
        async for event in admin.watch(EVENT, namespace="default"):
            if event.object.get("reason") == "Boarded":
                break
        assert event.object["regarding"]["uid"] == created.metadata.uid
        assert event.object["regarding"]["apiVersion"] == "boats.example.com/v1"
        lease = await admin.get(LEASE, "captains", namespace="default")
        assert lease["spec"]["holderIdentity"]
    released = await admin.get(LEASE, "captains", namespace="default")
    assert not released["spec"].get("holderIdentity")


async def test_without_rights_an_event_is_left_out_and_without_a_lease_nothing_runs(
    cluster: Running, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "oarlock.controllers")
    captain = Captain()
    leases = await login_of(cluster, tmp_path, "only-leases", [*RULES, LEASES])
    async with behind(tmp_path, {"controllers": [captain]}, cluster_kubeconfig=leases) as running, asyncio.timeout(30):
        await running.client(None, "test").create(boat("a"))
        await captain.seen.wait()
        while "an event was refused" not in caplog.text:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    events = await login_of(cluster, tmp_path, "only-events", [*RULES, EVENTS])
    captain = Captain()
    async with behind(tmp_path, {"controllers": [captain]}, cluster_kubeconfig=events), asyncio.timeout(30):
        while "the lease default/captains can't be written" not in caplog.text:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert not captain.seen.is_set()
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("/apis/events.k8s.io/v1", True),
        ("/apis/coordination.k8s.io/v1/namespaces/a/leases/b", True),
        ("/api/v1", True),
        ("/api/v1/namespaces/a/events", True),
        ("/api/v1/events", True),
        ("/api/v1/namespaces/events", False),
        ("/api/v1/namespaces/a/secrets/events", False),
        ("/api/v1/secrets", False),
        ("/apis/boats.example.com/v1/namespaces/events.k8s.io/boats", False),
        ("/apis", False),
        ("/", False),
        ("", False),
        ("/version", False),
    ],
)
def test_only_events_and_leases_are_there_and_only_if_they_are_not_here(path: str, there: bool) -> None:
    elsewhere = object()
    assert (ClusterObjects(elsewhere, lambda group: group == "boats.example.com")(path) is elsewhere) == there  # type: ignore[arg-type]
    assert ClusterObjects(elsewhere, lambda group: True)(path) is None  # type: ignore[arg-type]
