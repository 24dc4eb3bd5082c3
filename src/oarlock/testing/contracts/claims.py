"""The answers that clients of a store got, and whether they were true.

Everything a client does is noted: each write as a `Claim`, each list as a `ReadRecord`, each watch as a `WatchRecord`.
`judge` compares them with the events of the store, which are given by a watch that nothing disturbs. Figures of several
processes can be joined: the notes are plain values that msgspec can encode.

Must not know: any particular backend, how notes are taken. See also: `clients`, which take them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from enum import StrEnum
from typing import NamedTuple, TypeVar

from oarlock.meta.dataclass import dataclass
from oarlock.storage.backend import Rev, StoreEvent

KeyStates = dict[str, tuple[bytes, Rev]]


class WriteOutcome(StrEnum):
    DONE = "done"
    REFUSED = "refused"
    """The key had another revision than was expected."""
    UNAVAILABLE = "unavailable"
    """It has not been done and will not be."""
    UNKNOWN = "unknown"
    """The store said that it doesn't know, or the client ended before it heard."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The answer that a client got to one write. `value` None: a delete. Times are those of the monotonic clock.

    `rev` is the write's own (0: unknown), or that of the key's current state if it was refused (0: absent).
    """

    key: str
    value: bytes | None
    expect: Rev
    outcome: WriteOutcome
    rev: Rev
    began: float
    ended: float

    @property
    def identity(self) -> tuple[str, Rev, bytes | None]:
        """What the event of this write has, and that of no other, but a delete of the same state."""
        return self.key, self.expect, self.value


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """What a read of ``start <= key < end`` answered, all pages together: revisions by key.

    Without `began` it was of a past revision.
    """

    start: str
    end: str
    rev: Rev
    items: dict[str, Rev]
    began: float | None


@dataclass(frozen=True, slots=True)
class WatchRecord:
    """What one watch delivered: `events` after `after`, said to be complete up to `rev`."""

    after: Rev
    rev: Rev
    events: list[StoreEvent]


@dataclass(slots=True)
class ClientRecords:
    """The answers that some clients got."""

    claims: list[Claim] = field(default_factory=list)
    listings: list[ReadRecord] = field(default_factory=list)
    stretches: list[WatchRecord] = field(default_factory=list)
    longest_s: float = 0.0
    """The longest that a call took."""
    expired: int = 0
    """How often a list or watch failed because its revision was compacted."""
    broken: int = 0
    """How often a watch broke or a read failed, and was begun again."""

    def add(self, other: ClientRecords) -> None:
        self.claims += other.claims
        self.listings += other.listings
        self.stretches += other.stretches
        self.longest_s = max(self.longest_s, other.longest_s)
        self.expired += other.expired
        self.broken += other.broken


@dataclass(frozen=True, slots=True)
class Gap:
    """Where the store began another epoch: what happened after `after` and up to `rev` is known by its result alone.

    `items` are the revisions by key at `rev`. The history has one event for each key that is otherwise than before.
    """

    after: Rev
    rev: Rev
    items: dict[str, Rev]

    def __contains__(self, rev: object) -> bool:
        return isinstance(rev, int) and self.after < rev <= self.rev


class Verdict(NamedTuple):
    """What was compared, and what was wrong, one line each."""

    acknowledged: int
    unknown: int
    events: int
    """Events that watches delivered, all watches together."""
    problems: list[str]

    def __str__(self) -> str:
        wrong = "\n  ".join(self.problems[:20])
        return (
            f"{self.acknowledged} acknowledged writes, {self.unknown} of unknown outcome, "
            f"{self.events} events compared, {len(self.problems)} problems{':' if wrong else ''}\n  {wrong}".rstrip()
        )


def judge(
    notes: ClientRecords,
    history: Sequence[StoreEvent],
    start: KeyStates | None = None,
    shown: Callable[[StoreEvent], StoreEvent] = lambda event: event,
    gaps: Sequence[Gap] = (),
) -> Verdict:
    """Compare `notes` with `history`: all events of the range, in order, after the state `start`.

    `shown` is what the watches show of an event.
    """
    problems: list[str] = []
    seen = _outside(history, gaps)
    _judge_claims(_without_hidden_deletes(_outside(notes.claims, gaps), seen, gaps), seen, problems)
    _judge_gaps(notes.claims, gaps, problems)
    hidden = _hidden_deletes(notes.claims, seen) if gaps else []
    _judge_refusals(_outside(notes.claims, gaps), history, start or {}, hidden, problems)
    listings = [listing for listing in notes.listings if not any(listing.rev in gap for gap in gaps)]
    _judge_listings(listings, _Acknowledged(notes.claims), history, dict(start or {}), problems)
    shown_events = [shown(event) for event in seen]
    for stretch in notes.stretches:
        _judge_stretch(replace(stretch, events=_outside(stretch.events, gaps)), shown_events, problems)
    outcomes = [claim.outcome for claim in notes.claims]
    events = sum(len(stretch.events) for stretch in notes.stretches)
    return Verdict(outcomes.count(WriteOutcome.DONE), outcomes.count(WriteOutcome.UNKNOWN), events, problems)


T = TypeVar("T", Claim, StoreEvent)


def _outside(facts: Sequence[T], gaps: Sequence[Gap]) -> list[T]:
    """The facts whose revision isn't in a gap."""
    return [fact for fact in facts if not any(fact.rev in gap for gap in gaps)] if gaps else list(facts)


def _without_hidden_deletes(claims: list[Claim], history: list[StoreEvent], gaps: Sequence[Gap]) -> list[Claim]:
    """The claims without deletes whose revision is unknown and can only lie in a gap."""
    ended = {(event.key, event.prev_rev) for event in history}

    def hidden(claim: Claim) -> bool:
        unplaced = claim.outcome is WriteOutcome.DONE and not claim.rev and (claim.key, claim.expect) not in ended
        return unplaced and any(claim.expect <= gap.rev and gap.items.get(claim.key) != claim.expect for gap in gaps)

    return [claim for claim in claims if not hidden(claim)]


def _hidden_deletes(claims: Sequence[Claim], history: Sequence[StoreEvent]) -> list[Claim]:
    """Deletes that the history doesn't have: who came between saw that the key was gone, and nothing else tells it."""
    ended = {(event.key, event.prev_rev) for event in history if event.value is None}
    outcomes = (WriteOutcome.DONE, WriteOutcome.UNKNOWN)
    return [
        claim
        for claim in claims
        if claim.value is None and claim.outcome in outcomes and claim.identity[:2] not in ended
    ]


def _judge_gaps(claims: Sequence[Claim], gaps: Sequence[Gap], problems: list[str]) -> None:
    """What was acknowledged in a gap is there after it, or a later state, or somebody has deleted that."""
    deletions: dict[str, Rev] = {}
    for claim in claims:
        if claim.value is None and claim.outcome in (WriteOutcome.DONE, WriteOutcome.UNKNOWN):
            deletions[claim.key] = max(deletions.get(claim.key, 0), claim.expect)
    for claim in claims:
        if claim.outcome is not WriteOutcome.DONE or claim.value is None:
            continue
        for gap in gaps:
            later = gap.items.get(claim.key) or deletions.get(claim.key, 0)
            if claim.rev in gap and later < claim.rev:
                problems.append(f"lost before another epoch: {claim}")


def _judge_claims(claims: Sequence[Claim], history: Sequence[StoreEvent], problems: list[str]) -> None:
    events: dict[tuple[str, Rev, bytes | None], StoreEvent] = {}
    values: dict[tuple[str, bytes], Rev] = {}
    for event in history:
        identity = event.key, event.prev_rev, event.value
        events[identity] = event
        if event.value is not None and values.setdefault((event.key, event.value), event.rev) != event.rev:
            problems.append(f"done twice: {event.key} = {event.value!r} at {event.rev}")
    by_identity: dict[tuple[str, Rev, bytes | None], list[Claim]] = defaultdict(list)
    for claim in claims:
        by_identity[claim.identity].append(claim)
    for identity, same in by_identity.items():
        happened = events.get(identity)
        done = [claim for claim in same if claim.outcome is WriteOutcome.DONE]
        if len(done) > 1:
            problems.append(f"acknowledged twice: {done}")
        for claim in done:
            if happened is None:
                problems.append(f"lost: {claim}")
            elif claim.rev and happened.rev != claim.rev:
                problems.append(f"acknowledged at another revision than {happened.rev}: {claim}")
        if happened is not None and not done and all(claim.outcome is not WriteOutcome.UNKNOWN for claim in same):
            problems.append(f"done at {happened.rev}, and said not to be: {same}")
    problems.extend(f"nobody did this: {event}" for identity, event in events.items() if identity not in by_identity)


def _judge_refusals(
    claims: Sequence[Claim],
    history: Sequence[StoreEvent],
    start: KeyStates,
    hidden: Sequence[Claim],
    problems: list[str],
) -> None:
    """Check that a refusal names a recent state of the key, other than the expected one.

    `hidden` are deletes in a gap, after which a key was absent for a while.
    """
    revs: dict[str, list[Rev]] = defaultdict(list)
    states: dict[str, list[Rev]] = defaultdict(list)
    for event in history:
        revs[event.key].append(event.rev)
        states[event.key].append(0 if event.value is None else event.rev)
    acknowledged = _Acknowledged(claims)
    for claim in claims:
        if claim.outcome is WriteOutcome.REFUSED:
            key = claim.key
            floor = acknowledged.before(claim.began, key)
            since = states[key][bisect_left(revs[key], floor) :]
            if claim.rev == claim.expect:
                problems.append(f"refused although it is as expected: {claim}")
            elif not claim.rev and any(claim.key == key and claim.expect >= floor for claim in hidden):
                continue
            elif claim.rev not in since and (floor or claim.rev != start.get(key, (b"", 0))[1]):
                problems.append(f"refused for a state that never was, or was over at {floor}: {claim}")


class _Acknowledged:
    """The largest revision that was acknowledged before a time, in all or of one key."""

    def __init__(self, claims: Sequence[Claim]) -> None:
        self._times: dict[str, list[float]] = defaultdict(list)
        self._revs: dict[str, list[Rev]] = defaultdict(list)
        for claim in sorted(claims, key=lambda claim: claim.ended):
            if claim.outcome is WriteOutcome.DONE:
                for key in ("", claim.key):
                    largest = max(claim.rev, self._revs[key][-1]) if self._revs[key] else claim.rev
                    self._times[key].append(claim.ended)
                    self._revs[key].append(largest)

    def before(self, moment: float, key: str = "") -> Rev:
        at = bisect_left(self._times[key], moment)
        return self._revs[key][at - 1] if at else 0


def _judge_listings(
    listings: Sequence[ReadRecord],
    acknowledged: _Acknowledged,
    history: Sequence[StoreEvent],
    state: KeyStates,
    problems: list[str],
) -> None:
    place = 0
    for listing in sorted(listings, key=lambda listing: listing.rev):
        while place < len(history) and history[place].rev <= listing.rev:
            event = history[place]
            if event.value is None:
                state.pop(event.key, None)
            else:
                state[event.key] = (event.value, event.rev)
            place += 1
        expected = {key: rev for key, (_, rev) in state.items() if listing.start <= key < listing.end}
        if listing.items != expected:
            wrong = sorted(set(listing.items.items()) ^ set(expected.items()))
            problems.append(f"a read at {listing.rev} differs from the store in {wrong[:6]}")
        if listing.began is not None and listing.rev < (floor := acknowledged.before(listing.began)):
            problems.append(f"a read at {listing.rev} was begun after {floor} had been acknowledged")


def _judge_stretch(stretch: WatchRecord, history: list[StoreEvent], problems: list[str]) -> None:
    first = bisect_right(history, stretch.after, key=_rev)
    expected = history[first : bisect_right(history, stretch.rev, key=_rev)]
    if stretch.events == expected:
        return
    delivered = [event.rev for event in stretch.events]
    missing = sorted({event.rev for event in expected} - set(delivered))
    surplus = sorted(set(delivered) - {event.rev for event in expected})
    double = sorted(rev for rev, times in Counter(delivered).items() if times > 1)
    problems.append(
        f"a watch after {stretch.after} up to {stretch.rev}: {len(missing)} missing {missing[:6]}, "
        f"{len(double)} double {double[:6]}, {len(surplus)} that aren't of the store {surplus[:6]}"
        + ("" if missing or double or surplus else ", others in another order or with other contents")
    )


def _rev(event: StoreEvent) -> Rev:
    return event.rev
