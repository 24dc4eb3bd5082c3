"""Random histories of calls, each compared with the memory store; hypothesis shrinks failures to a few steps.

Revisions are compared by their order, not as numbers, because a store may skip some.

Must not know: any particular backend. See also: `oarlock.storage.memory`, the model.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from oarlock.meta.dataclass import dataclass
from oarlock.storage.backend import KEEP_TTL, KV, Backend, Compacted, FutureRevision, Rev, StoreEvent
from oarlock.storage.memory import MemoryBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.contracts.support import END, START, Recorder, Suite, caught_up, eventually, refused
from oarlock.testing.roundtrips import missing

try:
    from hypothesis import HealthCheck, given, settings
    from hypothesis import strategies as st
except ModuleNotFoundError as error:
    raise missing("oarlock.testing.contracts.histories", error) from None


@dataclass(frozen=True, slots=True)
class HistoryStep:
    """One step of a history. `pick` chooses a revision where one is needed: 0 the newest, 1 the one before, …"""

    what: str
    key: str
    value: bytes
    pick: int
    ttl_ms: int | None


STEPS = st.lists(
    st.builds(
        HistoryStep,
        what=st.sampled_from(["put"] * 6 + ["stale put", "create", "delete", "delete", "stale delete"])
        | st.sampled_from(["list at", "get at", "compact", "wait", "watch", "reopen", "page"]),
        key=st.sampled_from(["/t/a", "/t/b", "/t/b/c", "/t/é", "/t/z"]),
        value=st.binary(max_size=8),
        pick=st.integers(0, 12),
        ttl_ms=st.sampled_from([KEEP_TTL, KEEP_TTL, None, 1000, 3000]),
    ),
    max_size=40,
)


class HistoryContract(Suite):
    """Random histories, as many as Hypothesis' profile says, against the model.

    Durable backends are closed and opened again in between.
    """

    @settings(deadline=None, suppress_health_check=[HealthCheck.differing_executors])
    @given(steps=STEPS)
    def test_random_histories_are_those_of_the_model(self, steps: list[HistoryStep]) -> None:
        async def scenario() -> None:
            with tempfile.TemporaryDirectory() as folder:
                run = _Run(self, Path(folder))
                await run.begin()
                try:
                    for step in steps:
                        await run.step(step)
                    await run.finish()
                finally:
                    await run.real.close()

        asyncio.run(scenario())


class _Run:
    """A backend and the model side by side. `revs` pairs their revisions, in order."""

    def __init__(self, suite: Suite, folder: Path) -> None:
        self.suite = suite
        self.folder = folder
        self.clock = VirtualClock()
        self.model = MemoryBackend(self.clock)
        self.real: Backend
        self.revs: list[tuple[Rev, Rev]] = []
        self.watches: list[tuple[Recorder, Recorder]] = []

    async def begin(self) -> None:
        self.real = self.suite.backend(self.folder, self.clock)
        await self.real.start()
        self.revs = [(await self.model.current_rev(), await self.real.current_rev())]

    async def step(self, step: HistoryStep) -> None:
        match step.what:
            case "put" | "stale put" | "create" | "delete" | "stale delete":
                await self.write(step)
            case "list at" | "get at" | "page":
                await self.read(step)
            case "compact":
                await self.compact(step)
            case "wait":
                self.clock.advance(step.pick / 4)
                await self.expire()
            case "watch":
                await self.watch(step)
            case _:
                await self.reopen()
        assert await self.kvs() == (await self.model.list(START, END)).kvs

    async def write(self, step: HistoryStep) -> None:
        model_kv, _ = await self.model.get(step.key)
        expect = model_kv.mod_rev if model_kv and "create" not in step.what else 0
        if "stale" in step.what:
            expect = self.pick(step)[0]
        real_expect = dict(self.revs)[expect] if expect else 0
        if "delete" in step.what:
            expected = await self.model.delete(step.key, expect=expect)
            actual = await self.real.delete(step.key, expect=real_expect)
        else:
            expected = await self.model.put(step.key, step.value, expect=expect, ttl_ms=step.ttl_ms)
            actual = await self.real.put(step.key, step.value, expect=real_expect, ttl_ms=step.ttl_ms)
        assert actual.ok == expected.ok
        assert self.as_model(actual.current) == expected.current
        if actual.ok:
            self.revs.append((expected.rev, actual.rev))

    async def read(self, step: HistoryStep) -> None:
        model_rev, real_rev = self.pick(step)
        limit = step.pick % 3 if step.what == "page" else 0
        try:
            expected = await self.model.list(START, END, rev=model_rev, limit=limit)
            model_kv, _ = await self.model.get(step.key, rev=model_rev)
        except Compacted:
            await refused(self.real.list(START, END, rev=real_rev), Compacted)
            return
        actual = await self.real.list(START, END, rev=real_rev, limit=limit)
        assert [self.as_model(kv) for kv in actual.kvs] == expected.kvs
        assert (actual.more, actual.count, actual.rev) == (expected.more, expected.count, real_rev)
        assert self.as_model((await self.real.get(step.key, rev=real_rev))[0]) == model_kv

    async def compact(self, step: HistoryStep) -> None:
        model_rev, real_rev = self.pick(step)
        outcomes = []
        for backend, rev in ((self.model, model_rev), (self.real, real_rev)):
            try:
                await backend.compact(rev)
                outcomes.append("done")
            except (Compacted, FutureRevision) as error:
                outcomes.append(type(error).__name__)
        assert outcomes[0] == outcomes[1]
        assert not await self.real.check()

    async def watch(self, step: HistoryStep) -> None:
        pair = []
        for backend, after in zip((self.model, self.real), self.pick(step), strict=True):
            recorder = Recorder(after)
            await backend.watch(START, END, after=after, deliver=recorder.deliver, failed=recorder.failed)
            pair.append(recorder)
        await eventually(lambda: type(pair[0].error) is type(pair[1].error), "only one of two watches failed")
        self.watches.append((pair[0], pair[1]))

    async def expire(self) -> None:
        """Keys that expire at once may go in any order: take over the backend's."""
        before = await self.real.current_rev()
        recorder = Recorder(before)
        watch = await self.real.watch(START, END, after=before, deliver=recorder.deliver, failed=recorder.failed)
        await self.suite.expire(self.real)
        await caught_up(self.real, recorder)
        watch.close()
        due = int(self.clock.now() * 1000)
        for event in recorder.events:
            kv, _ = await self.model.get(event.key)
            assert kv is not None
            assert kv.expires is not None
            assert kv.expires <= due
            self.revs.append(((await self.model.delete(event.key, expect=kv.mod_rev)).rev, event.rev))
        assert self.model.reap() == 0, "something has not expired in time"

    async def reopen(self) -> None:
        if self.real.caps.durable:
            await self.check_watches()
            self.watches.clear()
            await self.real.close()
            self.real = self.suite.backend(self.folder, self.clock)
            await self.real.start()

    async def finish(self) -> None:
        await self.check_watches()
        assert not await self.real.check()
        assert not await self.model.check()

    async def check_watches(self) -> None:
        last = self.revs[-1][1]
        await self.real.request_progress()
        for expected, actual in self.watches:
            await actual.until_over(last)
            assert [self.event(event) for event in actual.events] == expected.events

    async def kvs(self) -> list[KV | None]:
        return [self.as_model(kv) for kv in (await self.real.list(START, END)).kvs]

    def pick(self, step: HistoryStep) -> tuple[Rev, Rev]:
        return self.revs[-1 - step.pick % len(self.revs)]

    def as_model(self, kv: KV | None) -> KV | None:
        if kv is None:
            return None
        to_model = {real: model for model, real in self.revs}
        return KV(kv.key, kv.value, to_model[kv.mod_rev], to_model[kv.create_rev], kv.expires)

    def event(self, event: StoreEvent) -> StoreEvent:
        to_model = {0: 0} | {real: model for model, real in self.revs}
        return StoreEvent(
            to_model[event.rev],
            event.op,
            event.key,
            event.value,
            to_model[event.create_rev],
            to_model[event.prev_rev],
            event.prev_value,
        )
