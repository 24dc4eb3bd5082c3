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


@pytest.mark.parametrize("has_watch_list", [True, False])
async def test_a_watch_from_the_beginning_loses_nothing_wherever_it_breaks(has_watch_list: bool) -> None:
    async with breaking() as (client, transport, steady):
        transport.has_watch_list = has_watch_list
        for name in "fedcba":
            await steady.create(boat(name))
        for cut in range(0, 3_000, 61):
            transport.cuts = [cut, cut // 2, cut, 1]
            events = client.watch(Boat, namespace="default")
            seen = [(one.type, one.object.metadata.name) for one in [await anext(events) for _ in range(6)]]
            await steady.change(
                Boat, "c", lambda one: one.spec.__setattr__("crew", one.spec.crew + 1), namespace="default"
            )
            last = await anext(events)
            await events.aclose()
            assert seen == [("ADDED", name) for name in "abcdef"], f"cut after {cut} bytes"
            assert (last.type, last.object.metadata.name) == ("MODIFIED", "c"), f"cut after {cut} bytes"


@pytest.mark.parametrize("has_watch_list", [True, False])
async def test_what_changes_while_a_watch_is_broken_among_the_first_events_is_told(has_watch_list: bool) -> None:
    async with breaking() as (client, transport, steady):
        transport.has_watch_list = has_watch_list
        for name in "dcba":
            await steady.create(boat(name))
        transport.cuts = [1_400]
        events = client.watch(Boat, namespace="default")
        seen = [(await anext(events)).object.metadata.name for _ in range(2)]
        await steady.delete(Boat, "a", namespace="default")
        await steady.change(Boat, "b", lambda one: one.spec.__setattr__("crew", 7), namespace="default")
        await steady.create(boat("e"))
        told = [await anext(events) for _ in range(4)]
        if not has_watch_list:  # only a change tells that all have come
            await steady.delete(Boat, "d", namespace="default")
        told += [await anext(events) for _ in range(1 if has_watch_list else 2)]
        await events.aclose()
        assert seen == ["a", "b"]
        assert [(one.type, one.object.metadata.name) for one in told] == [
            *(("MODIFIED", "b"), ("ADDED", "c"), ("ADDED", "d"), ("ADDED", "e"), ("DELETED", "a")),
            *([] if has_watch_list else [("DELETED", "d")]),
        ]


async def test_an_error_among_the_first_events_begins_anew() -> None:
    error = b'{"type":"ERROR","object":{"kind":"Status","code":410,"message":"no"}}\n'
    async with breaking() as (client, transport, steady):
        await steady.create(boat("a"))
        transport.refusals = [Whole(200, error), Whole(200, error)]
        events = client.watch(Boat)
        assert (await anext(events)).object.metadata.name == "a"
        await events.aclose()
        assert transport.watches == ["", "", ""]


async def test_what_exists_is_listed_where_a_server_cannot_begin_a_watch_with_it() -> None:
    why = b"the required storage feature RequestWatchProgress is disabled"  # kube-apiserver on an etcd before 3.4.31
    error = b'{"type":"ERROR","object":{"kind":"Status","code":500,"message":"%b"}}\n' % why
    async with breaking() as (client, transport, steady):
        before = await steady.create(boat("a"))
        transport.refusals = [Whole(200, error)]
        events = client.watch(Boat)
        assert (await anext(events)).object.metadata.name == "a"
        await steady.create(boat("b"))
        later = await anext(events)
        await events.aclose()
        assert (later.type, later.object.metadata.name) == ("ADDED", "b")
        assert transport.watches == ["", before.metadata.resource_version]


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
