"""Watches and informers go on after every kind of break, without a gap and without an event twice."""

from __future__ import annotations

import pytest
from boats import Boat
from broken_transport import Whole, boat, breaking

from oarlock import errors
from oarlock.client.transport import TransportError

pytestmark = pytest.mark.anyio

GONE = b'{"kind":"Status","code":410,"reason":"Expired","message":"too old"}'


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
