"""`on_start`, controllers and `on_stop`: when each runs, and that none of them takes the server down."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oarlock import APIServer, DeclarationError, ObjectMeta, Resource
from oarlock.client import Client, connect
from oarlock.client.clock import TimerClock
from oarlock.server.assembly.own_work import AGAIN, START_S, STOP_S, StartTookTooLong
from oarlock.testing import InMemory, ServerThread, VirtualClock

pytestmark = pytest.mark.anyio


class Cup(Resource, group="shop.example.com", version="v1", scope="Cluster"):
    """A cup."""

    size: int = 0


def cup(name: str) -> Cup:
    return Cup(metadata=ObjectMeta(name=name))


class Log:
    """What happened, in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    async def started(self, client: Client) -> None:
        await client.create(cup("first"))
        self.lines.append("on_start")

    async def stopped(self, client: Client) -> None:
        names = [one.metadata.name async for one in client.list(Cup)]
        self.lines.append(f"on_stop {' '.join(names)}")


class Counting:
    """A controller that makes a cup, waits until it is cancelled, and makes another then."""

    def __init__(self, log: Log) -> None:
        self.log = log

    async def run(self, client: Client, clock: TimerClock) -> None:
        self.log.lines.append("run")
        await client.create(cup("second"))
        try:
            await clock.sleep(1_000_000)
        finally:
            await client.create(cup("third"))
            self.log.lines.append("cancelled")


class Failing:
    """A controller that fails each time."""

    def __init__(self, error: type[BaseException] = ValueError) -> None:
        self.error = error
        self.runs: list[float] = []

    async def run(self, client: Client, clock: TimerClock) -> None:
        self.runs.append(clock.monotonic())
        raise self.error("again")


class Deaf:
    """A controller that doesn't end when it is cancelled."""

    async def run(self, client: Client, clock: TimerClock) -> None:
        while True:
            try:
                await clock.sleep(1_000_000)
            except asyncio.CancelledError:
                if clock.monotonic() > STOP_S:
                    raise


ORDER = ["on_start", "run", "cancelled", "on_stop first second third"]


async def test_the_order_is_on_start_controllers_on_stop() -> None:
    log = Log()
    server = APIServer(serve=[Cup], controllers=[Counting(log)], on_start=log.started, on_stop=log.stopped)
    async with InMemory(server) as api:
        assert log.lines == ["on_start"]
        while log.lines != ORDER[:2]:  # noqa: ASYNC110 it is given its turns
            await asyncio.sleep(0)
        answer = await api.get("/readyz", verbose="1")
        assert answer.status == 200
        assert (await api.get("/readyz/poststarthook/start-oarlock-on-start")).status == 200
    assert log.lines == ORDER


def test_a_server_on_a_port_does_the_same() -> None:
    log = Log()
    server = APIServer(serve=[Cup], controllers=[Counting(log)], on_start=log.started, on_stop=log.stopped)

    async def count(running: ServerThread) -> None:
        async with connect(running.kubeconfig) as client:
            while len([one async for one in client.list(Cup)]) < 2:  # noqa: ASYNC110 another thread makes them
                await asyncio.sleep(0.01)

    with ServerThread(server) as running:
        asyncio.run(count(running))
    assert log.lines == ORDER


async def test_a_server_is_ready_when_on_start_has_ended() -> None:
    go_on = asyncio.Event()

    async def wait(client: Client) -> None:
        await go_on.wait()

    api = InMemory(APIServer(serve=[Cup], on_start=wait))
    starting = asyncio.create_task(api.__aenter__())
    while (await api.get("/apis/shop.example.com/v1/cups")).status != 200:  # noqa: ASYNC110 it is given its turns
        await asyncio.sleep(0)
    assert (await api.get("/readyz")).status == 500
    go_on.set()
    await starting
    assert (await api.get("/readyz")).status == 200
    await api.__aexit__(None, None, None)


async def test_an_on_start_that_raises_ends_the_start_and_leaves_nothing_open() -> None:
    log = Log()

    def fail(client: Client) -> None:
        raise LookupError("no cups")

    server = APIServer(serve=[Cup], on_start=fail, on_stop=log.stopped, controllers=[Counting(log)])
    with pytest.raises(LookupError, match="no cups"):
        async with InMemory(server):
            pass
    assert log.lines == []


async def test_an_on_start_that_goes_on_and_on_is_told_where_that_belongs() -> None:
    clock, begun = VirtualClock(), asyncio.Event()

    async def forever(client: Client) -> None:
        begun.set()
        await asyncio.Event().wait()

    starting = asyncio.create_task(InMemory(APIServer(serve=[Cup], on_start=forever), clock=clock).__aenter__())
    await begun.wait()
    await clock.run(START_S)
    with pytest.raises(StartTookTooLong, match="controllers="):
        await starting


@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError])
async def test_a_controller_that_fails_is_logged_and_runs_again_later_each_time(
    error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    clock, failing = VirtualClock(), Failing(error)
    async with InMemory(APIServer(serve=[Cup], controllers=[failing]), clock=clock) as api:
        await clock.run(200)
        assert failing.runs == [0, 1, 3, 7, 15, 31, 63, 63 + AGAIN.longest_s, 63 + 2 * AGAIN.longest_s]
        assert (await api.get("/readyz")).status == 200
    assert "Failing" in caplog.text


async def test_a_controller_that_does_not_end_holds_nothing_up(caplog: pytest.LogCaptureFixture) -> None:
    clock, log = VirtualClock(), Log()
    api = InMemory(APIServer(serve=[Cup], controllers=[Deaf()], on_stop=log.stopped), clock=clock)
    async with api:
        await clock.run(1)
        leaving = asyncio.create_task(api._running.close())
        await clock.run(STOP_S + 1)
        await leaving
    assert "has not stopped within 10 s: Deaf" in caplog.text
    for task in asyncio.all_tasks():
        if task.get_name() == "controller: Deaf":
            task.cancel()


async def test_an_on_stop_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail(client: Client) -> None:
        raise LookupError("no cups")

    async with InMemory(APIServer(serve=[Cup], on_stop=fail)):
        pass
    assert "on_stop failed" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"controllers": [Failing]}, r"write Failing\(\)"),
        ({"controllers": [Log()]}, "async def run"),
        ({"controllers": Failing()}, "isn't a list"),
        ({"on_start": 3}, "on_start=3 can't be called"),
    ],
)
def test_a_mistake_is_told_when_the_server_is_made(arguments: dict[str, Any], why: str) -> None:
    with pytest.raises(DeclarationError, match=why):
        APIServer(serve=[Cup], **arguments)


async def test_code_in_the_server_is_not_turned_away_when_there_are_too_many_requests() -> None:
    async with InMemory(APIServer(serve=[Cup])) as api, api.client() as client:
        api.parts.fairness.in_flight.mutating_limit = api.parts.fairness.in_flight.mutating = 1
        api.parts.fairness.in_flight.read_only_limit = api.parts.fairness.in_flight.read_only = 1
        api.parts.filters.unsent.limit = 0
        assert (await api.get("/apis/shop.example.com/v1/cups")).status == 429
        await client.create(cup("a"))
        assert [one.metadata.name async for one in client.list(Cup)] == ["a"]
        assert (api.parts.fairness.in_flight.mutating, api.parts.fairness.in_flight.read_only) == (1, 1)
