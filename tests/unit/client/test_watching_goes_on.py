"""Watches and informers go on after every kind of break, without a gap and without an event twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from boats import GROUP, Boat, BoatSpec, boat_server, tree
from broken_transport import BreakingTransport, Whole

from oarlock import ObjectMeta, errors
from oarlock.client.client import Client
from oarlock.client.informer import RemoteInformer
from oarlock.client.retries import RetryPolicy
from oarlock.client.transport import TransportError
from oarlock.testing import InMemory

pytestmark = pytest.mark.anyio

GONE = b'{"kind":"Status","code":410,"reason":"Expired","message":"too old"}'


async def no_sleep(seconds: float) -> None:
    await asyncio.sleep(0)


@asynccontextmanager
async def breaking() -> AsyncIterator[tuple[Client, BreakingTransport, Client]]:
    """A client whose transport breaks, and one whose doesn't."""
    async with InMemory(boat_server()) as api, api.client() as client:
        transport = BreakingTransport(client._transport)
        yield Client(transport, retries=RetryPolicy(sleep=no_sleep)), transport, client


def boat(name: str, crew: int = 1) -> Boat:
    return Boat(metadata=ObjectMeta(name=name, namespace="default"), spec=BoatSpec(crew=crew))


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not true():  # noqa: ASYNC110 the server is given its turns
            await asyncio.sleep(0)


async def test_a_watch_that_is_cut_at_any_byte_has_every_event_once() -> None:
    async with breaking() as (client, transport, steady):
        first = await steady.create(boat("start"))
        version = first.metadata.resource_version
        for number in range(4):
            await steady.create(boat(f"b{number}"))
        size = 2_600
        for cut in range(0, size, 37):
            transport.cuts = [cut, cut // 2, 1]
            events = client.watch(Boat, namespace="default", resource_version=version)
            names = [(await anext(events)).object.metadata.name for _ in range(4)]
            await events.aclose()
            assert names == ["b0", "b1", "b2", "b3"], f"cut after {cut} bytes"
            assert not transport.cuts or cut > 600


async def test_a_watch_ends_with_what_the_server_refuses() -> None:
    async with breaking() as (client, transport, _):
        transport.refusals = [Whole(410, GONE)]
        with pytest.raises(errors.Expired, match="too old"):
            await anext(client.watch(Boat))
        transport.refusals = [Whole(403, b"no")]
        with pytest.raises(errors.Forbidden, match="no"):
            await anext(client.watch(Boat))


@pytest.mark.parametrize("rubbish", [b"hello\n", b"[]\n", b'{"type":"ADDED"}\n', b'{"type":1,"object":{}}\n', b'{"ty'])
async def test_rubbish_in_a_watch_is_a_break(rubbish: bytes) -> None:
    async with breaking() as (client, transport, steady):
        await steady.create(boat("a"))
        transport.refusals = [Whole(200, rubbish)]
        events = client.watch(Boat)
        assert (await anext(events)).object.metadata.name == "a"
        await events.aclose()


async def test_a_busy_server_is_asked_again_and_a_write_is_not_repeated_blindly() -> None:
    async with breaking() as (client, transport, _):
        busy = Whole(429, b"{}", retry_after="1")
        transport.refusals = [busy, TransportError("refused", sent=False), Whole(503, b"{}", retry_after="0")]
        await client.create(boat("a"))
        assert len(transport.sent) == 4
        transport.refusals = [TransportError("cut", sent=True)]
        with pytest.raises(TransportError, match="cut"):
            await client.create(boat("b"))
        transport.refusals = [TransportError("cut", sent=True)]
        assert (await client.get(Boat, "a", namespace="default")).metadata.name == "a"
        transport.refusals = [Whole(503, b"no retry-after")]
        with pytest.raises(errors.ServiceUnavailable, match="no retry-after"):
            await client.create(boat("c"))


async def test_an_informer_has_what_exists_and_follows() -> None:
    async with breaking() as (client, _, steady):
        await steady.create(boat("a", 1))
        changes: list[tuple[int | None, int | None]] = []

        def crew(found: Boat | None) -> int | None:
            return None if found is None else found.spec.crew

        boats = RemoteInformer(client, Boat, namespace="default")
        boats.add_handler(lambda old, new: changes.append((crew(old), crew(new))))
        boats.add_index("crew", lambda found: [str(found.spec.crew)])
        async with boats:
            await boats.synced()
            assert len(boats) == 1
            await steady.change(Boat, "a", lambda found: setattr(found.spec, "crew", 2), namespace="default")
            await steady.create(boat("b", 2))
            await until(lambda: len(boats) == 2)
            assert sorted(one.metadata.name for one in boats.by_index("crew", "2")) == ["a", "b"]
            assert boats.by_index("crew", "1") == []
            await steady.delete(Boat, "a", namespace="default")
            await until(lambda: len(boats) == 1)
            found = boats.get("b", "default")
            assert found is not None
            assert found.spec.crew == 2
            assert boats.get("a", "default") is None
        assert changes == [(None, 1), (1, 2), (None, 2), (2, None)]


async def test_an_informer_lists_again_after_a_410_and_tells_the_difference() -> None:
    async with breaking() as (client, transport, steady):
        for name in "abc":
            await steady.create(boat(name))
        changes: list[tuple[str, str]] = []

        def told(old: Boat | None, new: Boat | None) -> None:
            known = new or old
            assert known is not None
            changes.append((known.metadata.name, "gone" if new is None else "new" if old is None else "changed"))

        boats = RemoteInformer(client, Boat)
        transport.cuts = [0]
        async with boats:
            await boats.synced()
            boats.add_handler(told)
            del changes[:]
            transport.refusals = [Whole(410, GONE)]
            await steady.delete(Boat, "a", namespace="default")
            await steady.change(Boat, "b", lambda found: setattr(found.spec, "crew", 9), namespace="default")
            await steady.create(boat("d"))
            await until(lambda: len(changes) == 3)
        assert sorted(changes) == [("a", "gone"), ("b", "changed"), ("d", "new")]


async def test_an_object_that_does_not_fit_is_left_out_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with breaking() as (client, transport, steady):
        await steady.create(boat("a"))
        page = (
            b'{"metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"x","namespace":"n",'
            b'"resourceVersion":"1"},"spec":{"crew":"many"}}]}'
        )
        transport.refusals = [Whole(200, page)]
        async with RemoteInformer(client, Boat) as boats:
            await boats.synced()
            assert boats.get("x", "n") is None
            await until(lambda: len(boats) == 2)
            assert [one.metadata.name for one in boats] == ["a"]
        assert "Boat n/x is left out of its informer" in caplog.text


async def test_an_informer_that_may_not_list_says_so() -> None:
    async with breaking() as (client, transport, _):
        transport.refusals = [Whole(403, b"not you")]
        async with RemoteInformer(client, Boat) as boats:
            with pytest.raises(errors.Forbidden, match="not you"):
                await boats.synced()


async def test_a_handler_that_fails_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async with breaking() as (client, _, steady):
        boats = RemoteInformer(client, Boat)
        boats.add_handler(lambda old, new: 1 / 0)
        async with boats:
            await steady.create(tree("a", crew=1))
            await until(lambda: len(boats) == 1)
        assert f"a handler of the informer of {Boat}" in caplog.text
        assert GROUP
