"""`judge` agrees with what is true, and names each kind of lie; `Crowd` finds a store that lies to its watches."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from oarlock.storage.backend import Batch, Op, StoreEvent
from oarlock.storage.memory import MemoryBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.contracts.claims import Claim, ClientRecords, Gap, ReadRecord, WatchRecord, WriteOutcome, judge
from oarlock.testing.contracts.clients import Crowd
from oarlock.testing.contracts.network import Faults, NetworkBackend

HISTORY = [
    StoreEvent(2, Op.CREATE, "/t/a", b"1", 2),
    StoreEvent(4, Op.UPDATE, "/t/a", b"2", 2, 2, b"1"),
    StoreEvent(5, Op.CREATE, "/t/b", b"3", 5),
    StoreEvent(7, Op.DELETE, "/t/a", None, 2, 4, b"2"),
]
CREATED = Claim("/t/a", b"1", 0, WriteOutcome.DONE, 2, 0.0, 1.0)
UPDATED = Claim("/t/a", b"2", 2, WriteOutcome.DONE, 4, 1.0, 2.0)
OTHER = Claim("/t/b", b"3", 0, WriteOutcome.UNKNOWN, 0, 2.0, 3.0)
REFUSED = Claim("/t/a", b"4", 0, WriteOutcome.REFUSED, 4, 2.5, 3.0)
DELETED = Claim("/t/a", None, 4, WriteOutcome.DONE, 7, 3.0, 4.0)
LISTED = ReadRecord("/t/", "/t0", 5, {"/t/a": 4, "/t/b": 5}, 2.5)
GOT = ReadRecord("/t/b", "/t/b\0", 7, {"/t/b": 5}, 5.0)
WATCHED = WatchRecord(2, 7, HISTORY[1:])


def notes(*exchanged: tuple[Any, Any]) -> ClientRecords:
    """What is true, with some of it exchanged."""
    instead = {id(true): untrue for true, untrue in exchanged}

    def told(*facts: Any) -> list[Any]:
        return [fact for fact in (instead.get(id(fact), fact) for fact in facts) if fact is not None]

    return ClientRecords(told(CREATED, UPDATED, OTHER, REFUSED, DELETED), told(LISTED, GOT), told(WATCHED))


def test_nothing_is_wrong_with_what_is_true():
    verdict = judge(notes(), HISTORY)
    assert verdict.problems == []
    assert (verdict.acknowledged, verdict.unknown, verdict.events) == (3, 1, 3)
    assert judge(notes((OTHER, replace(OTHER, outcome=WriteOutcome.DONE, rev=5))), HISTORY).problems == []
    assert judge(notes((GOT, replace(GOT, rev=5, began=None))), HISTORY).problems == []


@pytest.mark.parametrize(
    ("true", "untrue", "problem"),
    [
        (OTHER, replace(OTHER, outcome=WriteOutcome.UNAVAILABLE), "done at 5, and said not to be"),
        (OTHER, replace(OTHER, outcome=WriteOutcome.REFUSED, rev=9), "refused for a state that never was"),
        (OTHER, replace(OTHER, outcome=WriteOutcome.DONE, rev=6), "acknowledged at another revision than 5"),
        (OTHER, replace(OTHER, value=b"33", outcome=WriteOutcome.DONE, rev=5), "lost"),
        (OTHER, None, "nobody did this"),
        (REFUSED, replace(REFUSED, rev=2), "refused for a state that never was, or was over at 4"),
        (REFUSED, replace(REFUSED, expect=4), "refused although it is as expected"),
        (REFUSED, CREATED, "acknowledged twice"),
        (LISTED, replace(LISTED, items={"/t/a": 4}), "a read at 5 differs from the store in [('/t/b', 5)]"),
        (LISTED, replace(LISTED, items={"/t/a": 2, "/t/b": 5}), "a read at 5 differs from the store"),
        (GOT, replace(GOT, rev=5), "a read at 5 was begun after 7 had been acknowledged"),
        (WATCHED, replace(WATCHED, events=HISTORY[2:]), "1 missing [4], 0 double"),
        (WATCHED, replace(WATCHED, events=[*HISTORY[1:], HISTORY[3]]), "0 missing [], 1 double [7]"),
        (WATCHED, replace(WATCHED, after=1), "1 missing [2]"),
        (WATCHED, replace(WATCHED, events=HISTORY), "1 that aren't of the store [2]"),
        (WATCHED, replace(WATCHED, events=[HISTORY[1], *HISTORY[:1:-1]]), "in another order"),
    ],
)
def test_a_lie_is_named(true: Any, untrue: Any, problem: str):
    assert problem in " ".join(judge(notes((true, untrue)), HISTORY).problems)


def test_a_write_that_was_done_twice():
    again = [*HISTORY, StoreEvent(9, Op.CREATE, "/t/a", b"1", 9)]
    assert "done twice: /t/a = b'1' at 9" in judge(notes(), again).problems[0]


class Forgetful(NetworkBackend):
    """Every tenth delivery of its watches is lost."""

    deliveries = 0

    async def watch(self, start: str, end: str, *, after: int, deliver: Any, failed: Any) -> Any:
        def sometimes(batch: Batch) -> None:
            self.deliveries += 1
            deliver(Batch((), batch.rev) if self.deliveries % 10 == 0 else batch)

        return await super().watch(start, end, after=after, deliver=sometimes, failed=failed)


@pytest.mark.parametrize("kind", [NetworkBackend, Forgetful])
def test_a_crowd_finds_a_store_that_loses_events(kind: type[NetworkBackend]):
    async def scenario() -> None:
        store = MemoryBackend(VirtualClock())
        servers = [kind(store, seed=seed) for seed in range(3)]
        async with Crowd(servers, store, seed=5) as crowd:
            servers[1].faults = Faults(unavailable=0.05, unknown=0.1, cut=0.05)
            await crowd.events(300)
            servers[1].faults = Faults()
            verdict = await crowd.finish()
        assert verdict.acknowledged > 200
        assert verdict.unknown > 0
        if kind is Forgetful:
            assert any("missing" in problem for problem in verdict.problems)
        else:
            assert verdict.problems == [], f"seed 5: {verdict}"
            assert crowd.notes.broken > 0

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("items", "problems"),
    [
        ({"/t/a": 4, "/t/b": 5}, []),
        ({"/t/a": 2, "/t/b": 5}, ["lost before another epoch"]),
        ({"/t/b": 5}, []),
        ({"/t/a": 6, "/t/b": 5}, []),
    ],
)
def test_what_was_acknowledged_before_another_epoch_is_there_or_was_changed_later(items: Any, problems: list[str]):
    """The update at 4 is in a gap: its event is not known, but its key's state is."""
    told = notes((REFUSED, None), (LISTED, None), (GOT, None), (WATCHED, None))
    history = [HISTORY[0], StoreEvent(4, Op.UPDATE, "/t/a", b"2", 2), HISTORY[2], HISTORY[3]]
    verdict = judge(told, history, gaps=[Gap(3, 6, items)])
    assert [problem.partition(":")[0] for problem in verdict.problems] == problems


def test_a_key_was_absent_after_a_delete_of_which_only_a_gap_is_known():
    """It was created again in the same gap, so that the history has no delete; without one, a refusal says nonsense."""
    deleted = Claim("/t/a", None, 2, WriteOutcome.DONE, 3, 1.0, 1.1)
    refused = Claim("/t/a", b"9", 2, WriteOutcome.REFUSED, 0, 1.2, 1.3)
    again = Claim("/t/a", b"2", 0, WriteOutcome.DONE, 4, 1.4, 2.0)
    history = [HISTORY[0], StoreEvent(6, Op.UPDATE, "/t/a", b"2", 2)]
    gap = Gap(2, 6, {"/t/a": 6})
    assert judge(ClientRecords([CREATED, deleted, refused, again]), history, gaps=[gap]).problems == []
    verdict = judge(ClientRecords([CREATED, refused, again]), history, gaps=[gap])
    assert [problem[:34] for problem in verdict.problems] == ["refused for a state that never was"]
