"""A CustomResourceDefinition is served from the moment it is established until it is deleted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from crd_kit import DEFINITIONS, GROUP, Shared, conditions, definition, established, in_time, until, version

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.storage.memory import MemoryBackend
from oarlock.storage.sqlite.backend import SqliteBackend
from oarlock.testing import InMemory, VirtualClock

PLAINS = f"/apis/{GROUP}/v1/namespaces/default/plains"
NAME = f"plains.{GROUP}"
REMAINING = "NamespaceContentRemaining"


def plain(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Plain", "metadata": {"name": name}, "spec": spec}


def names_of(answer: Any) -> list[str]:
    return [one["metadata"]["name"] for one in answer.json["items"]]


def told(namespace: Any) -> dict[str, tuple[str, str]]:
    """Status and message of each condition of a namespace."""
    found = namespace.json["status"].get("conditions") or ()
    return {one["type"]: (one["status"], one["message"]) for one in found}


@pytest.mark.anyio
async def test_what_is_stored_of_a_new_definition() -> None:
    async with InMemory(ControlPlane()) as api:
        made = (await api.post(DEFINITIONS, definition())).json
        assert made["spec"]["names"] == {
            "plural": "plains",
            "singular": "plain",
            "kind": "Plain",
            "listKind": "PlainList",
        }
        assert made["spec"]["conversion"] == {"strategy": "None"}
        names = {"plural": "", "kind": ""}
        assert made["status"] == {"conditions": None, "acceptedNames": names, "storedVersions": ["v1"]}


@pytest.mark.anyio
async def test_an_object_can_be_created_in_the_moment_its_definition_is_established() -> None:
    async with InMemory(ControlPlane()) as api:
        found = await established(api, definition())
        assert conditions(found) == {
            "NamesAccepted": ("True", "NoConflicts"),
            "Established": ("True", "InitialNamesAccepted"),
        }
        assert (await api.post(PLAINS, plain("a", a="b", unknown=1))).json["spec"] == {"a": "b"}
        resources = (await api.get(f"/apis/{GROUP}/v1")).json["resources"]
        assert [one["name"] for one in resources] == ["plains"]


@pytest.mark.anyio
async def test_a_new_version_is_served_and_remembered() -> None:
    async with InMemory(ControlPlane()) as api:
        await established(api, definition())
        await api.post(PLAINS, plain("a", a="b"))
        two = definition("plains", "Plain", version("v1", storage=False), version("v2"))
        changed = await api.patch(f"{DEFINITIONS}/{NAME}", {"spec": {"versions": two["spec"]["versions"]}})
        assert (changed.status, changed.json["status"]["storedVersions"]) == (200, ["v1", "v2"])
        assert changed.json["metadata"]["generation"] == 2
        shown = await api.get(PLAINS.replace("v1", "v2") + "/a")
        assert (shown.status, shown.json["apiVersion"], shown.json["spec"]) == (200, f"{GROUP}/v2", {"a": "b"})


@pytest.mark.anyio
async def test_names_are_given_to_the_first_and_freed_by_its_end() -> None:
    async with InMemory(ControlPlane()) as api:
        await established(api, definition())
        await api.post(DEFINITIONS, definition("others", "Plain"))
        refused = await until(api, f"others.{GROUP}", lambda one: one is not None and bool(conditions(one)))
        assert refused is not None
        assert conditions(refused)["NamesAccepted"] == ("False", "ListKindConflict")
        assert conditions(refused)["Established"] == ("False", "NotAccepted")
        assert refused["status"]["acceptedNames"] == {"plural": "others", "kind": ""}
        assert (await api.get(f"/apis/{GROUP}/v1/others")).status == 404
        assert (await api.delete(f"{DEFINITIONS}/{NAME}")).status == 200
        await until(api, f"others.{GROUP}", lambda one: one is not None and conditions(one)["Established"][0] == "True")
        assert (await api.get(f"/apis/{GROUP}/v1/others")).status == 200


@pytest.mark.anyio
async def test_the_name_of_a_built_in_kind_is_taken() -> None:
    async with InMemory(ControlPlane()) as api:
        tree = definition("roles", "Role", group="rbac.authorization.k8s.io")
        tree["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, for a test"}
        await api.post(DEFINITIONS, tree)
        refused = await until(
            api, "roles.rbac.authorization.k8s.io", lambda one: one is not None and bool(conditions(one))
        )
        assert refused is not None
        assert conditions(refused)["NamesAccepted"] == ("False", "ListKindConflict")
        assert (await api.get("/apis/rbac.authorization.k8s.io/v1/roles")).json["kind"] == "RoleList"


@pytest.mark.anyio
async def test_the_objects_go_before_their_definition() -> None:
    async with InMemory(ControlPlane()) as api:
        await established(api, definition())
        held = plain("held")
        held["metadata"]["finalizers"] = ["example.com/mine"]
        await api.post(PLAINS, held)
        await api.post(PLAINS, plain("free"))
        async with api.watch(PLAINS) as events:
            deleted = await api.delete(f"{DEFINITIONS}/{NAME}")
            assert conditions(deleted.json)["Terminating"] == ("True", "InstanceDeletionPending")
            while (await events.next())[0] != "DELETED":
                pass
        assert (await api.get(f"{PLAINS}/free")).status == 404
        going = await until(
            api, NAME, lambda one: one is not None and conditions(one)["Terminating"][1] == "InstanceDeletionInProgress"
        )
        assert going is not None
        assert going["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
        refused = await api.post(PLAINS, plain("late"))
        assert (refused.status, refused.json["message"]) == (
            403,
            f'plains.{GROUP} "late" is forbidden: create not allowed while custom resource definition is terminating',
        )
        again = await api.post(DEFINITIONS, definition())
        assert (again.status, again.json["reason"]) == (409, "AlreadyExists")
        assert (await api.patch(f"{PLAINS}/held", {"metadata": {"finalizers": None}})).status == 200
        await api.clock.run(5)  # type: ignore[attr-defined]
        assert await until(api, NAME, lambda one: one is None) is None
        assert (await api.get(PLAINS)).status == 404
        await established(api, definition())
        assert (await api.get(PLAINS)).json["items"] == []


@pytest.mark.anyio
async def test_the_objects_of_a_definition_that_serves_no_version_go_too() -> None:
    async with InMemory(ControlPlane()) as api:
        made = await established(api, definition())
        held = plain("held")
        held["metadata"]["finalizers"] = ["example.com/mine"]
        for one in (held, plain("free")):
            assert (await api.post(PLAINS, one)).status == 201
        made["spec"]["versions"][0]["served"] = False
        catalog = await api.server.live.after(None)
        assert (await api.put(f"{DEFINITIONS}/{NAME}", made)).status == 200
        await api.server.live.after(catalog)
        assert (await api.get(PLAINS)).status == 404
        assert (await api.delete(f"{DEFINITIONS}/{NAME}")).status == 200
        going = await until(
            api, NAME, lambda one: one is not None and conditions(one)["Terminating"][1] == "InstanceDeletionInProgress"
        )
        assert going is not None
        await in_time(api, PLAINS, lambda answer: names_of(answer) == ["held"])
        assert (await api.patch(f"{PLAINS}/held", {"metadata": {"finalizers": None}})).status == 200
        await api.clock.run(5)  # type: ignore[attr-defined]
        assert await until(api, NAME, lambda one: one is None) is None
        await established(api, definition())
        assert (await api.get(PLAINS)).json["items"] == []


@pytest.mark.anyio
async def test_a_namespace_takes_its_custom_resources_along() -> None:
    clock = VirtualClock()
    async with InMemory(ControlPlane(), clock=clock) as api:
        await established(api, definition())
        await established(api, definition("others", "Other"))
        await api.post("/api/v1/namespaces", {"metadata": {"name": "sea"}})
        plains, others = (f"/apis/{GROUP}/v1/namespaces/sea/{plural}" for plural in ("plains", "others"))
        held = plain("held")
        held["metadata"]["finalizers"] = ["example.com/mine"]
        assert (await api.post(plains, held)).status == 201
        for number in range(3):
            assert (await api.post(plains, plain(f"p{number}"))).status == 201
            assert (await api.post(others, {**plain(f"o{number}"), "kind": "Other"})).status == 201
        assert (await api.post(PLAINS, plain("elsewhere"))).status == 201
        assert (await api.delete("/api/v1/namespaces/sea")).status == 200
        assert (await api.post(plains, plain("late"))).status == 403
        assert (await api.delete(f"{DEFINITIONS}/others.{GROUP}")).status == 200
        assert await until(api, f"others.{GROUP}", lambda one: one is None) is None
        await in_time(api, plains, lambda answer: names_of(answer) == ["held"])
        await in_time(
            api, "/api/v1/namespaces/sea", lambda answer: "plains" in told(answer).get(REMAINING, ("", ""))[1]
        )
        found = told(await api.get("/api/v1/namespaces/sea"))
        assert found[REMAINING] == (
            "True",
            f"Some resources are remaining: plains.{GROUP} has 1 resource instances",
        )
        assert found["NamespaceFinalizersRemaining"][0] == "True"
        assert found["NamespaceDeletionDiscoveryFailure"][0] == "False"
        assert (await api.delete(f"{DEFINITIONS}/{NAME}")).status == 200
        await clock.run(5)
        assert (await api.get("/api/v1/namespaces/sea")).status == 200
        assert (await api.patch(f"{plains}/held", {"metadata": {"finalizers": None}})).status == 200
        await in_time(api, "/api/v1/namespaces/sea", lambda answer: answer.status == 404)
        assert await until(api, NAME, lambda one: one is None) is None


@pytest.mark.anyio
async def test_another_server_of_the_store_knows_it_at_once(tmp_path: Path) -> None:
    stores = [SqliteBackend(tmp_path / "store.db", VirtualClock()) for _ in range(2)]
    servers = [InMemory(ControlPlane(), backend=store) for store in stores]
    async with servers[0] as one, servers[1] as other:
        await established(one, definition())
        assert (await other.post(PLAINS, plain("a", a="b"))).status == 201
        await established(other, definition("others", "Other"))
        resources = (await one.get(f"/apis/{GROUP}/v1")).json["resources"]
        assert [found["name"] for found in resources] == ["others", "plains"]


@pytest.mark.anyio
async def test_a_restart_serves_what_was_established() -> None:
    store = MemoryBackend(clock=VirtualClock())
    await store.start()
    async with InMemory(ControlPlane(), backend=Shared(store)) as api:
        await established(api, definition())
        await api.post(PLAINS, plain("a", a="b"))
    async with InMemory(ControlPlane(), backend=Shared(store)) as api:
        assert (await api.get(f"{PLAINS}/a")).json["spec"] == {"a": "b"}
    await store.close()


@pytest.mark.anyio
async def test_code_of_the_server_follows_the_catalog() -> None:
    server = ControlPlane()
    async with InMemory(server) as api:
        before = await server.live.after(None)
        assert before is server.live.current
        assert GROUP not in before.groups
        waiting = asyncio.ensure_future(server.live.after(before))
        await established(api, definition())
        after = await waiting
        assert [one.definition.names.plural for one in after.since(before).put] == ["plains"]
        assert after is server.live.current


@pytest.mark.anyio
async def test_objects_are_read_as_the_schema_says_today() -> None:
    async with InMemory(ControlPlane()) as api:
        await established(api, definition())
        await api.post(PLAINS, plain("a", a="b", n=3))
        schema = f"{DEFINITIONS}/{NAME}"
        path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties"
        described = [{"op": "add", "path": f"{path}/a/description", "value": "A text."}]
        defaulted = [{"op": "add", "path": f"{path}/d", "value": {"type": "string", "default": "new"}}]
        removed = [{"op": "remove", "path": f"{path}/n"}]
        catalog = await api.server.live.after(None)
        async with api.watch(PLAINS) as events:
            assert (await events.next())[0] == "ADDED"
            assert (await api.patch(schema, described, "application/json-patch+json")).status == 200
            catalog = await api.server.live.after(catalog)
            assert not events.closed
            assert (await api.patch(schema, defaulted, "application/json-patch+json")).status == 200
            catalog = await api.server.live.after(catalog)
            assert events.closed
        assert (await api.get(f"{PLAINS}/a")).json["spec"] == {"a": "b", "n": 3, "d": "new"}
        assert (await api.patch(schema, removed, "application/json-patch+json")).status == 200
        catalog = await api.server.live.after(catalog)
        assert (await api.get(PLAINS)).json["items"][0]["spec"] == {"a": "b", "d": "new"}


@pytest.mark.anyio
async def test_a_status_that_nobody_wrote_has_its_default() -> None:
    text = {"type": "string", "default": "new"}
    status = {"type": "object", "default": {"a": "one"}, "properties": {"a": text, "b": text}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"status": status}}}
    async with InMemory(ControlPlane()) as api:
        await established(api, definition("plains", "Plain", version(schema=schema, subresources={"status": {}})))
        made = await api.post(PLAINS, {**plain("a"), "status": {"a": "not allowed"}})
        assert made.json["status"] == (await api.get(f"{PLAINS}/a")).json["status"] == {"a": "one", "b": "new"}
