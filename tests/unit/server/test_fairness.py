"""Priority and fairness in the filter chain: who waits, for how long, and what frees a seat."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from oarlock.endpoints.http import Response
from oarlock.meta.errors import NotFound
from oarlock.meta.kinds import GroupResource
from oarlock.policy.fairness import builtin
from oarlock.policy.fairness.engine import Fairness
from oarlock.policy.fairness.level import PriorityLevel
from oarlock.server.fairness.feed import FairnessPages
from oarlock.server.filters.fairness import FairnessFilter
from oarlock.testing.clock import VirtualClock

pytestmark = pytest.mark.anyio

FLUNDER = "/apis/wardle.example.com/v1alpha1/namespaces/default/flunders/a"


class TickingClock(VirtualClock):
    """As the chain of the tests wants it."""

    @property
    def ticks(self) -> float:
        return self.monotonic()


def level(name: str, shares: int, **limited: Any) -> dict[str, Any]:
    queuing = {"queues": 4, "handSize": 1, "queueLengthLimit": 2}
    limits = {"nominalConcurrencyShares": shares, "limitResponse": {"type": "Queue", "queuing": queuing}, **limited}
    return {"metadata": {"name": name, "uid": f"uid-of-{name}"}, "spec": {"type": "Limited", "limited": limits}}


def schema(name: str, level: str, precedence: int = 500) -> dict[str, Any]:
    rule = builtin.MANDATORY_SCHEMAS[1]["spec"]["rules"]
    spec = {"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence, "rules": rule}
    return {"metadata": {"name": name, "uid": f"uid-of-{name}"}, "spec": spec}


@pytest.fixture
def clock() -> TickingClock:
    return TickingClock()


@pytest.fixture
def fair(chain: Any, clock: TickingClock) -> FairnessFilter:
    """One level with one seat, for everybody but administrators."""
    fairness = Fairness(2, clock.monotonic)
    fairness.configure([level("one", 5)], [schema("everybody", "one")])
    chain.clock = clock
    made = chain.config["max_in_flight"] = FairnessFilter(fairness, clock, lambda group, resource: None)
    return made


def one(fair: FairnessFilter) -> PriorityLevel:
    found = fair.fairness.levels["one"]
    assert found.limit == 1
    return found


async def occupy(chain: Any, fair: FairnessFilter) -> asyncio.Task[Response]:
    """A request that is carried out for ever, on the only seat."""

    async def serve(x: Any) -> Response:
        if "forever" in x.request.query:
            await asyncio.Event().wait()
        return Response(200, [])

    chain.dispatch = serve
    task = asyncio.create_task(chain.begin(FLUNDER + "?forever", token="alice-token"))
    await settle()
    assert one(fair).seats_in_use == 1
    return task


async def end(task: asyncio.Task[Response]) -> None:
    task.cancel()
    await asyncio.wait([task])


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_request_that_finds_a_seat_needs_no_task(chain: Any, fair: FairnessFilter, header: Any) -> None:
    step = chain.begin(FLUNDER, token="alice-token")
    with pytest.raises(StopIteration) as done:
        step.send(None)
    response: Response = done.value.value
    assert header(response, "x-kubernetes-pf-flowschema-uid") == "uid-of-everybody"
    assert header(response, "x-kubernetes-pf-prioritylevel-uid") == "uid-of-one"
    assert one(fair).seats_in_use == 1
    response.sent(True)
    assert one(fair).is_idle


@pytest.mark.parametrize("whole", [True, False])
async def test_a_request_waits_until_another_answer_was_sent_or_cut(
    chain: Any, fair: FairnessFilter, whole: bool
) -> None:
    first = await chain.begin(FLUNDER, token="alice-token")
    second = asyncio.create_task(chain.begin(FLUNDER, token="alice-token"))
    await settle()
    assert not second.done()
    assert (one(fair).waiting, fair.read_only) == (1, 1)
    first.sent(whole)
    response = await second
    assert response.status == 200
    assert (one(fair).waiting, one(fair).seats_in_use) == (0, 1)
    response.sent(True)
    assert one(fair).is_idle


async def test_administrators_never_wait(chain: Any, fair: FairnessFilter) -> None:
    await chain.begin(FLUNDER, token="alice-token")
    for _ in range(20):
        assert (await chain.begin(FLUNDER)).status == 200


async def test_who_waits_for_too_long_is_told_to_come_again(
    chain: Any, fair: FairnessFilter, clock: TickingClock, header: Any
) -> None:
    """A quarter of the time that the request has: 60 s."""
    busy = await occupy(chain, fair)
    waits = asyncio.create_task(chain.begin(FLUNDER, token="alice-token"))
    await clock.run(14.9)
    assert not waits.done()
    await clock.run(0.2)
    response = await waits
    assert response.status == 429
    assert response.body == b"Too many requests, please try again later.\n"
    assert header(response, "retry-after") == "1"
    assert header(response, "x-kubernetes-pf-flowschema-uid") == "uid-of-everybody"
    assert one(fair).waiting == 0
    assert one(fair).counts["everybody"].refused == {"time-out": 1}
    await end(busy)


async def test_a_shorter_timeout_is_a_shorter_wait(chain: Any, fair: FairnessFilter, clock: TickingClock) -> None:
    busy = await occupy(chain, fair)
    waits = asyncio.create_task(chain.begin(FLUNDER + "?timeout=8s", token="alice-token"))
    await clock.run(1.9)
    assert not waits.done()
    await clock.run(0.2)
    assert (await waits).status == 429
    await end(busy)


async def test_a_client_that_takes_its_answer_slowly_keeps_no_seat_that_somebody_waits_for(
    chain: Any, fair: FairnessFilter, clock: TickingClock
) -> None:
    slow = await chain.begin(FLUNDER, token="alice-token")
    await clock.run(10.0)
    assert one(fair).seats_in_use == 1
    waits = asyncio.create_task(chain.begin(FLUNDER, token="alice-token"))
    await clock.run(0.04)
    assert not waits.done()
    await clock.run(0.07)
    assert (await waits).status == 200
    slow.sent(False)
    assert one(fair).seats_in_use == 1


async def test_a_full_queue_is_429(chain: Any, fair: FairnessFilter) -> None:
    await chain.begin(FLUNDER, token="alice-token")
    waiting = [asyncio.create_task(chain.begin(FLUNDER, token="alice-token")) for _ in range(2)]
    await settle()
    assert (await chain.begin(FLUNDER, token="alice-token")).status == 429
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    assert one(fair).waiting == 0


async def test_a_client_that_leaves_gives_up_its_place(chain: Any, fair: FairnessFilter) -> None:
    first = await chain.begin(FLUNDER, token="alice-token")
    leaves, stays = (asyncio.create_task(chain.begin(FLUNDER, token="alice-token")) for _ in range(2))
    await settle()
    leaves.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaves
    assert one(fair).waiting == 1
    first.sent(True)
    assert (await stays).status == 200


async def test_a_client_that_leaves_when_its_turn_has_come_frees_the_seat(chain: Any, fair: FairnessFilter) -> None:
    first = await chain.begin(FLUNDER, token="alice-token")
    leaves, stays = (asyncio.create_task(chain.begin(FLUNDER, token="alice-token")) for _ in range(2))
    await settle()
    first.sent(True)  # `leaves` has the seat, but didn't run yet
    leaves.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaves
    assert (await stays).status == 200


async def test_a_client_that_leaves_while_it_is_served_frees_the_seat(chain: Any, fair: FairnessFilter) -> None:
    async def slow(x: Any) -> Response:
        await asyncio.Event().wait()
        raise AssertionError

    chain.dispatch = slow
    task = asyncio.create_task(chain.begin(FLUNDER, token="alice-token"))
    await settle()
    assert one(fair).seats_in_use == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert one(fair).is_idle


async def test_a_bug_frees_the_seat(chain: Any, fair: FairnessFilter) -> None:
    async def broken(x: Any) -> Response:
        raise ZeroDivisionError("oops")

    chain.dispatch = broken
    assert (await chain.begin(FLUNDER, token="alice-token")).status == 500
    assert one(fair).is_idle


async def test_an_error_says_who_classified_it_too(chain: Any, fair: FairnessFilter, header: Any) -> None:
    async def missing(x: Any) -> Response:
        raise NotFound(GroupResource("wardle.example.com", "flunders"), "a")

    chain.dispatch = missing
    response = await chain.begin(FLUNDER, token="alice-token")
    assert response.status == 404
    assert header(response, "x-kubernetes-pf-prioritylevel-uid") == "uid-of-one"
    assert one(fair).seats_in_use == 1
    response.sent(True)
    assert one(fair).is_idle


async def test_a_watch_takes_a_seat_until_it_begins_and_counts_for_writes(chain: Any, fair: FairnessFilter) -> None:
    async def watch(x: Any) -> Response:
        assert one(fair).seats_in_use == 1
        return Response(200, [], stream=lambda stream: None)

    dispatched: Callable[[Any], Awaitable[Response]] = watch
    chain.dispatch = lambda x: dispatched(x)
    watches = [
        await chain.begin("/apis/wardle.example.com/v1alpha1/flunders?watch=1", token="alice-token") for _ in range(30)
    ]
    assert one(fair).is_idle
    estimates: list[tuple[int, int, float]] = []

    async def write(x: Any) -> Response:
        (ticket,) = one(fair).tickets
        estimates.append((ticket.work.seats, ticket.work.final_seats, ticket.work.final_s))
        return Response(200, [])

    dispatched = write
    (await chain.begin(FLUNDER, method="PUT", token="alice-token")).sent(True)
    assert estimates == [(1, 1, 0.015)]
    assert one(fair).seats_in_use == 1
    for response in watches:
        response.sent(True)
    chain.clock.advance(0.015)
    one(fair).tick()
    assert one(fair).is_idle
    (await chain.begin(FLUNDER, method="PUT", token="alice-token")).sent(True)
    assert estimates[1] == (1, 0, 0.0)


async def test_seats_that_become_free_by_themselves_wake_who_waits(
    chain: Any, fair: FairnessFilter, clock: TickingClock
) -> None:
    async def watch(x: Any) -> Response:
        return Response(200, [], stream=lambda stream: None)

    async def ok(x: Any) -> Response:
        return Response(200, [])

    dispatched: Callable[[Any], Awaitable[Response]] = watch
    chain.dispatch = lambda x: dispatched(x)
    for _ in range(30):
        await chain.begin("/apis/wardle.example.com/v1alpha1/flunders?watch=1", token="alice-token")
    dispatched = ok
    (await chain.begin(FLUNDER, method="PUT", token="alice-token")).sent(True)
    waits = asyncio.create_task(chain.begin(FLUNDER, token="alice-token"))
    await settle()
    assert not waits.done()
    await clock.run(0.015)
    assert (await waits).status == 200


async def test_long_refusals_raise_the_time_to_come_again(
    chain: Any, fair: FairnessFilter, clock: TickingClock, header: Any
) -> None:
    fair.fairness.configure([level("one", 5, limitResponse={"type": "Reject"})], [schema("everybody", "one")])
    await chain.begin(FLUNDER, token="alice-token")
    told = []
    for _ in range(100):
        for _ in range(4):
            refused = await chain.begin(FLUNDER, token="alice-token")
        told.append(int(header(refused, "retry-after")))
        clock.advance(1.0)
    assert told[0] == 1
    assert max(told) == 32
    clock.advance(100.0)
    assert header(await chain.begin(FLUNDER, token="alice-token"), "retry-after") == "31"


async def test_who_asks_what_is_in_the_tables(chain: Any, fair: FairnessFilter, clock: TickingClock) -> None:
    first = await chain.begin(FLUNDER, token="alice-token")
    waits = asyncio.create_task(chain.begin(FLUNDER, token="alice-token"))
    await settle()
    pages = FairnessPages(fair.fairness, clock)
    tables = {path.rsplit("_", 1)[1]: text(pages.respond(path)) for path in pages.paths}
    lines = tables["levels"].splitlines()
    assert lines[0].split(",")[0] == "PriorityLevelName"
    rows = {row.split(",")[0]: [cell.strip() for cell in row.split(",")] for row in lines[1:]}
    assert rows["one"] == ["one", "1", "false", "false", "1", "1", "1", "0", "0", "0"]
    assert rows["catch-all"][2] == "true"
    queue = tables["queues"].splitlines()[1].split(",")
    assert [cell.strip() for cell in queue[2:5]] == ["1", "1", "1"]
    waiting, begun = ([cell.strip() for cell in row.split(",")] for row in tables["requests"].splitlines()[1:])
    assert waiting[:2] == ["one", "everybody"]
    assert (waiting[3], begun[3]) == ("0", "-1")
    assert waiting[5] == "2026-01-01T00:00:00.000000Z"
    detailed = text(pages.respond(pages.paths[2], "includeRequestDetails=1")).splitlines()
    assert [cell.strip() for cell in detailed[0].split(",")][-8:][:3] == ["UserName", "Verb", "APIPath"]
    about = ["alice", "get", FLUNDER, "default", "a", "wardle.example.com/v1alpha1", "flunders", ""]
    assert [cell.strip() for cell in detailed[1].split(",")][-8:] == about
    assert pages.respond("/debug/api_priority_and_fairness") is None
    first.sent(True)
    (await waits).sent(True)


def text(response: Response | None) -> str:
    assert response is not None
    assert isinstance(response.body, bytes)
    return response.body.decode()
