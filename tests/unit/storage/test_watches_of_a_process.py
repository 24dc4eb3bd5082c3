"""Who is told what: a broken watch harms only itself, stretches from two sides are put in order, holes are found."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oarlock.storage.backend import Batch, Compacted, Op, Rev, StorageError, StoreEvent
from oarlock.storage.sql.watching import Feed
from oarlock.storage.watchers import RangeWatch, Watchers
from oarlock.testing.contracts.support import Recorder, refused


def event(rev: Rev, key: str = "/t/a") -> StoreEvent:
    return StoreEvent(rev, Op.CREATE, key, b"", rev)


def watching(watchers: Watchers, after: Rev = 0) -> Recorder:
    recorder = Recorder(after)
    watchers.add(RangeWatch(("/t/", "/t0"), after, recorder.deliver, recorder.failed))
    return recorder


def test_a_watch_that_raises_is_ended_and_the_others_go_on() -> None:
    async def scenario() -> None:
        reported: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))
        watchers = Watchers()
        errors: list[StorageError] = []

        def broken(batch: Batch) -> None:
            raise ValueError("broken")

        watchers.add(RangeWatch(("/t/", "/t0"), 0, broken, errors.append))
        sound = watching(watchers)
        watchers.publish([event(1)], 1)
        watchers.publish([event(2)], 2)
        assert [e.rev for e in sound.events] == [1, 2]
        assert len(errors) == len(reported) == 1
        assert "broken" in str(errors[0])
        assert len(watchers) == 1

    asyncio.run(scenario())


def test_a_held_watch_gets_the_past_first() -> None:
    watchers = Watchers()
    recorder = Recorder()
    watch = RangeWatch(("/t/", "/t0"), 0, recorder.deliver, recorder.failed)
    watch.hold()
    watchers.add(watch)
    watchers.publish([event(4), event(5, "/other")], 5)
    watch.send([event(1), event(2), event(4)], 4, past=True)
    watchers.publish([event(6)], 6)
    assert [e.rev for e in recorder.events] == [1, 2, 4]
    watch.release()
    assert ([e.rev for e in recorder.events], recorder.rev) == ([1, 2, 4, 6], 6)


def test_a_feed_drops_what_it_had_and_takes_what_is_new() -> None:
    feed = Feed(10)
    seen = watching(feed.watchers, 10)
    feed.take(10, [event(11), event(12)], 12)
    feed.take(10, [event(11), event(12), event(13)], 13)
    feed.take(11, [event(12)], 12)
    feed.take(13, [], 13)
    feed.take(12, [event(13), event(14), event(15)], 15)
    assert [e.rev for e in seen.events] == [11, 12, 13, 14, 15]
    assert feed.last == 15


@pytest.mark.parametrize("events", [[event(12)], [event(11), event(13)], [], [event(12), event(13)]])
def test_a_feed_refuses_a_hole(events: list[StoreEvent]) -> None:
    feed = Feed(10)
    seen = watching(feed.watchers, 10)
    feed.take(10, events, 13)
    assert "hole above revision 10" in str(seen.error)
    later = watching(feed.watchers, 13)
    feed.take(13, [event(14)], 14)
    assert [e.rev for e in later.events] == [14]


def test_a_feed_ends_the_watches_that_lost_history() -> None:
    feed = Feed(10)
    behind, ahead = watching(feed.watchers, 10), watching(feed.watchers, 20)
    feed.take(15, [event(rev) for rev in range(16, 22)], 21)
    assert isinstance(behind.error, Compacted)
    assert [e.rev for e in ahead.events] == [21]


def test_whoever_waits_for_a_revision_is_told_also_of_failure() -> None:
    async def scenario() -> None:
        feed = Feed(10)
        early, late = asyncio.create_task(feed.reached(11)), asyncio.create_task(feed.reached(99))
        gone = asyncio.create_task(feed.reached(11))
        await asyncio.sleep(0)
        gone.cancel()
        feed.take(10, [event(11)], 11)
        await early
        await feed.reached(11)
        assert not late.done()
        feed.close(StorageError("closed"))
        assert str(await refused(late, StorageError)) == "closed"

    asyncio.run(scenario())
