"""How many events are kept: by age, by number, by bytes."""

from __future__ import annotations

from oarlock.storage.cache.entry import CacheEvent, Entry
from oarlock.storage.cache.follower import CacheLimits
from oarlock.storage.cache.state import Ring

LIMITS = CacheLimits(ring_min=8, ring_max=64, ring_age_s=75.0, ring_bytes=1 << 20, ring_warm=4)


def event(rev: int, size: int = 10, previous: Entry | None = None) -> CacheEvent:
    return CacheEvent("ADDED", rev, Entry(f"/k{rev}", "", f"k{rev}", rev, rev, b"x" * size), previous)


def filled(count: int, *, gap_s: float, limits: CacheLimits = LIMITS) -> Ring:
    ring = Ring(limits, 100)
    for n in range(count):
        ring.append(event(101 + n), n * gap_s)
    return ring


def test_it_begins_complete_after_its_start() -> None:
    ring = Ring(LIMITS, 100)
    assert (ring.oldest, ring.last, ring.after(100)) == (100, 100, [])
    ring.append(event(105), 0.0)
    assert (ring.oldest, ring.last) == (100, 105)
    assert [e.rev for e in ring.after(100)] == [105]
    assert ring.after(105) == []
    assert ring.find(105) is ring.after(104)[0]
    assert ring.find(104) is None


def test_it_grows_while_the_oldest_event_is_young() -> None:
    ring = filled(50, gap_s=0.1)
    assert len(ring) == 50
    assert ring.oldest == 100


def test_it_never_grows_beyond_its_maximum() -> None:
    ring = filled(200, gap_s=0.0)
    assert len(ring) == 64
    assert ring.oldest == 100 + 200 - 64
    assert [e.rev for e in ring.after(ring.oldest)] == list(range(ring.oldest + 1, 301))


def test_old_events_make_room() -> None:
    ring = filled(50, gap_s=80.0)
    assert len(ring) == 8
    assert ring.oldest == 142


def test_it_shrinks_when_events_become_rare() -> None:
    ring = filled(64, gap_s=0.0)
    for n in range(64):
        ring.append(event(1_000 + n), 1_000.0 + n * 100.0)
    assert len(ring) == 8


def test_large_objects_are_bounded_in_bytes() -> None:
    ring = Ring(LIMITS, 0)
    for n in range(1, 60):
        ring.append(event(n, size=100_000), 0.0)
    assert ring.bytes <= LIMITS.ring_bytes
    assert len(ring) == 10
    assert ring.oldest == 49
    ring.append(event(60, size=5 << 20), 0.0)
    assert len(ring) == 1, "one event stays, however large"


def test_encoded_frames_are_kept_for_recent_events_only() -> None:
    ring = Ring(LIMITS, 0)
    for n in range(1, 11):
        one = event(n)
        one.memo = {"json": b"frame"}
        ring.append(one, 0.0)
    assert [e.rev for e in ring.after(0) if e.memo] == [7, 8, 9, 10]


def test_what_was_there_before() -> None:
    ring = Ring(LIMITS, 10)
    first = Entry("/a", "", "a", 5, 5, b"")
    second = Entry("/a", "", "a", 11, 5, b"")
    third = Entry("/a", "", "a", 12, 5, b"")
    ring.append(CacheEvent("MODIFIED", 11, second, first), 0.0)
    ring.append(CacheEvent("MODIFIED", 12, third, second), 0.0)
    ring.append(event(13), 0.0)
    assert ring.before(10, 13, 10) == {"/a": first, "/k13": None}
    assert ring.before(11, 12, 10) == {"/a": second}
    assert ring.before(9, 13, 10) is None
    assert ring.before(10, 13, 1) is None, "more keys than may be set back"
