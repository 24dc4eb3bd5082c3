"""A future that several wait for: cancelling one waiter leaves the others, and nobody's failure is logged."""

from __future__ import annotations

import asyncio
import gc
import logging

import pytest

from oarlock.net.futures import shared


async def wait(future: asyncio.Future[str]) -> str:
    return await shared(future)


def test_all_who_wait_get_the_result() -> None:
    async def scenario() -> None:
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        waiters = [asyncio.create_task(wait(future)) for _ in range(3)]
        await asyncio.sleep(0)
        future.set_result("done")
        assert await asyncio.gather(*waiters, wait(future)) == ["done"] * 4

    asyncio.run(scenario())


def test_all_who_wait_get_the_failure() -> None:
    async def scenario() -> None:
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        waiters = [asyncio.create_task(wait(future)) for _ in range(2)]
        await asyncio.sleep(0)
        future.set_exception(ValueError("away"))
        assert [str(error) for error in await asyncio.gather(*waiters, return_exceptions=True)] == ["away", "away"]

    asyncio.run(scenario())


def test_a_cancelled_waiter_leaves_the_others() -> None:
    async def scenario() -> None:
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        first, second = asyncio.create_task(wait(future)), asyncio.create_task(wait(future))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        assert first.cancelled()
        assert not future.cancelled()
        future.set_result("done")
        assert await second == "done"

    asyncio.run(scenario())


def test_cancelling_the_future_cancels_those_who_wait() -> None:
    async def scenario() -> None:
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        waiter = asyncio.create_task(wait(future))
        await asyncio.sleep(0)
        future.cancel()
        await asyncio.wait([waiter])
        assert waiter.cancelled()

    asyncio.run(scenario())


def test_a_failure_is_not_logged_when_everyone_has_given_up(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        waiter = asyncio.create_task(wait(future))
        await asyncio.sleep(0)
        waiter.cancel()
        await asyncio.wait([waiter])
        with caplog.at_level(logging.ERROR):
            future.set_exception(ValueError("away"))
            await asyncio.sleep(0)
            del future, waiter
            gc.collect()
            await asyncio.sleep(0)
        assert caplog.messages == []

    asyncio.run(scenario())
