"""Servers that go and come, kinds that come later, user code that tells nonsense: nothing is missed for good."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from fleet import GROUP, Boat, Flag, Ship, fleet, ship

from oarlock import APIServer, ObjectMeta, served_from
from oarlock.client.client import Client
from oarlock.client.transport import TransportError, WholeResponse
from oarlock.controllers import Controller, ControllerGroup, LeaderElection, ObjectKey, Watched
from oarlock.controllers.running import loop
from oarlock.controllers.running.work_queue import KEY_BYTES
from oarlock.endpoints.catalog import Catalog
from oarlock.storage.sqlite.backend import SqliteBackend
from oarlock.testing import InMemory, VirtualClock

pytestmark = pytest.mark.anyio

EXPIRED = b'{"kind":"Status","code":410,"reason":"Expired","message":"too old"}'


class Seen(Controller[Ship]):
    """Notes what it is called for, and with how many boats."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int | None]] = []

    async def reconcile(self, key: ObjectKey) -> None:
        found = self.informer.get(key.name, key.namespace)
        self.calls.append((key.name, None if found is None else found.spec.boats))


class Changing:
    """A transport to whichever server there is."""

    def __init__(self) -> None:
        self.target: Any = None
        self.streams: list[Any] = []
        self.initial = 0
        """How often everything was asked for."""
        self.expired = False
        """Whether the next watch that goes on where one was is answered 410."""

    async def send(self, request: Any) -> Any:
        if self.target is None:
            raise TransportError("nobody there", sent=False)
        if self.expired and request.streams and ("sendInitialEvents", "true") not in request.query:
            self.expired = False
            return WholeResponse(410, {"content-type": "application/json"}, EXPIRED)
        answer = await self.target.send(request)
        if request.streams:
            self.streams.append(answer)
            self.initial += ("sendInitialEvents", "true") in request.query
        return answer

    async def lose(self) -> None:
        """End what is under way; nobody is there any more."""
        self.target = None
        for stream in self.streams:
            await stream.close()

    async def connect(self, request: Any, protocols: Any) -> Any:
        raise TransportError("nobody there", sent=False)

    async def close(self) -> None: ...


async def test_a_server_that_is_restarted_under_a_controller_loses_it_no_change(tmp_path: Path) -> None:
    clock, seen, transport = VirtualClock(), Seen(), Changing()

    def server() -> InMemory:
        store = SqliteBackend(str(tmp_path / "store.db"), clock=clock)
        return InMemory(APIServer(serve=[Ship], storage=store), clock=clock)

    group = ControllerGroup([seen])
    async with group.running(Client(transport), clock) as run:
        await clock.run(5)
        async with server() as api:
            transport.target = api.client().transport
            await api.client().create(ship("a"))
            await settled(clock, lambda: ("a", 0) in seen.calls)
            transport.target = None
        await clock.run(60)
        async with server() as api:
            await api.client().patch(Ship, "a", {"spec": {"boats": 7}}, namespace="sea")
            await api.client().create(ship("b"))
            transport.target = api.client().transport
            await settled(clock, lambda: {("a", 7), ("b", 0)} <= set(seen.calls))
            await api.client().delete(Ship, "b", namespace="sea")
            await settled(clock, lambda: ("b", None) in seen.calls)
            assert run.numbers()[0].results.get("error") is None
            transport.target = None


async def test_a_controller_whose_watch_has_expired_sees_what_is_and_what_is_no_more() -> None:
    clock, seen, transport = VirtualClock(), Seen(), Changing()
    async with InMemory(APIServer(serve=[Ship]), clock=clock) as api:
        client = api.client()
        transport.target = client.transport
        async with ControllerGroup([seen]).running(Client(transport), clock) as run:
            await client.create(ship("a"))
            await client.create(ship("b"))
            await settled(clock, lambda: {("a", 0), ("b", 0)} <= set(seen.calls))
            await transport.lose()
            await clock.run(5)
            before = transport.initial
            await client.delete(Ship, "a", namespace="sea")
            await client.patch(Ship, "b", {"spec": {"boats": 7}}, namespace="sea")
            await client.create(ship("c"))
            transport.target, transport.expired = client.transport, True
            await settled(clock, lambda: {("a", None), ("b", 7), ("c", 0)} <= set(seen.calls))
            assert transport.initial == before + 1
            assert run.numbers()[0].results.get("error") is None
            transport.target = None


async def settled(clock: VirtualClock, true: Any) -> None:
    for _ in range(200):
        if true():
            return
        await clock.run(1)
        await asyncio.sleep(0.001)  # a store works in a thread
    raise AssertionError("it didn't come to that")


async def test_a_kind_that_is_served_later_is_followed_then(caplog: pytest.LogCaptureFixture) -> None:
    logged: list[str] = []
    clock, seen = VirtualClock(), Seen()
    server = APIServer(serve=[Boat])
    async with InMemory(server, clock=clock) as api:
        client = api.client()
        async with ControllerGroup([seen], tell=logged.append).running(client, clock):
            await clock.run(20)
            assert logged[0].startswith("can't follow Ship, trying again in 1 s: ")
            assert 4 <= len(logged) <= 6
            await server.replace(Catalog.of(served_from([Boat, Ship])))
            await client.create(ship("a"))
            await clock.run(60)
            assert ("a", 0) in seen.calls


async def test_what_user_code_tells_of_changes_may_be_nonsense(caplog: pytest.LogCaptureFixture) -> None:
    def strange(old: Any, new: Any) -> bool:
        raise ValueError("no idea")

    def keys(flag: Flag) -> Any:
        if flag.colour == "black":
            raise ValueError("no quarter")
        return ["sea/a", ObjectKey("x" * 2_000, "a"), ("sea", ""), ("sea", "a"), 3]

    class Odd(Seen, when=strange, watches=[Watched(Flag, to=keys)]):
        pass

    clock, odd = VirtualClock(), Odd()
    async with fleet(clock) as client, ControllerGroup([odd]).running(client, clock):
        await client.create(ship("a"))
        await clock.run(1)
        assert odd.calls == [("a", 0)]
        await client.create(Flag(metadata=ObjectMeta(name="f")))
        await clock.run(1)
        assert odd.calls == [("a", 0)] * 2
        assert caplog.text.count("left out, of what f stands for") == 4
        assert "is no key: return ObjectKey(namespace, name)" in caplog.text
        await client.create(Flag(metadata=ObjectMeta(name="pirate"), colour="black"))
        await client.create(ship("b"))
        await clock.run(1)
        assert odd.calls[-1] == ("b", 0)


async def test_a_flood_of_keys_is_bounded_and_none_is_lost(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loop, "MAX_QUEUE_BYTES", 20 * KEY_BYTES)
    clock, seen = VirtualClock(), Seen()
    async with fleet(clock) as client:
        for number in range(100):
            await client.create(ship(f"s{number}"))
        async with ControllerGroup([seen]).running(client, clock) as run:
            await run.idle()
            assert {name for name, _ in seen.calls} == {f"s{number}" for number in range(100)}
            assert run.numbers()[0].queue.refused > 0
            seen.calls.clear()
            for number in range(100):
                await client.patch(Ship, f"s{number}", {"spec": {"boats": 1}}, namespace="sea")
            await clock.run(1)
            await run.idle()
            assert {(f"s{number}", 1) for number in range(100)} <= set(seen.calls)
        assert "a work queue is full" in caplog.text


async def test_a_lease_that_can_not_be_had_is_told_once() -> None:
    logged: list[str] = []
    clock = VirtualClock()
    async with fleet(clock, [Ship]) as client:
        election = LeaderElection("sea/captains", identity="ahab")
        group = ControllerGroup([Seen()], election=election, tell=logged.append)
        async with group.running(client, clock) as run:
            await clock.run(30)
            assert run.leading is False
    assert [one for one in logged if "lease" in one] == [
        "the lease sea/captains can't be written: the server has no Leases: it has to serve coordination.k8s.io/v1"
    ]


def test_the_lease_of_a_class_is_checked_and_has_one_meaning_in_a_group() -> None:
    class First(Seen, lease="sea/first"):
        pass

    class Second(Seen, lease="sea/second"):
        pass

    one = ControllerGroup([First()]).election
    assert one is not None
    assert one.lease == "sea/first"
    with pytest.raises(TypeError, match="controllers: have different leases: 'sea/first', 'sea/second'"):
        ControllerGroup([First(), Second()])
    with pytest.raises(TypeError, match="class Third: lease: 'third' names no lease: write namespace/name"):

        class Third(Seen, lease="third"):
            pass


async def test_a_controller_of_a_group_is_logged_by_its_name(caplog: pytest.LogCaptureFixture) -> None:
    class Loud(Controller[dict[str, Any]], of=f"{GROUP}/v1/Ship", name="loud-one"):
        async def reconcile(self, key: ObjectKey) -> None:
            self.log.warning("seen %s", key)

    clock = VirtualClock()
    caplog.set_level(logging.INFO)
    async with fleet(clock) as client, ControllerGroup([Loud()]).running(client, clock):
        await client.create(ship("a"))
        await clock.run(1)
    assert ("oarlock.controllers.loud-one", logging.WARNING, "seen sea/a") in caplog.record_tuples
