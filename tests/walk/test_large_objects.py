"""Objects that are worked on in a thread: everything is as with small ones, and users' hooks stay on the loop."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Self

import pytest
from walk_kit import walk

from oarlock import (
    Admission,
    APIServer,
    Context,
    FieldError,
    Ge,
    Invalid,
    ListMap,
    Model,
    Resource,
    Review,
    Spoke,
    StoredCollection,
    served_from,
)
from oarlock.registry.hooks.object_hooks import ClassConverter
from oarlock.server.config import ServerConfig
from oarlock.testing.server import Answer, InMemory

GROUP = "large.example.com"
V1 = f"/apis/{GROUP}/v1/namespaces/default/chests"
V2 = f"/apis/{GROUP}/v2/namespaces/default/chests"
MERGE = {"content-type": "application/merge-patch+json"}
STRATEGIC = {"content-type": "application/strategic-merge-patch+json"}
STEPS = {"content-type": "application/json-patch+json"}
APPLY = {"content-type": "application/apply-patch+yaml"}
MANY = 700

_threads: set[tuple[str, bool]] = set()


def ran(what: str) -> None:
    _threads.add((what, threading.current_thread() is threading.main_thread()))


class Drawer(Model):
    """One of many."""

    name: str
    holds: str = "nothing"
    size: Annotated[int, Ge(0)] = 1


class ChestSpec(Model):
    """What a chest is made of."""

    drawers: Annotated[list[Drawer], ListMap("name")] = []
    owner: str = ""


class Chest(Resource, group=GROUP, version="v2", selectable=[".spec.owner"]):
    """A chest of drawers."""

    spec: ChestSpec

    def default(self) -> None:
        ran("default")
        self.spec.owner = self.spec.owner or "nobody"


class OldChestSpec(Model):
    """The same, in other words."""

    boxes: Annotated[list[Drawer], ListMap("name")] = []
    holder: str = ""


class OldChest(Spoke[Chest], version="v1", selectable=[".spec.holder"]):
    """A chest as it was."""

    spec: OldChestSpec

    def to_hub(self) -> Chest:
        ran("to_hub")
        return Chest(metadata=self.metadata, spec=ChestSpec(drawers=self.spec.boxes, owner=self.spec.holder))

    @classmethod
    def from_hub(cls, hub: Chest) -> Self:
        ran("from_hub")
        return cls(metadata=hub.metadata, spec=OldChestSpec(boxes=hub.spec.drawers, holder=hub.spec.owner))


class Chests(StoredCollection[Chest], stored_as=OldChest):
    """Hooks that say where they ran."""

    def prepare(self, new: Chest, old: Chest | None, ctx: Context) -> None:
        ran("prepare")
        if new.spec.drawers:
            new.spec.drawers[0].holds = "the key"

    def validate(self, new: Chest, old: Chest | None, ctx: Context) -> Iterator[FieldError]:
        ran("validate")
        if new.spec.owner == "thief":
            yield Invalid("spec.owner", new.spec.owner, "may own nothing")


class Watchful(Admission[Chest]):
    """A plugin that says where it ran."""

    async def mutate(self, review: Review[Chest]) -> None:
        ran("mutate")
        if review.object is not None and review.object.spec.drawers:
            review.object.spec.drawers[-1].holds = "what the plugin put in"

    async def validate(self, review: Review[Chest]) -> None:
        ran("admit")


class OnTheLoop(ClassConverter):
    """The same conversion by somebody who may only be asked on the loop, so that nothing leaves it."""

    threadsafe = False


def server(*, threads: bool = True, **config: Any) -> InMemory:
    served = served_from([Chests])
    if not threads:
        served = [replace(one, converter=OnTheLoop(Chest, [OldChest])) for one in served]
    numbers = itertools.count()
    api = InMemory(APIServer(serve=served, admission=[Watchful()]), config=ServerConfig(storage="memory://", **config))
    settings = replace(api.parts.resources.live.settings, random=lambda size: next(numbers).to_bytes(size))
    api.parts.resources.live.settings = settings
    return api


def drawers(count: int = MANY, **more: Any) -> list[dict[str, Any]]:
    return [{"name": f"drawer-{n:05d}", **more} for n in range(count)]


def chest(name: str, version: str = "v2", count: int = MANY, **more: Any) -> dict[str, Any]:
    field = "drawers" if version == "v2" else "boxes"
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "Chest",
        "metadata": {"name": name},
        "spec": {field: drawers(count), **more},
    }


async def exchanges(api: InMemory) -> Iterator[Answer]:
    """All ways to write and to read, each with an answer that tells what became of it."""
    answers = [
        await api.post(V2, chest("a")),
        await api.post(V1, chest("b", "v1", holder="me")),
        await api.post(V2, chest("a")),
        await api.post(V2, chest("", count=MANY) | {"metadata": {"generateName": "made-"}}),
        await api.post(f"{V2}?fieldValidation=Strict", chest("c", unknown=1, more=2)),
        await api.post(V2, chest("c", owner="thief")),
        await api.post(V2, chest("c") | {"spec": {"drawers": drawers(size=-1)}}),
        await api.post(V2, chest("c") | {"spec": {"drawers": drawers(size="many")}}),
        await api.post(V2, chest("c") | {"spec": {"drawers": [*drawers(), {"name": "drawer-00003"}]}}),
        await api.request("POST", V2, json.dumps(chest("c")).encode()[:-5], {"content-type": "application/json"}),
        await api.put(f"{V2}/a", chest("a", owner="him") | {"metadata": {"name": "a", "resourceVersion": "1"}}),
        await api.put(f"{V2}/a", chest("a", owner="me") | {"metadata": {"name": "a", "resourceVersion": "7"}}),
        await api.put(f"{V1}/a", chest("a", "v1", holder="old") | {"metadata": {"name": "a"}}),
        await api.patch(f"{V2}/a", {"metadata": {"labels": {"x": "y"}}}, MERGE["content-type"]),
        await api.patch(f"{V2}/a", {"spec": {"drawers": drawers(holds="paper")}}, STRATEGIC["content-type"]),
        await api.patch(
            f"{V1}/a",
            [{"op": "replace", "path": f"/spec/boxes/{n}/size", "value": n} for n in range(MANY)],
            STEPS["content-type"],
        ),
        await api.patch(f"{V2}/a", [{"op": "test", "path": "/spec/owner", "value": "x"}], STEPS["content-type"]),
        await api.patch(f"{V2}/n?fieldManager=one", chest("n", owner="one"), APPLY["content-type"]),
        await api.patch(f"{V1}/n?fieldManager=two", chest("n", "v1", holder="two"), APPLY["content-type"]),
        await api.patch(f"{V1}/n?fieldManager=two&force=true", chest("n", "v1", holder="two"), APPLY["content-type"]),
        await api.patch(f"{V2}/n?fieldManager=one&dryRun=All", chest("n", count=3), APPLY["content-type"]),
        await api.get(f"{V1}/n"),
        await api.get(f"{V2}/n", accept="application/yaml"),
        await api.get(f"{V2}/n", accept="application/json;as=Table;v=v1;g=meta.k8s.io"),
        await api.get(V2),
        await api.get(f"{V2}?fieldSelector=spec.owner%3Dtwo"),
        await api.delete(f"{V2}/a"),
        await api.get(V1),
    ]
    return iter(answers)


def without_chance(answer: Answer) -> tuple[int, bytes]:
    return answer.status, re.sub(rb"made-[a-z0-9]{5}", b"made-", answer.body)


@walk
async def test_every_answer_is_the_same_as_that_of_a_server_that_does_it_all_on_the_loop():
    async with server() as api:
        in_threads = [without_chance(answer) for answer in await exchanges(api)]
    async with server(threads=False) as api:
        on_the_loop = [without_chance(answer) for answer in await exchanges(api)]
    for number, (there, here) in enumerate(zip(in_threads, on_the_loop, strict=True)):
        assert there == here, number
    assert [status for status, _ in in_threads[:12]] == [201, 201, 409, 201, 400, 422, 422, 400, 422, 400, 409, 409]


@walk
async def test_types_are_asked_in_a_thread_and_hooks_on_the_loop():
    async with server() as api:
        _threads.clear()
        assert (await api.post(V2, chest("large"))).status == 201
        assert (await api.patch(f"{V1}/large", {"metadata": {"labels": {"a": "b"}}})).status == 200
        assert _threads == {
            ("default", False),
            ("to_hub", False),
            ("from_hub", False),
            ("prepare", True),
            ("validate", True),
            ("mutate", True),
            ("admit", True),
        }
        _threads.clear()
        assert (await api.post(V2, chest("small", count=3))).status == 201
        assert (await api.patch(f"{V1}/small", {"metadata": {"labels": {"a": "b"}}})).status == 200
        assert {on_the_loop for _, on_the_loop in _threads} == {True}


@walk
async def test_of_two_large_writes_with_one_version_one_wins():
    async with server() as api:
        made = (await api.post(V2, chest("a"))).json
        first, second = (json.loads(json.dumps(made)) for _ in range(2))
        first["spec"]["owner"], second["spec"]["owner"] = "first", "second"
        answers = await asyncio.gather(api.put(f"{V2}/a", first), api.put(f"{V2}/a", second))
        assert sorted(answer.status for answer in answers) == [200, 409]
        (won,) = [answer.json for answer in answers if answer.status == 200]
        assert (await api.get(f"{V2}/a")).json["spec"]["owner"] == won["spec"]["owner"]


@pytest.mark.slow
@walk
async def test_patches_of_a_large_object_that_race_all_arrive():
    async with server() as api:
        await api.post(V2, chest("a"))
        patches = [api.patch(f"{V2}/a", {"metadata": {"labels": {f"l{n}": "x"}}}) for n in range(8)]
        assert {answer.status for answer in await asyncio.gather(*patches)} == {200}
        assert len((await api.get(f"{V2}/a")).json["metadata"]["labels"]) == 8


class Stuck(Resource, group=GROUP, version="v1"):
    """Its default takes as long as a test wants."""

    spec: ChestSpec = ChestSpec()

    def default(self) -> None:
        if self.spec.owner == "slow":
            _reached.set()
            assert _go.wait(30)


_reached, _go = threading.Event(), threading.Event()
STUCK = f"/apis/{GROUP}/v1/namespaces/default/stucks"


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    _reached.clear()
    _go.clear()
    yield _go
    _go.set()


def stuck(name: str, owner: str = "") -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"drawers": drawers(), "owner": owner}}


async def reached() -> None:
    while not _reached.is_set():  # noqa: ASYNC110 (a thread can't set an asyncio.Event)
        await asyncio.sleep(0)


@walk
async def check_a_deadline(gate: threading.Event) -> None:
    async with InMemory(APIServer(serve=[Stuck]), config=ServerConfig(storage="memory://", request_timeout_s=1)) as api:
        late = await api.post(STUCK, stuck("late", "slow"))
        assert late.status == 504
        assert (await api.post(STUCK, stuck("next"))).status == 201
        gate.set()
        assert (await api.post(STUCK, stuck("another"))).status == 201
        assert (await api.get(f"{STUCK}/late")).status == 404


def test_a_request_whose_time_is_up_ends_while_its_thread_goes_on_unheard(gate: threading.Event) -> None:
    check_a_deadline(gate)


@walk
async def check_a_cancelled_one(gate: threading.Event) -> None:
    async with InMemory(APIServer(serve=[Stuck])) as api:
        gone = asyncio.create_task(api.post(STUCK, stuck("gone", "slow")))
        await reached()
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        assert (await api.post(STUCK, stuck("next"))).status == 201
        gate.set()
        assert (await api.get(f"{STUCK}/gone")).status == 404


def test_a_client_that_leaves_leaves_nothing_behind(gate: threading.Event) -> None:
    check_a_cancelled_one(gate)


@walk
async def check_closing(gate: threading.Event) -> None:
    api = InMemory(APIServer(serve=[Stuck]))
    async with api:
        write = asyncio.create_task(api.post(STUCK, stuck("last", "slow")))
        await reached()
        asyncio.get_running_loop().call_soon(gate.set)
    assert (await write).status in (201, 503)


def test_a_server_closes_with_a_large_write_under_way(gate: threading.Event) -> None:
    check_closing(gate)


@walk
async def test_watches_in_other_versions_have_large_objects_converted_in_a_thread_and_all_events_in_order():
    async with server() as api:
        await api.post(V2, chest("before"))
        await api.post(V2, chest("tiny", count=1))
        async with (
            api.watch(f"{V2}?resourceVersion=0") as all_of_it,
            api.watch(f"{V2}?resourceVersion=0") as another,
            api.watch(f"{V2}?fieldSelector=spec.owner%3Dme") as selected,
        ):
            for n in range(3):
                await api.post(V1, chest(f"large-{n}", "v1", holder="me"))
                await api.post(V1, chest(f"small-{n}", "v1", count=1, holder="me"))
                await api.patch(f"{V1}/large-{n}", {"spec": {"holder": "you"}})
            seen = [await all_of_it.next() for _ in range(11)]
            assert [await another.next() for _ in range(11)] == seen
            chosen = [await selected.next() for _ in range(9)]
        names = [f"{kind} {tree['metadata']['name']}" for kind, tree in seen]
        assert names[:2] == ["ADDED before", "ADDED tiny"]
        each = [(f"ADDED large-{n}", f"ADDED small-{n}", f"MODIFIED large-{n}") for n in range(3)]
        assert names[2:] == [name for some in each for name in some]
        assert {len(tree["spec"]["drawers"]) for _, tree in seen} == {1, MANY}
        assert [f"{kind} {tree['metadata']['name']}" for kind, tree in chosen] == [
            name.replace("MODIFIED", "DELETED") for name in names[2:]
        ]


class Rowing(Resource, group=GROUP, version="v2"):
    """A type whose conversion says where it ran."""

    spec: ChestSpec = ChestSpec()


class OldRowing(Spoke[Rowing], version="v1"):
    """As it is stored."""

    spec: ChestSpec = ChestSpec()

    def to_hub(self) -> Rowing:
        ran("shown")
        return Rowing(metadata=self.metadata, spec=self.spec)

    @classmethod
    def from_hub(cls, hub: Rowing) -> Self:
        return cls(metadata=hub.metadata, spec=hub.spec)


class Rowings(StoredCollection[Rowing], stored_as=OldRowing):
    """Nothing besides."""


@walk
async def test_a_watch_that_meets_a_large_object_leaves_the_loop_to_others():
    old, new = (f"/apis/{GROUP}/{version}/namespaces/default/rowings" for version in ("v1", "v2"))
    async with InMemory(APIServer(serve=[Rowings])) as api:
        large = {"spec": {"drawers": drawers()}}
        made = (await api.post(old, {"metadata": {"name": "a"}, **large})).json["metadata"]
        _threads.clear()
        async with api.watch(f"{new}?resourceVersion=0") as events:
            assert (await events.next())[0] == "ADDED"
            await api.post(old, {"metadata": {"name": "b"}, **large})
            assert (await events.next())[0] == "ADDED"
        async with api.watch(f"{new}?resourceVersion={made['resourceVersion']}") as events:
            await api.post(old, {"metadata": {"name": "c"}, **large})
            names = [(await events.next())[1]["metadata"]["name"] for _ in range(2)]
            assert names == ["b", "c"]
        assert _threads == {("shown", False)}


@walk
async def test_an_object_may_be_as_large_as_a_request_on_stores_that_are_not_etcd(tmp_path: Path) -> None:
    for storage in ("memory://", f"sqlite://{tmp_path / 'store.db'}"):
        async with InMemory(APIServer(serve=[Chest]), config=ServerConfig(storage=storage)) as api:
            owner = "x" * 2_900_000
            body = {"metadata": {"name": "a"}, "spec": {"owner": owner}}
            made = await api.post(V2, body)
            assert made.status == 201, made
            assert (await api.get(f"{V2}/a")).json["spec"]["owner"] == owner
            changed = await api.patch(f"{V2}/a", {"metadata": {"labels": {"a": "b"}}}, MERGE["content-type"])
            assert (changed.status, changed.json["spec"]["owner"]) == (200, owner)
            put = await api.put(f"{V2}/a", {**changed.json, "spec": {"owner": "y" * 3_000_000}})
            assert put.status == 200, put
            too_much = await api.post(V2, {"metadata": {"name": "b"}, "spec": {"owner": "x" * 3_200_000}})
            assert too_much.status == 413
            escaped = await api.post(V2, {"metadata": {"name": "b"}, "spec": {"owner": "<" * 2_000_000}})
            assert (escaped.status, escaped.json["reason"]) == (413, "RequestEntityTooLarge")
