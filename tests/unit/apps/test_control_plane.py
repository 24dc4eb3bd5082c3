"""A control plane in memory: Kubernetes' own kinds where clients look for them."""

from __future__ import annotations

import pytest

from oarlock import Resource
from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.schema.cel.gate import computed
from oarlock.server.assembly.lifecycle import _example_arguments
from oarlock.testing import InMemory, VirtualClock

MERGE = {"content-type": "application/merge-patch+json"}


class Dock(Resource, group="docks.example.com", version="v1"):
    """A dock."""


@pytest.mark.anyio
async def test_a_start_shows_how_to_get_what_its_user_declared() -> None:
    async with InMemory(ControlPlane(serve=[Dock])) as api:
        assert _example_arguments(api.parts.server) == "get docks.docks.example.com"


@pytest.mark.anyio
async def test_the_core_group_is_at_api() -> None:
    async with InMemory(ControlPlane()) as api:
        assert (await api.get("/api")).json["versions"] == ["v1"]
        names = {one["name"] for one in (await api.get("/api/v1")).json["resources"]}
        assert {"namespaces", "namespaces/status", "namespaces/finalize", "configmaps", "secrets", "events"} <= names
        assert (await api.get("/apis/v1")).status == 404


@pytest.mark.anyio
async def test_system_namespaces_are_there_and_stay() -> None:
    async with InMemory(ControlPlane()) as api:
        found = (await api.get("/api/v1/namespaces")).json["items"]
        names = ["default", "kube-node-lease", "kube-public", "kube-system"]
        assert [item["metadata"]["name"] for item in found] == names
        assert all(item["status"] == {"phase": "Active"} for item in found)
        refused = await api.request("DELETE", "/api/v1/namespaces/default")
        assert (refused.status, refused.json["message"]) == (
            403,
            'namespaces "default" is forbidden: this namespace may not be deleted',
        )


@pytest.mark.anyio
async def test_nothing_is_created_where_there_is_no_namespace() -> None:
    async with InMemory(ControlPlane()) as api:
        answer = await api.post("/api/v1/namespaces/none/configmaps", {"metadata": {"name": "a"}})
        assert (answer.status, answer.json["message"]) == (404, 'namespaces "none" not found')


@pytest.mark.anyio
async def test_a_deleted_namespace_waits_for_its_finalizers() -> None:
    async with InMemory(ControlPlane()) as api:
        await api.post("/api/v1/namespaces", {"metadata": {"name": "a"}, "spec": {"finalizers": ["x.io/mine"]}})
        deleted = await api.request("DELETE", "/api/v1/namespaces/a")
        assert (deleted.status, deleted.json["status"]) == (200, {"phase": "Terminating"})
        assert deleted.json["spec"] == {"finalizers": ["x.io/mine", "kubernetes"]}
        refused = await api.post("/api/v1/namespaces/a/configmaps", {"metadata": {"name": "b"}})
        assert (refused.status, refused.json["details"]["causes"][0]["reason"]) == (403, "NamespaceTerminating")
        again = await api.post("/api/v1/namespaces", {"metadata": {"name": "a"}})
        assert again.json["message"] == 'object is being deleted: namespaces "a" already exists'
        finished = {"metadata": {"name": "a"}, "spec": {"finalizers": []}}
        assert (await api.request("PUT", "/api/v1/namespaces/a/finalize", finished)).status == 200
        assert (await api.get("/api/v1/namespaces/a")).status == 404


@pytest.mark.anyio
async def test_keys_are_those_of_kubernetes() -> None:
    async with InMemory(ControlPlane()) as api:
        await api.post("/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}})
        await api.post("/apis/coordination.k8s.io/v1/namespaces/default/leases", {"metadata": {"name": "l"}})
        keys = [kv.key for kv in (await api.parts.storage.backend.list("/registry/", "/registry0")).kvs]
        assert {"/registry//secrets/default/s", "/registry//leases/default/l"} <= {*keys}  # in etcd, with one slash


@pytest.mark.anyio
async def test_an_event_is_in_both_groups() -> None:
    async with InMemory(ControlPlane()) as api:
        event = {"metadata": {"name": "e"}, "involvedObject": {"kind": "Node", "name": "n"}, "message": "up"}
        made = await api.post("/api/v1/namespaces/default/events", event)
        assert (made.status, made.json["eventTime"], made.json["source"]) == (201, None, {})
        other = (await api.get("/apis/events.k8s.io/v1/namespaces/default/events/e")).json
        assert (other["note"], other["regarding"]) == ("up", {"kind": "Node", "name": "n"})


@pytest.mark.anyio
async def test_texts_of_a_secret_become_data() -> None:
    async with InMemory(ControlPlane()) as api:
        secret = {"metadata": {"name": "s"}, "data": {"a": "MQ==", "b": "Mg=="}, "stringData": {"b": "two"}}
        made = (await api.post("/api/v1/namespaces/default/secrets", secret)).json
        assert (made["data"], made["type"]) == ({"a": "MQ==", "b": "dHdv"}, "Opaque")
        assert "stringData" not in made


@pytest.mark.anyio
async def test_every_namespace_has_a_default_service_account() -> None:
    clock = VirtualClock()
    async with InMemory(ControlPlane(), clock=clock) as api:
        await api.post("/api/v1/namespaces", {"metadata": {"name": "a"}})
        await clock.run(1)
        account = "/api/v1/namespaces/a/serviceaccounts/default"
        assert (await api.get(account)).status == 200
        assert (await api.request("DELETE", account)).json["kind"] == "ServiceAccount"
        await clock.run(1)
        assert (await api.get(account)).status == 200


@pytest.mark.anyio
async def test_a_deleted_namespace_is_emptied_and_goes() -> None:
    clock = VirtualClock()
    async with InMemory(ControlPlane(), clock=clock) as api:
        await api.post("/api/v1/namespaces", {"metadata": {"name": "a"}})
        maps = "/api/v1/namespaces/a/configmaps"
        await api.post(maps, {"metadata": {"name": "plain"}})
        await api.post(maps, {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}})
        await api.request("DELETE", "/api/v1/namespaces/a")
        await clock.run(5)
        assert (await api.get(f"{maps}/plain")).status == 404
        told = {one["type"]: one for one in (await api.get("/api/v1/namespaces/a")).json["status"]["conditions"]}
        remaining = "Some resources are remaining: configmaps. has 1 resource instances"
        assert told["NamespaceContentRemaining"]["message"] == remaining
        assert "example.com/hold in 1" in told["NamespaceFinalizersRemaining"]["message"]
        since = told["NamespaceContentRemaining"]["lastTransitionTime"]
        await clock.run(10)
        still = (await api.get("/api/v1/namespaces/a")).json["status"]["conditions"]
        assert {one["lastTransitionTime"] for one in still} == {since}
        await api.request("PATCH", f"{maps}/held", {"metadata": {"finalizers": None}}, MERGE)
        await clock.run(10)
        assert (await api.get("/api/v1/namespaces/a")).status == 404


@pytest.mark.anyio
async def test_every_column_of_every_kind_can_be_computed() -> None:
    table = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    async with InMemory(ControlPlane()) as api:
        for served in api.server.catalog.resources:
            for version in served.definition.served_versions():
                for column in version.columns:
                    if column.expression:
                        assert callable(computed(column.expression, version.schema))
        assert (await api.request("GET", "/api/v1/namespaces", headers=table)).json["rows"][0]["cells"][1] == "Active"
