"""`APIServer.change`: what changes is exchanged; every other resource, route, watch and document stays what it was."""

from __future__ import annotations

import asyncio
import weakref
from dataclasses import replace
from typing import Any

import pytest
from walk_kit import BOATS, CRATE_SCHEMA, GROUP, boat, fleet, made, walk

from oarlock.endpoints.catalog import CatalogError
from oarlock.meta.kinds import GroupResource
from oarlock.registry.served import Served
from oarlock.registry.stored.records import StoreTooNew
from oarlock.schema.compiled import SchemaError
from oarlock.schema.definition import Names, ResourceDefinition, VersionDefinition
from oarlock.testing.server import InMemory

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
TOYS, TOOLS = "toys.example.com", "tools.example.com"


def thing(plural: str, group: str = TOYS, note: str = "", *, version: str = "v1", **facts: Any) -> Served:
    schema = {**CRATE_SCHEMA, "description": f"A thing.{note}"}
    names = Names(plural, plural[:-1].capitalize())
    versions = (VersionDefinition(version, schema),)
    return Served(ResourceDefinition(group, names, "Namespaced", versions, version, version, typed=False, **facts))


def path(plural: str, group: str = TOYS, name: str = "") -> str:
    where = f"/apis/{group}/v1/namespaces/default/{plural}"
    return f"{where}/{name}" if name else where


def crate(name: str = "a") -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"size": 1}}


def routes(api: InMemory) -> Any:
    table = api.parts.resources.router.route_table
    assert table is not None
    return table.routes


async def documents(api: InMemory) -> dict[str, str]:
    """The hash of every OpenAPI document, and what its ETag is; the ETag of aggregated discovery."""
    index = (await api.get("/openapi/v3")).json["paths"]
    found = {name: at["serverRelativeURL"].partition("?hash=")[2] for name, at in index.items()}
    for name, current in found.items():
        assert (await api.get(f"/openapi/v3/{name}")).headers["etag"] == f'"{current}"'
    return {**found, "discovery": (await api.get("/apis", accept=AGGREGATED)).headers["etag"]}


async def names(api: InMemory) -> dict[str, list[str]]:
    """The resources of each group, as discovery has them in its three forms."""
    groups = (await api.get("/apis", accept=AGGREGATED)).json["items"]
    found = {g["metadata"]["name"]: [r["resource"] for r in g["versions"][0]["resources"]] for g in groups}
    assert [group["name"] for group in (await api.get("/apis")).json["groups"]] == [*found]
    for group, resources in found.items():
        version = groups[[*found].index(group)]["versions"][0]["version"]
        listed = (await api.get(f"/apis/{group}/{version}")).json["resources"]
        assert [one["name"] for one in listed if "/" not in one["name"]] == resources
    return found


@walk
async def test_a_definition_is_added_changed_and_removed():
    api, _ = fleet()
    async with api:
        await api.server.change(put=[thing("kites"), thing("tops"), thing("saws", TOOLS)])
        assert {group: found for group, found in (await names(api)).items() if group != GROUP} == {
            TOYS: ["kites", "tops"],
            TOOLS: ["saws"],
        }
        await made(api, path("kites"), crate())
        await api.server.change(put=[thing("kites", note=" It flies."), thing("dolls")])
        assert (await names(api))[TOYS] == ["dolls", "kites", "tops"]
        assert (await api.get(path("kites", name="a"))).status == 200
        await api.server.change(put=[thing("hammers", TOOLS)], remove=[GroupResource(TOOLS, "saws")])
        assert (await names(api))[TOOLS] == ["hammers"]
        assert (await api.get(path("saws", TOOLS))).status == 404
        await api.server.change(remove=[GroupResource(TOOLS, "hammers"), GroupResource(TOOLS, "nothing")])
        assert TOOLS not in await names(api)
        assert (await api.get(f"/apis/{TOOLS}")).status == 404
        await api.server.change(put=[thing("saws", TOOLS)])
        assert [*await names(api)] == [GROUP, TOYS, TOOLS]


@walk
async def test_what_did_not_change_is_not_touched():
    api, _ = fleet()
    async with api:
        await api.server.change(put=[thing("kites"), thing("tops"), thing("saws", TOOLS)])
        for plural, group in (("kites", TOYS), ("tops", TOYS), ("saws", TOOLS)):
            await made(api, path(plural, group), crate())
        before = await documents(api)
        resources = dict(api.parts.resources.live.resources)
        cached = {key: routes(api).get(("GET", key, "")) for key in (path("tops", name="a"), path("saws", TOOLS))}
        for where in cached:
            await api.get(where)
        cached = {where: routes(api).get(("GET", where, "")) for where in cached}
        assert None not in cached.values()
        async with api.watch(path("tops")) as tops, api.watch(path("saws", TOOLS)) as saws:
            async with api.watch(path("kites")) as kites:
                await api.server.change(put=[thing("kites", note=" It flies.", create_on_update=True)])
                assert not kites.closed, "its objects are stored and shown as before"
                await api.server.change(remove=[GroupResource(TOYS, "kites")])
                assert kites.closed
            after = await documents(api)
            changed = {name for name in before if before[name] != after.get(name)}
            assert changed == {"discovery", f"apis/{TOYS}/v1"}
            assert routes(api).get(("GET", path("saws", TOOLS), "")) is cached[path("saws", TOOLS)]
            assert routes(api).get(("GET", path("tops", name="a"), "")) is None
            kept = {key: one for key, one in resources.items() if key[1] != "kites"}
            assert all(api.parts.resources.live.resources[key] is one for key, one in kept.items())
            await made(api, path("tops"), crate("b"))
            await made(api, path("saws", TOOLS), crate("b"))
            assert [tree["metadata"]["name"] for _, tree in tops.pending()] == ["a", "b"]
            assert [tree["metadata"]["name"] for _, tree in saws.pending()] == ["a", "b"]
        await api.server.change(put=[thing("kites")])
        assert await documents(api) == before, "equal definitions have equal documents"


@walk
async def test_a_change_that_fails_changes_nothing():
    api, _ = fleet()
    async with api:
        await api.server.change(put=[thing("kites")])
        await made(api, path("kites"), crate())
        before = await documents(api), api.parts.resources.live.resources, api.parts.storage.cache.resources
        malformed = thing("tops")
        schema = {"type": "object", "properties": {"x": {"type": "nothing"}}}
        versions = (replace(malformed.definition.versions[0], schema=schema),)
        malformed = Served(replace(malformed.definition, versions=versions))
        same_kind = Served(replace(thing("tops").definition, names=Names("tops", "Kite")))
        async with api.watch(path("kites")) as kites:
            for put, error in (
                ([thing("saws", TOOLS), thing("kites", version="v9")], StoreTooNew),
                ([thing("saws", TOOLS), malformed], SchemaError),
                ([thing("saws", TOOLS), same_kind], CatalogError),
                ([thing("tops"), thing("tops")], CatalogError),
            ):
                with pytest.raises(error):
                    await api.server.change(put=put, remove=[GroupResource(GROUP, "boats")])
                assert not kites.closed
                assert (
                    await documents(api),
                    api.parts.resources.live.resources,
                    api.parts.storage.cache.resources,
                ) == before
                assert (await api.get(path("saws", TOOLS))).status == 404
                await made(api, BOATS, boat(f"b{len(put[1].definition.names.kind)}{error.__name__.lower()}"))


@walk
async def test_those_who_change_at_the_same_time_do_not_undo_each_other():
    api, _ = fleet()
    async with api:
        plurals = [f"{letter}s" for letter in "abcdefghij"]
        await asyncio.gather(*[api.server.change(put=[thing(plural)]) for plural in plurals])
        assert (await names(api))[TOYS] == plurals
        removals = [api.server.change(remove=[GroupResource(TOYS, plural)]) for plural in plurals[::2]]
        await asyncio.gather(*removals, api.server.change(put=[thing("saws", TOOLS)]))
        found = await names(api)
        assert found[TOYS] == plurals[1::2]
        assert found[TOOLS] == ["saws"]


@walk
async def test_requests_and_watches_go_on_meanwhile():
    api, _ = fleet()
    async with api:
        await api.server.change(put=[thing("kites"), thing("saws", TOOLS)])
        answers: list[int] = []
        stop = False

        async def write(where: str, number: int) -> None:
            count = 0
            while not stop:
                count += 1
                name = f"n{number}-{count}"
                answers.append((await api.post(where, crate(name))).status)
                answers.append((await api.patch(f"{where}/{name}", {"spec": {"size": 2}})).status)
                answers.append((await api.get(f"{where}/{name}")).status)
                for document in ("/apis", "/openapi/v3", f"/apis/{TOYS}/v1", "/openapi/v2"):
                    answers.append((await api.get(document)).status)
                await asyncio.sleep(0)

        where = [path("kites"), path("saws", TOOLS), BOATS.replace("boats", "crates").replace("v2", "v1")]
        tasks = [asyncio.create_task(write(one, number)) for number, one in enumerate(where)]
        async with api.watch(path("kites")) as kites, api.watch(path("saws", TOOLS)) as saws:
            for number in range(40):
                change = [thing("tops", note=str(number)), thing("saws", TOOLS, note=str(number))]
                gone = [GroupResource(TOYS, "tops")] if number % 2 else []
                await api.server.change(put=change[len(gone) :], remove=gone)
                await asyncio.sleep(0)
            stop = True
            await asyncio.gather(*tasks)
            assert not kites.closed
            assert not saws.closed
            for events in (kites, saws):
                revs = [int(tree["metadata"]["resourceVersion"]) for _, tree in events.pending()]
                assert len(revs) > 2
                assert revs == sorted(set(revs))
        assert set(answers) == {200, 201}


@walk
async def test_what_is_no_longer_served_is_let_go():
    api, _ = fleet()
    async with api:
        await api.server.change(put=[thing("tops"), thing("saws", TOOLS)])
        await documents(api)
        for number in range(3):
            kites = thing("kites")
            await api.server.change(put=[kites])
            await made(api, path("kites"), crate(f"a{number}"))
            await documents(api)
            await api.get(path("kites"))
            table = api.parts.resources.router.route_table
            assert table is not None
            group = table.catalog.groups[TOYS]
            left = [weakref.ref(one) for one in (group, group.find("v1", "kites"), table.openapi)]
            left.append(weakref.ref(api.parts.resources.live.resources[TOYS, "kites"]))
            left.append(weakref.ref(kites.conversions))
            del kites, table, group
            await api.server.change(remove=[GroupResource(TOYS, "kites")])
            await documents(api)
            for _ in range(100):
                await asyncio.to_thread(lambda: None)
                if not any(one() is not None for one in left):
                    break
            assert [one() for one in left] == [None] * len(left)
