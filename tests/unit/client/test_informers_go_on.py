"""Whatever breaks, an informer goes on: its handlers see every object once, and each change from what they saw last."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable

import pytest
from boats import Boat, boat_server
from broken_transport import BreakingTransport, Whole, boat, breaking, until

from oarlock.client import Client, Informer
from oarlock.client.informers.observers import SLICE_S, Observer, Observers, ReadableObject
from oarlock.client.informers.remote_objects import RemoteObjects
from oarlock.client.transport import ClientRequest, ClientResponse, TransportError
from oarlock.storage.memory import MemoryBackend
from oarlock.testing import InMemory, VirtualClock

pytestmark = pytest.mark.anyio

STEP = int(os.environ.get("OARLOCK_CUT_STEP", "43"))
"""Every so many bytes a stream is cut; 1 for every byte."""

ROUNDS = int(os.environ.get("OARLOCK_INFORMER_ROUNDS", "4"))

EXPIRED = b'{"kind":"Status","code":410,"reason":"Expired","message":"too old"}'
AHEAD = (
    b'{"kind":"Status","code":504,"reason":"Timeout","message":"Too large resource version: 9, current: 3",'
    b'"details":{"causes":[{"reason":"ResourceVersionTooLarge"}]}}'
)
GONE = b'{"kind":"Status","code":410,"reason":"Gone","message":"too old"}'


class Mirror:
    """What a handler was told: by name, the revision and the crew. A gap or a double is an AssertionError."""

    def __init__(self, boats: Informer[Boat]) -> None:
        self.crews: dict[str, int] = {}
        self.mistakes: list[str] = []
        self._versions: dict[str, str | None] = {}
        boats.add_handler(self.delivered)

    def delivered(self, old: Boat | None, new: Boat | None) -> None:
        one = new or old
        assert one is not None
        name = one.metadata.name
        known = self._versions.get(name)
        before = None if old is None else old.metadata.resource_version
        if before != known:
            self.mistakes.append(f"{name}: told of a change from {before}, was at {known}")
        if new is None:
            self._versions.pop(name, None)
            self.crews.pop(name, None)
            return
        if new.metadata.resource_version == known:
            self.mistakes.append(f"{name}: told twice of {known}")
        self._versions[name] = new.metadata.resource_version
        self.crews[name] = new.spec.crew


async def crews(client: Client) -> dict[str, int]:
    return {one.metadata.name: one.spec.crew async for one in client.list(Boat)}


@pytest.mark.parametrize("has_watch_list", [True, False])
async def test_a_stream_that_is_cut_at_any_byte(has_watch_list: bool) -> None:
    async with breaking() as (client, transport, steady):
        transport.has_watch_list = has_watch_list
        for name in "abc":
            await steady.create(boat(name))
        whole, after = 0, 0
        while after <= whole:
            transport.cuts = [after, after // 2, 1, 0]
            whole = max(whole, await _changes_over_cuts(client, transport, steady, after))
            assert not transport.cuts or after > whole // 2, "cuts were tried"
            await transport.cut()
            after += STEP
        assert whole > 1_200


async def _changes_over_cuts(client: Client, transport: BreakingTransport, steady: Client, number: int) -> int:
    """Follow some changes; returns how long the longest stream was."""
    boats = client.informer(Boat)
    mirror = Mirror(boats)
    async with boats:
        await boats.synced()
        await steady.patch(Boat, "a", {"spec": {"crew": number + 2}}, namespace="default")
        await steady.delete(Boat, "c", namespace="default")
        await steady.create(boat("c", number))
        await until(lambda: mirror.crews == {"a": number + 2, "b": 1, "c": number})
        await boats.synced()
    assert mirror.mistakes == [], f"cut after {number} bytes"
    return max(stream.size for stream in transport.streams)


REFUSALS: list[Callable[[], Whole | TransportError]] = [
    lambda: Whole(410, EXPIRED),
    lambda: Whole(410, GONE),
    lambda: Whole(410, b"a proxy's page"),
    lambda: Whole(504, AHEAD),
    lambda: Whole(200, b'{"type":"ERROR","object":' + EXPIRED + b"}\n"),
    lambda: Whole(200, b'{"type":"ERROR","object":' + GONE + b"}"),
    lambda: Whole(500, b"oh"),
    lambda: Whole(503, b"{}", retry_after="1"),
    lambda: Whole(429, b"{}", retry_after="1"),
    lambda: Whole(200, b"rubbish"),
    lambda: Whole(200, b""),
    lambda: TransportError("cut", sent=True),
    lambda: TransportError("refused", sent=False),
]


@pytest.mark.parametrize("seed", range(ROUNDS))
async def test_anything_may_go_wrong_at_any_time(seed: int) -> None:
    dice = random.Random(seed)
    async with breaking() as (client, transport, steady):
        boats = client.informer(Boat)
        mirror = Mirror(boats)
        async with boats:
            await boats.synced()
            for step in range(60):
                name = dice.choice("abcdefgh")
                if name in await crews(steady):
                    if dice.random() < 0.3:
                        await steady.delete(Boat, name, namespace="default")
                    else:
                        await steady.patch(Boat, name, {"spec": {"crew": step}}, namespace="default")
                else:
                    await steady.create(boat(name, step))
                if dice.random() < 0.3:
                    transport.has_watch_list = dice.random() < 0.7
                    transport.refusals = [dice.choice(REFUSALS)() for _ in range(dice.randrange(4))]
                    transport.cuts = [dice.randrange(3_000) for _ in range(dice.randrange(3))]
                    await transport.cut()
                for _ in range(dice.randrange(30)):
                    await asyncio.sleep(0)
            transport.refusals, transport.cuts = [], []
            wanted = await crews(steady)
            await until(lambda: mirror.crews == wanted)
            assert {one.metadata.name: one.spec.crew for one in boats} == wanted
    assert mirror.mistakes == []


async def test_history_that_is_forgotten_between_two_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oarlock.client.informers.remote_objects.PAGE_SIZE", 2)
    async with breaking() as (client, transport, steady):
        transport.has_watch_list = False
        for name in "abcde":
            await steady.create(boat(name))
        boats = client.informer(Boat)
        mirror = Mirror(boats)
        pages = 0

        def refuse() -> None:
            nonlocal pages
            pages += 1
            if pages == 2:
                transport.refusals = [Whole(410, EXPIRED)]

        transport.before = refuse
        async with boats:
            await boats.synced()
            assert mirror.crews == dict.fromkeys("abcde", 1)
        assert mirror.mistakes == []
        limits = [dict(one.query).get("limit") for one in transport.sent if not one.streams]
        assert limits == ["2", "2", None], "the rest comes in one answer"


async def test_what_is_deleted_while_history_is_forgotten_between_two_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oarlock.client.informers.remote_objects.PAGE_SIZE", 2)
    async with breaking() as (client, transport, steady):
        transport.has_watch_list = False
        for name in "abcde":
            await steady.create(boat(name))
        boats = client.informer(Boat)
        mirror = Mirror(boats)
        send, answers = transport.send, [Whole(410, EXPIRED), None, Whole(410, EXPIRED)]

        async def forgetful(request: ClientRequest) -> ClientResponse:
            if not answers:
                return await send(request)
            answer = answers.pop(0)
            if not answers:
                await steady.delete(Boat, "a", namespace="default")
            return answer or await send(request)

        async with boats:
            await boats.synced()
            monkeypatch.setattr(transport, "send", forgetful)
            await transport.cut()
            await until(lambda: mirror.crews == dict.fromkeys("bcde", 1))
        assert mirror.mistakes == []


@pytest.mark.parametrize(
    "event",
    [
        b'{"type":"ADDED","object":{"metadata":{"name":"old","namespace":"default","resourceVersion":"1"}}}\n',
        b'{"type":"ERROR","object":{"kind":"Status","code":500,"reason":"InternalError","message":"too old"}}\n',
    ],
    ids=["events without their end", "an error as the first event"],
)
async def test_a_server_without_watch_list_is_listed(event: bytes) -> None:
    async with breaking() as (client, transport, steady):
        await steady.create(boat("a"))
        transport.refusals = [Whole(200, event)]
        async with client.informer(Boat) as boats:
            await boats.synced()
            assert [one.metadata.name for one in boats] == ["a"]
            await transport.cut()
            transport.refusals = [Whole(410, EXPIRED)]
            await steady.create(boat("b"))
            await until(lambda: len(boats) == 2)
        asked = [dict(one.query).get("sendInitialEvents") for one in transport.sent]
        assert asked[:3] == ["true", None, None]
        assert "true" in asked[3:], "only that attempt did without"


async def test_after_the_first_sync_nothing_ends_it() -> None:
    async with breaking() as (client, transport, steady):
        boats = client.informer(Boat)
        mirror = Mirror(boats)
        async with boats:
            await boats.synced()
            transport.refusals = [Whole(code, b"no") for code in (401, 403, 404, 405)]
            await transport.cut()
            await steady.create(boat("a", 3))
            await until(lambda: mirror.crews == {"a": 3})
            await boats.synced()
        assert transport.refusals == []


async def test_a_server_that_was_restored_is_asked_for_everything() -> None:
    async with breaking() as (client, transport, steady):
        await steady.create(boat("a"))
        boats = client.informer(Boat)
        async with boats:
            await boats.synced()
            transport.refusals = [Whole(504, AHEAD)]
            await transport.cut()
            await until(lambda: len(transport.sent) == 3)
            asked = [dict(one.query).get("sendInitialEvents") for one in transport.sent]
            assert asked == ["true", None, "true"], "the second was refused"


async def test_objects_are_bytes_until_they_are_read() -> None:
    async with breaking() as (client, _, steady):
        for name in "abc":
            await steady.create(boat(name))
        async with client.informer(Boat) as boats:
            await boats.synced()
            source = boats._source
            assert isinstance(source, RemoteObjects)
            assert boats.get("b", "default") is not None
            assert [bool(one.data) for one in source._objects.values()] == [True, False, True]  # type: ignore[attr-defined]


# In the process of the server


async def test_an_informer_over_the_cache_goes_on_after_the_store_has_lost_writes() -> None:
    clock = VirtualClock()
    backend = MemoryBackend(clock=clock)
    async with InMemory(boat_server(), backend=backend, clock=clock) as api, api.client() as client:
        await client.create(boat("a", 1))
        await client.create(boat("b", 1))
        boats = client.informer(Boat)
        mirror = Mirror(boats)
        boats.add_index("crew", lambda found: [str(found.spec.crew)])
        async with boats:
            await boats.synced()
            revision = await backend.current_rev()
            await client.create(boat("c", 1))
            await client.patch(Boat, "a", {"spec": {"crew": 5}}, namespace="default")
            await client.delete(Boat, "b", namespace="default")
            await until(lambda: mirror.crews == {"a": 5, "c": 1})
            backend.lose_after(revision)
            await until(lambda: mirror.crews == {"a": 1, "b": 1})
            assert [one.metadata.name for one in boats.by_index("crew", "1")] == ["a", "b"]
            await client.create(boat("d", 4))
            await until(lambda: mirror.crews == {"a": 1, "b": 1, "d": 4})
    assert mirror.mistakes == []


async def test_an_informer_over_the_cache_goes_on_when_its_definition_is_replaced() -> None:
    async with InMemory(boat_server()) as api, api.client() as client:
        await client.create(boat("a", 1))
        boats, declared = client.informer(Boat), api.server.catalog
        mirror = Mirror(boats)
        async with boats:
            await boats.synced()
            served = declared.groups["client.example.com"].resources["boats"]
            await api.server.change(remove=[served.definition.group_resource])
            assert [one.metadata.name for one in boats] == ["a"], "what is withdrawn stays readable"
            await api.server.change(put=[served])
            await client.create(boat("b", 2))
            await until(lambda: mirror.crews == {"a": 1, "b": 2})
    assert mirror.mistakes == []


async def test_a_slow_handler_is_told_the_last_of_several_changes_and_holds_nobody_up() -> None:
    now = [0.0]

    def tick() -> float:
        now[0] += SLICE_S
        return now[0]

    observers: Observers[str] = Observers(tick)
    delivered: list[tuple[str, str, str]] = []

    def text(one: ReadableObject[str] | None) -> str:
        return "-" if one is None else one.version

    observers.add(Observer(lambda key, old, new: delivered.append((key[1], text(old), text(new)))))
    for number in range(1, 1_000):
        observers.changed(("", f"x{number % 3}"), Version(number - 3) if number > 3 else None, Version(number))
    observers.changed(("", "y"), None, Version(1))
    observers.changed(("", "y"), Version(1), None)
    await asyncio.sleep(0)
    assert delivered == [("x1", "-", "997"), ("x2", "-", "998")], "no longer than its slice of time"
    observers.changed(("", "x1"), Version(997), None)
    await observers.delivered()
    assert delivered[2:] == [("x0", "-", "999"), ("x1", "997", "-")]


class Version:
    """A `ReadableObject` that is nothing but its version."""

    def __init__(self, number: int) -> None:
        self.version = str(number)

    def read(self) -> str:
        return self.version
