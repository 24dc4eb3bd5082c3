"""A kind may come back under another plural or scope: what it is served as now counts, also for old clients."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from crd_kit import DEFINITIONS, GROUP, conditions, definition, established, in_time, until, version

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.client.client import Client
from oarlock.client.informers.informer import Informer
from oarlock.client.keywords import RetryPolicy
from oarlock.client.kinds import ResourceRef
from oarlock.client.transport import ClientRequest, ClientResponse
from oarlock.meta.errors import NotFound
from oarlock.meta.kinds import GroupResource
from oarlock.testing import InMemory, VirtualClock

KIND = f"{GROUP}/v1/Widget"
HELD = ["example.com/mine"]
UNHOLD = {"metadata": {"finalizers": None}}


def widget(name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": name, **metadata}}


async def used_and_deleted(api: InMemory, made: dict[str, Any], collection: str) -> None:
    """Define a kind, make an object of it, and delete the definition."""
    await established(api, made)
    assert (await api.post(collection, widget("a"))).status == 201
    path = f"{DEFINITIONS}/{made['metadata']['name']}"
    assert (await api.delete(path)).status == 200
    await in_time(api, path, lambda answer: answer.status == 404)


def of(plural: str, namespace: str = "default") -> str:
    return f"/apis/{GROUP}/v1/namespaces/{namespace}/{plural}"


@pytest.mark.anyio
async def test_a_definition_goes_whose_kind_was_served_under_another_plural() -> None:
    async with InMemory(ControlPlane(), clock=VirtualClock()) as api:
        await used_and_deleted(api, definition("widgets", "Widget"), of("widgets"))
        await used_and_deleted(api, definition("wodgets", "Widget"), of("wodgets"))


@pytest.mark.anyio
async def test_a_definition_goes_whose_scope_was_another() -> None:
    async with InMemory(ControlPlane(), clock=VirtualClock()) as api:
        await used_and_deleted(api, definition("ships", "Widget", scope="Cluster"), f"/apis/{GROUP}/v1/ships")
        await used_and_deleted(api, definition("ships", "Widget"), of("ships"))
        await used_and_deleted(api, definition("ships", "Widget", scope="Cluster"), f"/apis/{GROUP}/v1/ships")


@pytest.mark.anyio
async def test_a_namespace_stays_while_objects_of_a_kind_that_moved_are_in_it() -> None:
    clock = VirtualClock()
    async with InMemory(ControlPlane(), clock=clock) as api:
        for name in ("n1", "n2"):
            await api.post("/api/v1/namespaces", {"metadata": {"name": name}})
        await established(api, definition("widgets", "Widget"))
        assert (await api.post(of("widgets", "n1"), widget("a"))).status == 201
        await api.delete("/api/v1/namespaces/n1")
        await in_time(api, "/api/v1/namespaces/n1", lambda answer: answer.status == 404)
        await api.delete(f"{DEFINITIONS}/widgets.{GROUP}")
        await in_time(api, f"{DEFINITIONS}/widgets.{GROUP}", lambda answer: answer.status == 404)
        await established(api, definition("wodgets", "Widget"))
        assert (await api.post(of("wodgets", "n2"), widget("b", finalizers=HELD))).status == 201
        await api.delete("/api/v1/namespaces/n2")
        await clock.run(30)
        found = (await api.get("/api/v1/namespaces/n2")).json
        told = {one["type"]: one["message"] for one in found["status"]["conditions"]}
        assert told["NamespaceContentRemaining"].endswith(f"wodgets.{GROUP} has 1 resource instances")
        assert (await api.get(f"{of('wodgets', 'n2')}/b")).json["metadata"]["deletionTimestamp"]
        await api.patch(f"{of('wodgets', 'n2')}/b", UNHOLD)
        await in_time(api, "/api/v1/namespaces/n2", lambda answer: answer.status == 404)


@pytest.mark.anyio
async def test_a_definition_goes_without_its_conversion_webhook() -> None:
    """Its objects are deleted in the version that they are stored in."""
    clock = VirtualClock()
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1/gone"}}
    two = definition(
        "widgets",
        "Widget",
        version("v2", storage=False),
        version("v1", served=False),
        conversion={"strategy": "Webhook", "webhook": webhook},
    )
    async with InMemory(ControlPlane(), clock=clock) as api:
        two["spec"]["versions"][1]["served"] = True
        await established(api, two)
        assert (await api.post(of("widgets"), widget("a"))).status == 201
        await api.patch(
            f"{DEFINITIONS}/widgets.{GROUP}",
            [{"op": "replace", "path": "/spec/versions/1/served", "value": False}],
            "application/json-patch+json",
        )
        await in_time(api, of("widgets"), lambda answer: answer.status == 404)
        await api.delete(f"{DEFINITIONS}/widgets.{GROUP}")
        assert await until(api, f"widgets.{GROUP}", lambda one: one is None) is None


@pytest.mark.anyio
async def test_a_definition_that_cannot_go_says_so_once() -> None:
    """Its finalizing controller doesn't wake itself by what it writes."""
    clock = VirtualClock()
    name = f"widgets.{GROUP}"
    async with InMemory(ControlPlane(), clock=clock) as api:
        await established(api, definition("widgets", "Widget"))
        assert (await api.post(of("widgets"), widget("a", finalizers=HELD))).status == 201
        await api.delete(f"{DEFINITIONS}/{name}")
        await clock.run(20)
        going = (await api.get(f"{DEFINITIONS}/{name}")).json
        assert conditions(going)["Terminating"] == ("True", "InstanceDeletionInProgress")
        await clock.run(600)
        later = (await api.get(f"{DEFINITIONS}/{name}")).json
        assert later["metadata"]["resourceVersion"] == going["metadata"]["resourceVersion"]
        await api.patch(f"{of('widgets')}/a", UNHOLD)
        await clock.run(61)
        assert (await api.get(f"{DEFINITIONS}/{name}")).status == 404


@pytest.mark.anyio
async def test_a_definition_whose_objects_cannot_be_read_is_tried_ever_less_often() -> None:
    clock = VirtualClock()
    name = f"widgets.{GROUP}"
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1/gone"}}
    one, other = version("v1"), version("v2", storage=False)
    async with InMemory(ControlPlane(), clock=clock) as api:
        await established(api, definition("widgets", "Widget", one, other))
        assert (await api.post(of("widgets"), widget("a"))).status == 201
        swapped = [version("v1", storage=False), version("v2")]
        conversion = {"strategy": "Webhook", "webhook": webhook}
        changed = await api.patch(f"{DEFINITIONS}/{name}", {"spec": {"versions": swapped, "conversion": conversion}})
        assert changed.status == 200, changed.body
        await api.delete(f"{DEFINITIONS}/{name}")
        await in_time(
            api,
            f"{DEFINITIONS}/{name}",
            lambda answer: conditions(answer.json)["Terminating"] == ("True", "InstanceDeletionFailed"),
        )
        failed = (await api.get(f"{DEFINITIONS}/{name}")).json["metadata"]["resourceVersion"]
        await clock.run(60)
        assert (await api.get(f"{DEFINITIONS}/{name}")).json["metadata"]["resourceVersion"] == failed
        plain = {"spec": {"conversion": {"strategy": "None", "webhook": None}}}
        assert (await api.patch(f"{DEFINITIONS}/{name}", plain)).status == 200
        await in_time(api, f"{DEFINITIONS}/{name}", lambda answer: answer.status == 404)


class Elsewhere:
    """A transport that says nothing of what is served, as over a network; it counts what is asked."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self.asked: list[str] = []

    async def send(self, request: ClientRequest) -> ClientResponse:
        self.asked.append(request.path)
        answer: ClientResponse = await self._transport.send(request)
        return answer

    async def close(self) -> None:
        await self._transport.close()


async def names(client: Client) -> list[str]:
    return [one["metadata"]["name"] async for one in client.list(KIND, namespace="default")]


@pytest.mark.anyio
async def test_a_client_in_the_process_knows_at_once_where_a_kind_is() -> None:
    async with InMemory(ControlPlane(), clock=VirtualClock()) as api:
        client = api.client()
        await established(api, definition("widgets", "Widget"))
        await api.post(of("widgets"), widget("a"))
        assert await names(client) == ["a"]
        await api.delete(f"{DEFINITIONS}/widgets.{GROUP}")
        await in_time(api, f"{DEFINITIONS}/widgets.{GROUP}", lambda answer: answer.status == 404)
        await established(api, definition("widgets", "Gadget"))
        await established(api, definition("wodgets", "Widget"))
        await api.post(of("wodgets"), widget("b"))
        assert await names(client) == ["b"]


@pytest.mark.anyio
async def test_a_client_elsewhere_asks_again_when_a_kind_is_not_where_it_was() -> None:
    async with InMemory(ControlPlane(), clock=VirtualClock()) as api:
        transport = Elsewhere(api.client().transport)
        client = Client(transport)  # type: ignore[arg-type]
        await used_and_deleted(api, definition("widgets", "Widget"), of("widgets"))
        await established(api, definition("wodgets", "Widget"))
        await api.post(of("wodgets"), widget("b"))
        assert await names(client) == ["b"]
        await api.delete(f"{DEFINITIONS}/wodgets.{GROUP}")
        await in_time(api, f"{DEFINITIONS}/wodgets.{GROUP}", lambda answer: answer.status == 404)
        await established(api, definition("widgets", "Widget", scope="Cluster"))
        with pytest.raises(NotFound):
            await names(client)
        assert await names(client) == []
        for _ in range(3):  # that an object isn't there says nothing of its kind
            with pytest.raises(NotFound):
                await client.get(KIND, "none")
        assert transport.asked.count(f"/apis/{GROUP}/v1") == 2
        moved = ResourceRef(GroupResource(GROUP, "widgets"), "v1", "Widget", False)
        assert [one async for one in client.list(moved)] == []


@pytest.mark.anyio
async def test_an_informer_elsewhere_follows_a_kind_to_where_it_is_now() -> None:
    async with InMemory(ControlPlane(), clock=VirtualClock()) as api:
        at_once = RetryPolicy(sleep=lambda seconds: asyncio.sleep(0))
        client = Client(Elsewhere(api.client().transport), retries=at_once)  # type: ignore[arg-type]
        await established(api, definition("widgets", "Widget"))
        await api.post(of("widgets"), widget("a"))
        informer: Informer[Any] = client.informer(KIND)
        seen = asyncio.Queue[str]()
        informer.add_handler(lambda old, new: None if new is None else seen.put_nowait(new["metadata"]["name"]))
        async with informer, asyncio.timeout(60):
            assert await seen.get() == "a"
            await api.delete(f"{DEFINITIONS}/widgets.{GROUP}")
            await in_time(api, f"{DEFINITIONS}/widgets.{GROUP}", lambda answer: answer.status == 404)
            await established(api, definition("wodgets", "Widget"))
            await api.post(of("wodgets"), widget("b"))
            assert await seen.get() == "b"
            assert informer.ref is not None
            assert informer.ref.plural == "wodgets"


@pytest.mark.anyio
async def test_events_of_a_kind_that_went_are_not_counted_for_ever() -> None:
    async with InMemory(ControlPlane(), clock=VirtualClock()) as api:
        for plural in ("widgets", "wodgets"):
            await established(api, definition(plural, "Widget"))
            async with api.watch(of(plural)) as events:
                await api.post(of(plural), widget("a"))
                await events.next()
            counted = [one for one in api.parts.resources.router.watches.events if one[0] == GROUP]
            assert counted == [(GROUP, "v1", plural)]
            await api.delete(f"{DEFINITIONS}/{plural}.{GROUP}")
            await in_time(api, f"{DEFINITIONS}/{plural}.{GROUP}", lambda answer: answer.status == 404)
        assert not any(one[0] == GROUP for one in api.parts.resources.router.watches.events)


@pytest.mark.anyio
async def test_what_belonged_to_an_object_goes_also_when_its_kind_has_moved() -> None:
    """The garbage collector follows what is served now, though it never saw the kind go."""
    clock, name = VirtualClock(), f"ships.{GROUP}"
    maps = "/api/v1/namespaces/default/configmaps"
    async with InMemory(ControlPlane(), clock=clock) as api:
        await established(api, definition("ships", "Widget", scope="Cluster"))
        await clock.run(2)
        await api.delete(f"{DEFINITIONS}/{name}")
        assert await until(api, name, lambda one: one is None) is None
        await established(api, definition("ships", "Widget", version("v2")))
        owner = (await api.post(maps, {"metadata": {"name": "owner"}})).json["metadata"]
        link = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"]}
        mine = {**widget("mine", ownerReferences=[link]), "apiVersion": f"{GROUP}/v2"}
        ships = of("ships").replace("/v1/", "/v2/")
        assert (await api.post(ships, mine)).status == 201
        await clock.run(3)
        await api.delete(f"{maps}/owner", {"propagationPolicy": "Background"})
        await in_time(api, f"{ships}/mine", lambda answer: answer.status == 404)


@pytest.mark.anyio
async def test_a_definition_comes_back_in_other_versions() -> None:
    """That objects of its name were once stored in another one is forgotten with the last of them."""
    async with InMemory(ControlPlane(), clock=VirtualClock()) as api:
        await used_and_deleted(api, definition("ships", "Widget"), of("ships"))
        await established(api, definition("ships", "Widget", version("v2")))
        ships = of("ships").replace("/v1/", "/v2/")
        assert (await api.post(ships, {**widget("a"), "apiVersion": f"{GROUP}/v2"})).status == 201
