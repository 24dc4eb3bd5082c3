"""A handler runs without a task until it waits, and in one, complete, from there on."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from oarlock.registry.workers import ensure_task
from oarlock.server.serving.eager import run_eagerly

Main = Callable[[asyncio.AbstractEventLoop], Coroutine[Any, Any, Any]]
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(params=sorted(LOOPS))
def outside(request: pytest.FixtureRequest) -> Any:
    """`outside(handler)`: drive from a callback, as a protocol does; the result or the exception."""
    loop = LOOPS[request.param]()

    def run(handler: Main, after: Callable[[Any], None] | None = None) -> Any:
        result = loop.create_future()

        def callback() -> None:
            try:
                outcome = run_eagerly(handler(loop), loop)
            except BaseException as error:
                result.set_result(("raised at once", error))
                return
            if isinstance(outcome, asyncio.Task):
                if after is not None:
                    after(outcome)
                outcome.add_done_callback(
                    lambda task: result.set_result(
                        ("cancelled", None)
                        if task.cancelled()
                        else ("raised", task.exception())
                        if task.exception()
                        else ("later", task.result())
                    )
                )
            else:
                result.set_result(("at once", outcome))

        loop.call_soon(callback)
        return loop.run_until_complete(asyncio.wait_for(result, 60))

    yield run
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


def test_a_handler_that_does_not_wait_needs_no_task(outside: Any) -> None:
    async def handler(_: Any) -> tuple[str, Any]:
        return "done", asyncio.current_task()

    assert outside(handler) == ("at once", ("done", None))


def test_what_is_raised_in_the_first_step_is_raised_at_once(outside: Any) -> None:
    async def handler(_: Any) -> None:
        raise KeyError("x")

    how, error = outside(handler)
    assert how == "raised at once"
    assert isinstance(error, KeyError)


def test_an_awaitable_that_is_no_coroutine_is_driven_too(outside: Any) -> None:
    class Odd:
        def __await__(self) -> Any:
            yield from asyncio.sleep(0).__await__()
            return "odd"

    assert outside(lambda _: Odd()) == ("later", "odd")


def test_a_future_is_waited_for_in_a_task(outside: Any) -> None:
    async def handler(loop: asyncio.AbstractEventLoop) -> tuple[str, bool]:
        future = loop.create_future()
        loop.call_later(0.001, future.set_result, "late")
        value = await future
        return value, asyncio.current_task() is not None

    assert outside(handler) == ("later", ("late", True))


def test_a_future_that_is_done_before_the_task_begins(outside: Any) -> None:
    async def handler(loop: asyncio.AbstractEventLoop) -> str:
        future = loop.create_future()
        loop.call_soon(future.set_result, "early")
        return await future

    assert outside(handler) == ("later", "early")


def test_sleep_of_nothing_and_many_waits(outside: Any) -> None:
    async def handler(loop: asyncio.AbstractEventLoop) -> int:
        total = 0
        for n in range(5):
            await asyncio.sleep(0)
            await asyncio.sleep(0.0001)
            total += n
        return total

    assert outside(handler) == ("later", 10)


def test_two_handlers_may_wait_for_the_same_future() -> None:
    async def main() -> list[Any]:
        loop = asyncio.get_running_loop()
        shared = loop.create_future()

        async def handler() -> Any:
            return await shared

        tasks: list[Any] = []
        loop.call_soon(lambda: tasks.extend(run_eagerly(handler(), loop) for _ in range(3)))
        loop.call_later(0.002, shared.set_result, 7)
        await shared
        return await asyncio.gather(*tasks)

    for new_loop in LOOPS.values():
        loop = new_loop()
        try:
            assert loop.run_until_complete(main()) == [7, 7, 7]
        finally:
            loop.close()


def test_an_exception_of_the_first_awaited_future_arrives_where_it_is_awaited(outside: Any) -> None:
    async def handler(loop: asyncio.AbstractEventLoop) -> str:
        future = loop.create_future()
        loop.call_later(0.001, future.set_exception, ValueError("no"))
        try:
            await future
        except ValueError as error:
            await asyncio.sleep(0)
            return str(error)
        return "?"

    assert outside(handler) == ("later", "no")


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_a_cancelled_task_ends_its_handler_properly(outside: Any, turns: int) -> None:
    seen: list[str] = []

    async def handler(loop: asyncio.AbstractEventLoop) -> None:
        try:
            await loop.create_future()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        finally:
            seen.append("finally")

    def cancel(task: asyncio.Task[Any]) -> None:
        def later(left: int) -> None:
            if left:
                task.get_loop().call_soon(later, left - 1)
            else:
                task.cancel()

        later(turns)

    assert outside(handler, cancel) == ("cancelled", None)
    assert seen == ["cancelled", "finally"]


def test_a_handler_may_survive_its_cancellation_and_wait_again(outside: Any) -> None:
    async def handler(loop: asyncio.AbstractEventLoop) -> str:
        for _ in range(2):
            try:
                await asyncio.sleep(0.0001 if _ else 30)
            except asyncio.CancelledError:
                await asyncio.sleep(0)
        return "survived"

    assert outside(handler, lambda task: task.cancel()) == ("later", "survived")


def test_timeouts_and_groups_work_after_in_task(outside: Any) -> None:
    async def handler(loop: asyncio.AbstractEventLoop) -> list[Any]:
        await ensure_task()
        before = asyncio.current_task()
        await ensure_task()
        seen: list[Any] = []
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(0))
        try:
            async with asyncio.timeout(0.001):
                await asyncio.sleep(30)
        except TimeoutError:
            seen.append("timeout")
        seen.append(asyncio.current_task() is before)
        return seen

    assert outside(handler) == ("later", ["timeout", True])


def test_a_variable_set_before_the_first_wait_can_be_reset_after_it_and_does_not_leak(outside: Any) -> None:
    variable = contextvars.ContextVar("variable", default="outside")

    async def handler(_: Any) -> str:
        token = variable.set("inside")
        await asyncio.sleep(0)
        value = variable.get()
        variable.reset(token)
        return value

    assert outside(handler) == ("later", "inside")
    assert variable.get() == "outside"


def test_something_strange_awaited_is_the_handlers_error(outside: Any) -> None:
    class Strange:
        def __await__(self) -> Any:
            yield "strange"

    async def handler(_: Any) -> None:
        await Strange()

    how, error = outside(handler)
    assert how == "raised"
    assert isinstance(error, RuntimeError)


def test_inside_a_task_it_makes_an_ordinary_task() -> None:
    async def handler() -> Any:
        return asyncio.current_task()

    async def main() -> None:
        outcome = run_eagerly(handler(), asyncio.get_running_loop())
        assert isinstance(outcome, asyncio.Task)
        assert await outcome is outcome

    asyncio.run(main())
