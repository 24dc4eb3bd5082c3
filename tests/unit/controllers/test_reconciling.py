"""A controller is called for what exists and what changes; nothing that it does ends it."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from fleet import GROUP, Boat, Flag, Ship, fleet, ship

from oarlock import ObjectMeta
from oarlock.controllers import (
    Controller,
    ControllerGroup,
    ControllerNotRunning,
    ObjectKey,
    Result,
    TerminalError,
    Watched,
    generation_changed,
    set_controller_reference,
)
from oarlock.testing import VirtualClock

pytestmark = pytest.mark.anyio


class Seen(Controller[Ship]):
    """Notes what it is called for."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    async def reconcile(self, key: ObjectKey) -> Result | None:
        self.keys.append(str(key))
        return None


async def test_it_is_called_for_what_exists_and_for_each_change() -> None:
    clock, ships = VirtualClock(), Seen()
    async with fleet(clock) as client:
        await client.create(ship("a"))
        async with ControllerGroup([ships]).running(client, clock) as run:
            await run.idle()
            assert ships.keys == ["sea/a"]
            await client.create(ship("b"))
            await clock.run(1)
            await client.delete(Ship, "a", namespace="sea")
            await clock.run(1)
            assert ships.keys == ["sea/a", "sea/b", "sea/a"]


async def test_what_it_owns_and_watches_calls_it() -> None:
    class Fleet(Seen, owns=[Boat], watches=[Watched(Flag, to="_ships_under")]):
        def _ships_under(self, flag: Flag) -> list[ObjectKey]:
            name = flag.metadata.name
            return [ObjectKey("sea", one.metadata.name) for one in self.informer if one.spec.flag == name]

    clock, ships = VirtualClock(), Fleet()
    async with fleet(clock) as client:
        owner = await client.create(ship("a", flag="red"))
        await client.create(ship("b"))
        async with ControllerGroup([ships]).running(client, clock) as run:
            await run.idle()
            ships.keys.clear()
            boat = Boat(metadata=ObjectMeta(name="boat", namespace="sea"))
            await client.create(set_controller_reference(owner, boat))
            await clock.run(1)
            assert ships.keys == ["sea/a"]
            await client.create(Flag(metadata=ObjectMeta(name="red")))
            await clock.run(1)
            assert ships.keys == ["sea/a", "sea/a"]
            assert ships.informers[Boat].get("boat", "sea") is not None
            with pytest.raises(KeyError, match=r"name it in owns=\[…\] or watches=\[…\]; there is: Ship, Boat, Flag"):
                ships.informers[str]


async def test_a_predicate_says_which_changes_count_and_trees_are_reconciled_too() -> None:
    class Trees(Controller[dict[str, Any]], of=f"{GROUP}/v1/Ship", when=generation_changed):
        calls = 0

        async def reconcile(self, key: ObjectKey) -> Result | None:
            self.calls += 1
            found = self.informer.get(key.name, key.namespace)
            assert found is not None
            assert found["kind"] == "Ship"
            return None

    clock, trees = VirtualClock(), Trees()
    async with fleet(clock) as client:
        await client.create(ship("a"))
        async with ControllerGroup([trees]).running(client, clock) as run:
            await run.idle()
            await client.patch(Ship, "a", {"metadata": {"labels": {"x": "y"}}}, namespace="sea")
            await clock.run(1)
            assert trees.calls == 1
            await client.patch(Ship, "a", {"spec": {"boats": 3}}, namespace="sea")
            await clock.run(1)
            assert trees.calls == 2


class Failing(Controller[Ship], timeout_s=30, concurrency=2):
    """Does what its `plan` says, one step a call; then succeeds."""

    def __init__(self, *plan: Any) -> None:
        self.plan = list(plan)
        self.times: list[float] = []
        self.clock = VirtualClock()

    async def reconcile(self, key: ObjectKey) -> Result | None:
        self.times.append(self.clock.monotonic())
        step = self.plan.pop(0) if self.plan else None
        if isinstance(step, BaseException):
            raise step
        if step == "hang":
            await asyncio.get_running_loop().create_future()
        if step == "cancel itself":
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)
        if step == "hang on":
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                await asyncio.get_running_loop().create_future()
        return step


async def reconciled(controller: Failing, seconds: float) -> Any:
    async with fleet(controller.clock) as client:
        await client.create(ship("a"))
        async with ControllerGroup([controller]).running(client, controller.clock) as run:
            await run.synced()
            await controller.clock.run(seconds)
            await run.idle()
            [numbers] = run.numbers()
            return numbers


@pytest.mark.parametrize(
    "failure", [ValueError("no"), asyncio.CancelledError(), SystemExit(3), "nonsense", "cancel itself"]
)
async def test_a_reconcile_that_fails_is_called_again_after_a_back_off(
    failure: Any, caplog: pytest.LogCaptureFixture
) -> None:
    controller = Failing(failure, failure, failure)
    numbers = await reconciled(controller, 1)
    waits = [round(b - a, 4) for a, b in zip(controller.times, controller.times[1:], strict=False)]
    assert waits == [0.005, 0.01, 0.02]
    assert numbers.results == {"error": 3, "success": 1}
    assert numbers.queue.retries == 3
    assert "reconcile of sea/a failed, again in 0.005 s" in caplog.text


async def test_a_reconcile_that_hangs_is_cancelled_at_its_timeout(caplog: pytest.LogCaptureFixture) -> None:
    controller = Failing("hang", "hang on")
    numbers = await reconciled(controller, 120)
    assert [round(one, 3) for one in controller.times] == [0, 30.005, 90.015]
    assert (numbers.timeouts, numbers.results) == (2, {"error": 2, "success": 1})
    assert "reconcile of sea/a was cancelled after 30 s" in caplog.text


async def test_a_terminal_error_is_not_tried_again() -> None:
    controller = Failing(TerminalError("never"))
    numbers = await reconciled(controller, 2000)
    assert len(controller.times) == 1
    assert (numbers.terminal_errors, numbers.results) == (1, {"error": 1})


async def test_a_result_says_when_it_wants_to_be_called_again() -> None:
    controller = Failing(Result(60), Result(requeue_after_s=600))
    await reconciled(controller, 1000)
    assert controller.times == [0, 60, 660]


async def test_everything_is_reconciled_again_after_the_resync_time() -> None:
    class Again(Failing, resync_s=100):
        pass

    controller = Again()
    await reconciled(controller, 450)
    assert len(controller.times) in (5, 6)


async def test_stopping_lets_a_reconcile_end_and_cancels_what_takes_longer(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock = VirtualClock()
    ends: list[str] = []

    class Slow(Controller[Ship], concurrency=2):
        async def reconcile(self, key: ObjectKey) -> Result | None:
            try:
                await clock.sleep(2 if key.name == "short" else 1000)
                ends.append(f"{key.name} ended")
            except asyncio.CancelledError:
                ends.append(f"{key.name} was cancelled")
                raise
            return None

    async with fleet(clock) as client:
        for name in ("short", "long", "waits"):
            await client.create(ship(name))
        slow = Slow()
        with pytest.raises(ControllerNotRunning, match="Slow doesn't run: list it in"):
            slow.client.list(Ship)
        running = asyncio.create_task(ControllerGroup([slow], grace_s=5).run(client, clock))
        await clock.run(0)
        with pytest.raises(RuntimeError, match="Slow runs already"):
            await ControllerGroup([slow]).run(client, clock)
        running.cancel()
        await clock.run(6)
        await asyncio.wait((running,))
        assert ends == ["short ended", "long was cancelled"]
        assert "1 reconciles have not ended within 5 s, and are cancelled" in caplog.text


async def test_a_finalizer_is_put_on_before_work_and_taken_off_after_it() -> None:
    events: list[str] = []

    class Docked(Controller[Ship], finalizer="fleet.example.com/dock"):
        failures = 1

        async def reconcile(self, key: ObjectKey) -> Result | None:
            tree = await self.client.get(Ship, key.name, namespace=key.namespace)
            events.append(f"reconcile with {tree.metadata.finalizers}")
            return None

        async def finalize(self, obj: Ship) -> Result | None:
            events.append(f"finalize {obj.metadata.name}")
            if self.failures:
                self.failures -= 1
                raise ValueError("not yet")
            return None

    clock = VirtualClock()
    async with fleet(clock) as client, ControllerGroup([Docked()]).running(client, clock) as run:
        await client.create(ship("a"))
        await clock.run(1)
        await client.patch(
            Ship, "a", {"metadata": {"finalizers": ["fleet.example.com/dock", "x.example.com/y"]}}, namespace="sea"
        )
        await client.delete(Ship, "a", namespace="sea")
        await clock.run(1)
        await run.idle()
        left = await client.get(Ship, "a", namespace="sea")
        assert left.metadata.finalizers == ["x.example.com/y"]
        assert events[0] == "reconcile with ['fleet.example.com/dock']"
        assert events[-2:] == ["finalize a", "finalize a"]
        assert events.count("finalize a") == 2
