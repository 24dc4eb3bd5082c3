"""Events tell people what happened: many of a kind as one with a count, and never too many."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fleet import Boat, Event, Flag, Ship, fleet, ship

from oarlock.client import Client
from oarlock.client.transport import TransportError
from oarlock.controllers.events import MAX_WAITING, EventRecorder, EventSender
from oarlock.testing import VirtualClock

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def recording(client: Client, clock: VirtualClock) -> AsyncIterator[tuple[EventRecorder, EventSender]]:
    sender = EventSender(client, clock)
    sender.start()
    yield EventRecorder(sender, "ships"), sender
    await sender.stop()


async def events(client: Client) -> list[Event]:
    return [one async for one in client.list(Event)]


async def test_an_event_says_what_happened_to_what() -> None:
    clock = VirtualClock()
    async with fleet(clock) as client, recording(client, clock) as (recorder, sender):
        one = await client.create(ship("a"))
        recorder.normal(one, "Built", "It floats", action="Build", related=await client.create(ship("b")))
        await sender.idle()
        [event] = await events(client)
        assert (event.type, event.reason, event.action, event.note) == ("Normal", "Built", "Build", "It floats")
        assert event.metadata.namespace == "sea"
        assert event.metadata.name.startswith("a.")
        assert event.regarding["uid"] == one.metadata.uid
        assert event.related["name"] == "b"
        assert event.reporting_controller == "ships"
        assert event.series is None


async def test_the_same_again_is_counted_and_later_begins_anew() -> None:
    clock = VirtualClock()
    async with fleet(clock) as client, recording(client, clock) as (recorder, sender):
        one = await client.create(ship("a"))
        for _ in range(3):
            recorder.warning(one, "Leaking", "Water comes in")
            await clock.run(10)
        [event] = await events(client)
        assert event.series is not None
        assert event.series.count == 3
        assert event.series.last_observed_time == "2026-01-01T00:00:20.000000Z"
        await clock.run(400)
        recorder.warning(one, "Leaking", "Water comes in")
        await sender.idle()
        assert len(await events(client)) == 2
        await client.delete_collection(Event, namespace="sea")
        recorder.warning(one, "Leaking", "Water comes in")
        await sender.idle()
        [event] = await events(client)
        assert event.series is not None
        assert event.series.count == 2


async def test_many_that_differ_in_their_notes_become_one() -> None:
    clock = VirtualClock()
    async with fleet(clock) as client, recording(client, clock) as (recorder, sender):
        one = await client.create(ship("a"))
        for number in range(20):
            recorder.warning(one, "Leaking", f"Hole {number}")
        await sender.idle()
        found = await events(client)
        assert len(found) == 10
        [combined] = [one for one in found if one.note.startswith("(combined from similar events): Hole ")]
        assert combined.series is not None
        assert combined.series.count == 11


async def test_an_object_that_is_told_too_much_of_is_heard_again_later() -> None:
    clock = VirtualClock()
    async with fleet(clock) as client, recording(client, clock) as (recorder, sender):
        one = await client.create(ship("a"))
        for _ in range(100):
            recorder.normal(one, "Waving", "Hello")
        await sender.idle()
        [event] = await events(client)
        assert event.series is not None
        assert event.series.count == 25
        assert sender.dropped == 75
        await clock.run(301)
        recorder.normal(one, "Waving", "Hello")
        recorder.normal(one, "Waving", "Hello")
        await sender.idle()
        [event] = await events(client)
        assert event.series is not None
        assert event.series.count == 26


async def test_without_events_on_the_server_they_are_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    async with fleet(clock, [Ship, Boat, Flag]) as client, recording(client, clock) as (recorder, sender):
        recorder.warning(ship("a"), "Leaking", "Water comes in")
        await sender.idle()
        assert caplog.messages == ["Ship sea/a: Leaking: Water comes in"]


async def test_events_that_cannot_be_sent_wait_and_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    clock = VirtualClock()
    async with fleet(clock) as client:
        down = True

        class Down:
            def __init__(self, transport: Any) -> None:
                self.transport = transport

            async def send(self, request: Any) -> Any:
                if down:
                    raise TransportError("down", sent=False)
                return await self.transport.send(request)

            connect = close = send

        async with recording(client.over(Down), clock) as (recorder, sender):
            for number in range(MAX_WAITING + 50):
                recorder.normal(ship(f"s{number}"), "Built", "x" * 5_000)
            assert sender.dropped == 50
            await clock.run(25)
            down = False
            await clock.run(10)
            await asyncio.wait_for(sender.idle(), 60)
            found = await events(client)
            assert len(found) == MAX_WAITING
            assert {len(one.note) for one in found} == {1_024}


async def test_what_is_no_object_is_left_out_and_told(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    async with fleet(clock) as client, recording(client, clock) as (recorder, _):
        recorder.normal(object(), "Built", "x")
    assert "an event of ships was left out" in caplog.text
