"""Conversions that have to be waited for: objects are loaded, read, selected and watched all the same, many at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from random import Random
from typing import Any

import pytest
from waiting_converter import FarAway
from walk_kit import failure, key, made, walk

from oarlock import APIServer
from oarlock.endpoints.watching import watcher
from oarlock.registry.served import Served
from oarlock.registry.stored.form import BATCH, RETRY_S
from oarlock.registry.stored.migration import migrate
from oarlock.schema.definition import Names, ResourceDefinition, VersionDefinition
from oarlock.storage.memory import MemoryBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.server import InMemory

GROUP = "walk.example.com"
V1 = f"/apis/{GROUP}/v1/namespaces/default/lamps"
V2 = V1.replace("/v1/", "/v2/")


class House:
    """A server of lamps, which are stored as v1 and selected by their hue in v2; and the store behind it."""

    def __init__(self) -> None:
        def version(name: str, field: str) -> VersionDefinition:
            spec = {"type": "object", "properties": {field: {"type": "string"}}}
            schema = {"type": "object", "properties": {"spec": spec}}
            return VersionDefinition(name, schema, selectable=(f".spec.{field}",))

        versions = (version("v1", "colour"), version("v2", "hue"))
        names = Names("lamps", "Lamp")
        definition = ResourceDefinition(GROUP, names, "Namespaced", versions, hub="v1", stored_as="v1", typed=False)
        self.converter = FarAway()
        self.served = Served(definition, self.converter)
        self.clock = VirtualClock()
        self.backend = MemoryBackend(clock=self.clock)

    async def put(self, name: str, version: str = "v2", expect: int = 0, **spec: str) -> int:
        """Written by somebody else, maybe an older server."""
        metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
        tree = {"apiVersion": f"{GROUP}/{version}", "kind": "Lamp", "metadata": metadata, "spec": spec}
        await self.backend.start()
        written = await self.backend.put(key("lamps", "default", name), json.dumps(tree).encode(), expect=expect)
        assert written.ok
        return written.rev

    def api(self) -> InMemory:
        return InMemory(APIServer(serve=[self.served]), backend=self.backend, clock=self.clock)


def lamp(name: str, **spec: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


def hues(answer: Any) -> list[str]:
    return [item["spec"].get("hue") or item["spec"]["colour"] for item in answer.json["items"]]


@walk
async def test_what_is_stored_in_another_version_is_loaded_in_batches() -> None:
    house = House()
    for number in range(1200):
        await house.put(f"l{number:04}", hue=f"h{number % 3}")
    async with house.api() as api:
        assert len(house.converter.batches) < 12
        assert max(size for size, _ in house.converter.batches) <= BATCH
        house.converter.batches.clear()
        assert (await api.get(V1 + "/l0007")).json["spec"] == {"colour": "h1"}
        assert len((await api.get(V1)).json["items"]) == 1200
        assert (await api.get(V1 + "?fieldSelector=spec.colour=h2&limit=5")).status == 200
        assert house.converter.batches == []
        selected = await api.get(V2 + "?fieldSelector=spec.hue=h2")
        assert hues(selected) == ["h2"] * 400
        assert len(house.converter.batches) < 6


@walk
async def test_one_that_cannot_be_converted_is_named_and_tried_again() -> None:
    house = House()
    house.converter.refused = {"l05"}
    for number in range(20):
        await house.put(f"l{number:02}", hue="red")
    async with house.api() as api:
        assert (await api.get(V1 + "/l04")).status == 200
        for where in (V1 + "/l05", V1, V2):
            answer = await api.get(where)
            assert failure(answer)[0] == 500
            assert "/lamps/default/l05" in answer.json["message"]
            assert "no light" in answer.json["message"]
        house.converter.refused.clear()
        await asyncio.sleep(RETRY_S + 1)
        assert len((await api.get(V1)).json["items"]) == 20


@walk
async def test_when_nobody_is_there_the_server_starts_and_asks_again() -> None:
    house = House()
    house.converter.down = True
    for name in ("a", "b"):
        await house.put(name, hue="red")
    async with house.api() as api:
        assert house.converter.batches.count((2, "v1")) + house.converter.batches.count((1, "v1")) <= 2
        assert "nobody is there" in (await api.get(V1 + "/a")).json["message"]
        house.converter.down = False
        await asyncio.sleep(RETRY_S + 1)
        assert (await api.get(V1 + "/a")).json["spec"] == {"colour": "red"}


@walk
async def test_what_another_server_writes_is_shown_once_it_has_been_converted() -> None:
    house = House()
    async with house.api() as api:
        rev = (await api.get(V1)).json["metadata"]["resourceVersion"]
        async with (
            api.watch(f"{V1}?resourceVersion={rev}") as ones,
            api.watch(f"{V2}?resourceVersion={rev}") as twos,
        ):
            first = await house.put("a", hue="red")
            await house.put("b", "v1", colour="blue")
            await house.put("a", expect=first, hue="green")
            for events, field in ((ones, "colour"), (twos, "hue")):
                seen = [await events.next() for _ in range(3)]
                assert [(kind, tree["metadata"]["name"], tree["spec"]) for kind, tree in seen] == [
                    ("ADDED", "a", {field: "red"}),
                    ("ADDED", "b", {field: "blue"}),
                    ("MODIFIED", "a", {field: "green"}),
                ]
        assert (await api.get(V1 + "/a")).json["spec"] == {"colour": "green"}
        await house.put("c", hue="red")
        assert (await api.get(V1 + "/c")).json["spec"] == {"colour": "red"}
        patched = await api.patch(V1 + "/c", {"spec": {"colour": "white"}})
        assert patched.json["spec"] == {"colour": "white"}


@walk
async def test_a_watch_in_another_version_has_everything_in_order_and_together() -> None:
    house = House()
    async with house.api() as api:
        async with api.watch(V2) as events, api.watch(V2) as others:
            house.converter.open.clear()
            await made(api, V1, lamp("l000", colour="red"))
            for number in range(1, 300):
                await made(api, V1, lamp(f"l{number:03}", colour="red"))
            house.converter.open.set()
            for stream in (events, others):
                seen = [(await stream.next())[1] for _ in range(300)]
                assert [tree["metadata"]["name"] for tree in seen] == [f"l{number:03}" for number in range(300)]
                assert all(tree["spec"] == {"hue": "red"} for tree in seen)
            assert (await api.delete(V1 + "/l007")).status == 200
            for stream in (events, others):
                kind, tree = await stream.next()
                assert (kind, tree["spec"]) == ("DELETED", {"hue": "red"})
        shown = [size for size, version in house.converter.batches if version == "v2"]
        assert sum(shown) <= 2 * 301 + 32  # once for both watches, and once for the fields
        assert len(shown) < 100
        async with api.watch(V2) as late:
            names = [(await late.next())[1]["metadata"]["name"] for _ in range(299)]
            assert names == sorted(names)


@walk
async def test_a_selection_of_fields_is_entered_and_left() -> None:
    house = House()
    async with house.api() as api:
        await made(api, V1, lamp("a", colour="red"))
        await made(api, V1, lamp("b", colour="blue"))
        where = V2 + "?fieldSelector=spec.hue=red"
        assert [i["metadata"]["name"] for i in (await api.get(where)).json["items"]] == ["a"]
        async with api.watch(where) as events:
            assert (await events.next())[1]["metadata"]["name"] == "a"
            await api.patch(V1 + "/b", {"spec": {"colour": "red"}})
            await api.patch(V1 + "/a", {"spec": {"colour": "blue"}})
            await api.patch(V1 + "/a", {"spec": {"colour": "green"}})
            await api.delete(V1 + "/b")
            seen = [await events.next() for _ in range(3)]
            assert [(kind, tree["metadata"]["name"], tree["spec"]) for kind, tree in seen] == [
                ("ADDED", "b", {"hue": "red"}),
                ("DELETED", "a", {"hue": "red"}),
                ("DELETED", "b", {"hue": "red"}),
            ]


@walk
async def test_one_that_cannot_be_shown_ends_the_watches_that_would_show_it() -> None:
    house = House()
    async with house.api() as api, api.watch(V1) as ones, api.watch(V2) as twos:
        house.converter.refused = {"b"}
        for name in ("a", "b", "c"):
            await made(api, V1, lamp(name, colour="red"))
        assert [(await ones.next())[1]["metadata"]["name"] for _ in range(3)] == ["a", "b", "c"]
        assert (await twos.next())[1]["metadata"]["name"] == "a"
        kind, tree = await twos.next()
        assert kind == "ERROR"
        assert "Lamp default/b to v2 failed" in tree["message"]
        with pytest.raises(EOFError):
            await twos.next()
        answer = await api.get(V2)
        assert answer.status == 500
        assert "Lamp default/b to v2 failed" in answer.json["message"]
        selected = await api.get(V2 + "?fieldSelector=spec.hue=red")
        assert "lamps/default/b" in selected.json["message"]
        await made(api, V1, lamp("d", colour="red"))
        assert (await ones.next())[1]["metadata"]["name"] == "d"


@walk
async def test_no_bookmark_overtakes_what_is_being_converted() -> None:
    house = House()
    async with house.api() as api, api.watch(V2 + "?allowWatchBookmarks=true&timeoutSeconds=600") as events:
        house.converter.open.clear()
        await made(api, V1, lamp("a", colour="red"))
        await asyncio.sleep(200)
        house.converter.open.set()
        assert "annotations" in (await events.next())[1]["metadata"]  # where the initial events end
        assert (await events.next())[0] == "ADDED"
        await asyncio.sleep(60)
        kind, tree = await events.next()
        assert kind == "BOOKMARK"
        assert tree["metadata"]["resourceVersion"] == (await api.get(V1)).json["metadata"]["resourceVersion"]


@walk
async def test_a_watch_whose_conversions_never_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "WAITING_EVENTS", 50)
    house = House()
    async with house.api() as api, api.watch(V2) as events:
        house.converter.open.clear()
        for number in range(200):
            await made(api, V1, lamp(f"l{number}", colour="red"))
        with pytest.raises(EOFError):
            await events.next()
        assert len((await api.get(V1)).json["items"]) == 200


@walk
async def test_a_long_list_is_converted_in_few_batches() -> None:
    house = House()
    async with house.api() as api:
        for number in range(600):
            await made(api, V1, lamp(f"l{number:03}", colour="red"))
        await api.get(V2 + "?fieldSelector=spec.hue=x")  # waits for the fields
        house.converter.batches.clear()
        assert hues(await api.get(V2)) == ["red"] * 600
        assert len(house.converter.batches) <= 6


@walk
async def test_migration_waits_too() -> None:
    house = House()
    for number in range(40):
        await house.put(f"l{number}", hue="red")
    progress = await migrate(house.backend, house.served)
    assert (progress.rewritten, progress.broken) == (40, [])
    async with house.api() as api:
        assert hues(await api.get(V1)) == ["red"] * 40


@walk
@pytest.mark.parametrize("seed", range(6))
async def test_whatever_two_servers_write_every_watch_tells_all_of_it_in_order(seed: int) -> None:
    random = Random(seed)
    house = House()
    revisions: dict[str, int] = {}
    told: list[tuple[str, str, str]] = []  # what happened: type, name, hue

    async def change() -> None:
        name, hue = random.choice("abcde"), random.choice(["red", "blue", "green"])
        if name in revisions and random.random() < 0.3:
            kv, _ = await house.backend.get(key("lamps", "default", name))
            assert kv is not None
            spec = json.loads(kv.value)["spec"]
            told.append(("DELETED", name, spec.get("hue") or spec["colour"]))
            await house.backend.delete(kv.key, expect=kv.mod_rev)
            del revisions[name]
            return
        version = random.choice(["v1", "v2"])
        told.append(("MODIFIED" if name in revisions else "ADDED", name, hue))
        spec = {"colour" if version == "v1" else "hue": hue}
        revisions[name] = await house.put(name, version, revisions.get(name, 0), **spec)

    async with house.api() as api:
        rev = (await api.get(V1)).json["metadata"]["resourceVersion"]
        red = "fieldSelector=spec.hue%3Dred"
        async with (
            api.watch(f"{V1}?resourceVersion={rev}") as ones,
            api.watch(f"{V2}?resourceVersion={rev}") as twos,
            api.watch(f"{V2}?resourceVersion={rev}&{red}") as reds,
        ):
            for _ in range(60):
                await change()
                if random.random() < 0.3:
                    await asyncio.sleep(random.random())
            await asyncio.sleep(100)
            for events, field in ((ones, "colour"), (twos, "hue")):
                seen = [await events.next() for _ in told]
                assert [(kind, tree["metadata"]["name"], tree["spec"][field]) for kind, tree in seen] == told
                versions = [int(tree["metadata"]["resourceVersion"]) for _, tree in seen]
                assert versions == sorted(versions)
            assert [item async for item in _selected(reds, told)] == list(_entering_and_leaving(told, "red"))
        items = {i["metadata"]["name"]: i["spec"]["hue"] for i in (await api.get(V2)).json["items"]}
        last = {name: hue for _, name, hue in told}
        assert items == {name: last[name] for name in revisions}


async def _selected(events: Any, told: list[tuple[str, str, str]]) -> AsyncIterator[tuple[str, str, str]]:
    for _ in _entering_and_leaving(told, "red"):
        kind, tree = await events.next()
        yield kind, tree["metadata"]["name"], tree["spec"]["hue"]


def _entering_and_leaving(told: list[tuple[str, str, str]], hue: str) -> Iterator[tuple[str, str, str]]:
    inside: set[str] = set()
    for kind, name, now in told:
        was = name in inside
        if kind != "DELETED" and now == hue:
            inside.add(name)
            yield "MODIFIED" if was else "ADDED", name, hue
        elif was:
            inside.discard(name)
            yield "DELETED", name, hue
