"""A request that waits too long is answered 504; one that doesn't wait costs neither timer nor task."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from oarlock.endpoints.http import Response
from oarlock.server.serving.eager import run_eagerly

pytestmark = pytest.mark.anyio


async def test_a_request_that_never_waits_is_finished_in_one_step(chain: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    made: list[str] = []
    coroutine = chain.send()
    with monkeypatch.context() as watched:
        for maker in ("call_later", "call_at", "call_soon", "create_task", "create_future"):
            watched.setattr(loop, maker, lambda *a, maker=maker, **k: made.append(maker))
        with pytest.raises(StopIteration) as done:
            coroutine.send(None)
    assert done.value.value.status == 200
    assert made == []


async def test_the_answer_of_a_request_that_waits_is_its_own(chain: Any) -> None:
    future = asyncio.get_running_loop().create_future()

    async def wait(x: Any) -> Response:
        await asyncio.sleep(0)
        answer = await future
        await asyncio.sleep(0)
        return Response(201, [], answer)

    chain.dispatch = wait
    asyncio.get_running_loop().call_soon(future.set_result, b"done")
    response = await chain.send()
    assert (response.status, response.body) == (201, b"done")


async def test_too_late_is_504_and_what_was_waited_for_is_cancelled(chain: Any, header: Any) -> None:
    future = asyncio.get_running_loop().create_future()
    cleaned: list[str] = []

    async def forever(x: Any) -> Response:
        try:
            return await future  # type: ignore[no-any-return]
        finally:
            await asyncio.sleep(0)
            cleaned.append("up")

    chain.dispatch = forever
    chain.config["request_timeout_s"] = 0.001
    response = await chain.send()
    assert response.status == 504
    assert json.loads(response.body) == {
        "metadata": {},
        "status": "Failure",
        "message": "Timeout: request did not complete within the allotted timeout",
        "reason": "Timeout",
        "details": {},
        "code": 504,
    }
    assert header(response, "content-type") == "text/plain; charset=utf-8"
    assert header(response, "audit-id")
    assert future.cancelled()
    assert cleaned == ["up"]


async def test_a_request_that_finishes_in_spite_of_its_deadline_is_answered(chain: Any) -> None:
    async def stubborn(x: Any) -> Response:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        return Response(200, [], b"after all")

    chain.dispatch = stubborn
    chain.config["request_timeout_s"] = 0.001
    assert (await chain.send()).body == b"after all"


async def test_errors_after_waiting_are_answered_as_ever(chain: Any) -> None:
    async def fail(x: Any) -> Response:
        await asyncio.sleep(0)
        raise ZeroDivisionError

    chain.dispatch = fail
    assert (await chain.send()).status == 500


async def test_the_client_going_away_cancels_what_waits(chain: Any) -> None:
    future = asyncio.get_running_loop().create_future()

    async def forever(x: Any) -> Response:
        return await future  # type: ignore[no-any-return]

    chain.dispatch = forever
    task = asyncio.ensure_future(chain.send())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert future.cancelled()


async def test_it_works_for_requests_that_serving_drives(chain: Any) -> None:
    future = asyncio.get_running_loop().create_future()

    async def wait(x: Any) -> Response:
        await future
        async with asyncio.timeout(1):  # needs a task, and finds the one that was made when it waited
            await asyncio.sleep(0)
        return Response(200, [])

    chain.dispatch = wait
    loop = asyncio.get_running_loop()
    finished: asyncio.Future[int] = loop.create_future()

    def serve() -> None:
        task = run_eagerly(chain.send(), loop)
        assert isinstance(task, asyncio.Task)
        task.add_done_callback(lambda t: finished.set_result(t.result().status))
        loop.call_soon(future.set_result, None)

    loop.call_soon(serve)
    assert await finished == 200


@pytest.mark.parametrize(
    ("query", "allowed"),
    [
        ("", 60.0),
        ("timeout=5s", 5.0),
        ("timeout=1m0.5s", 60.0),
        ("timeout=0s", 60.0),
        ("timeout=0", 60.0),
        ("timeout=-3s", 60.0),
        ("timeout=2h", 60.0),
        ("timeout=", 60.0),
        ("timeoutSeconds=5", 60.0),
        ("pretty=1&timeout=250ms", 0.25),
    ],
)
async def test_the_client_may_ask_for_less_time(chain: Any, query: str, allowed: float) -> None:
    seen: list[float] = []

    async def look(x: Any) -> Response:
        seen.append(x.deadline)
        return Response(200, [])

    chain.dispatch = look
    assert (await chain.send(f"/apis?{query}")).status == 200
    assert seen == [chain.clock.ticks + allowed]


@pytest.mark.parametrize("value", ["x", "5", "1d", "%00", "5s,5s"])
async def test_a_timeout_that_is_no_duration_is_400(chain: Any, value: str) -> None:
    response = await chain.send(f"/apis?timeout={value}", token=None)
    assert response.status == 400
    assert "invalid timeout specified in the request URL - time: " in json.loads(response.body)["message"]


async def test_a_watch_has_no_deadline_and_its_timeout_is_not_read(chain: Any) -> None:
    seen: list[float] = []

    async def look(x: Any) -> Response:
        seen.append(x.deadline)
        return Response(200, [])

    chain.dispatch = look
    assert (await chain.send("/apis/g/v1/things?watch=1&timeout=x")).status == 200
    assert seen == [float("inf")]
