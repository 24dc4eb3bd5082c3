"""The `Backend` protocol: bytes at keys, with revisions. All a new kind of store must implement.

Everything about objects (finalizers, dry-run, selectors, conflicts, watch events) is written once above
this line, so writing a backend can lose none of it. What each method promises is tested by
``oarlock.testing.contracts.backend``; the ids below (R1, W2, V3…) are the names of those tests.

R1 one counter for the whole store, strictly growing, no two keys share a revision.
R2 commit order is revision order: once R is seen, nothing at or below R appears later.
R3 no revision is used twice, not even after a crash; a store that can't prove it changes its epoch.
R4 reads without a revision are linearizable, also between processes.
W1–W3 put and delete compare the key's revision atomically and return the current state when they fail.
W4 an acknowledged write survives ``kill -9``; an unknown outcome is reported as unknown.
W5 any bytes in values, keys of at least 630 bytes in byte order, `TooLarge` above ``caps.max_value``.
L1–L4 a list is one snapshot, at an exact revision if asked, in pages if asked.
V1–V5 a watch delivers everything after its revision, in order, once, without a gap, or fails with `Compacted`.
C1 compaction keeps live values and what later events need as previous value.
T1 a key with a time to live vanishes with an ordinary delete event.
M1 all of this with several processes, one of them killed.

Must not know: kinds, JSON, users. Next: `memory` (the reference model), then `sqlite`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, Protocol

__all__ = [
    "KEEP_TTL",
    "KV",
    "Backend",
    "Batch",
    "Caps",
    "Compacted",
    "Damaged",
    "Deliver",
    "Event",
    "Failed",
    "Findings",
    "FutureRevision",
    "Op",
    "OutcomeUnknown",
    "Page",
    "Rev",
    "StorageError",
    "TooLarge",
    "Unavailable",
    "Watch",
    "WriteResult",
]

Rev = int

KEEP_TTL = -1
"""For `Backend.put`: leave the key's time to live as it is. ``None`` drops it, a number sets it, in milliseconds."""


class Op(IntEnum):
    CREATE = 1
    UPDATE = 2
    DELETE = 3


class Damaged(bytes):
    """Stands in a list for a value that the store can't read any more; `why` says so in one line. It is empty."""

    why: str

    def __new__(cls, why: str) -> Damaged:
        self = super().__new__(cls)
        self.why = why
        return self


class KV(NamedTuple):
    """A live key. `expires` is in epoch milliseconds of the store's clock. A list may have `Damaged` values."""

    key: str
    value: bytes
    mod_rev: Rev
    create_rev: Rev
    expires: int | None = None


class Event(NamedTuple):
    """A change. A DELETE has no value; an UPDATE or DELETE has the previous one."""

    rev: Rev
    op: Op
    key: str
    value: bytes | None
    create_rev: Rev
    prev_rev: Rev = 0
    prev_value: bytes | None = None


class Batch(NamedTuple):
    """What a watch delivers: events, maybe none, and the promise that everything up to `rev` has been delivered."""

    events: tuple[Event, ...]
    rev: Rev


class WriteResult(NamedTuple):
    """`ok` and the write's revision; or not ok and the `current` state from the same atomic step (None: absent)."""

    ok: bool
    rev: Rev
    current: KV | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """A list at `rev`. `count` is how many keys of the range follow this page."""

    kvs: Sequence[KV]
    rev: Rev
    more: bool = False
    count: int = 0


@dataclass(frozen=True, slots=True)
class Caps:
    """What a backend can do. `max_value` is in bytes."""

    durable: bool
    multi_process: bool
    multi_host: bool
    max_value: int


class StorageError(Exception):
    """The family of what a backend raises."""


class Compacted(StorageError):
    """The revision asked for is below what is kept."""

    def __init__(self, compact_rev: Rev, current_rev: Rev) -> None:
        super().__init__(f"revision is compacted: everything below {compact_rev} is gone, current is {current_rev}")
        self.compact_rev = compact_rev
        self.current_rev = current_rev


class FutureRevision(StorageError):
    """The revision asked for hasn't been reached."""

    def __init__(self, current_rev: Rev) -> None:
        super().__init__(f"revision is in the future, current is {current_rev}")
        self.current_rev = current_rev


class Unavailable(StorageError):
    """The store can't do it now and has not done it; `retry_after_s` is a hint."""

    def __init__(self, why: str, retry_after_s: float = 1.0) -> None:
        super().__init__(why)
        self.retry_after_s = retry_after_s


class OutcomeUnknown(Unavailable):
    """The store may or may not have done it."""


class TooLarge(StorageError):
    """The value has more bytes than the store takes."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"value of {size} bytes exceeds the store's limit of {limit}")
        self.limit = limit


Findings = list[str]
"""What `Backend.check` found wrong, one line each. Named here because a method called `list` shadows the type."""

Deliver = Callable[[Batch], None]
Failed = Callable[[StorageError], None]


class Watch(Protocol):
    def close(self) -> None:
        """Deliver nothing more. Safe to call twice."""
        ...


class Backend(Protocol):
    """A store. Methods may be called concurrently from one event loop; a range is ``start <= key < end``."""

    caps: Caps

    async def start(self) -> None:
        """Open the store. Called once, before anything else. Raises `StorageError` with one readable line."""
        ...

    async def close(self) -> None:
        """Finish what was accepted, then let go. Safe to call twice."""
        ...

    async def epoch(self) -> str:
        """A name for this history; it changes when a restore or failover may have lost some."""
        ...

    def known_rev(self) -> Rev | None:
        """The revision if it is known without asking anybody (this process alone holds the store), else None."""
        ...

    async def current_rev(self) -> Rev:
        """The current revision, linearizable (R4)."""
        ...

    async def get(self, key: str, *, rev: Rev = 0) -> tuple[KV | None, Rev]:
        """The key now or at `rev`, and the revision it was read at."""
        ...

    async def list(self, start: str, end: str, *, rev: Rev = 0, limit: int = 0) -> Page:
        """The range now or at `rev`, in byte order, at most `limit` keys (0: all)."""
        ...

    async def count(self, start: str, end: str) -> tuple[int, Rev]:
        """How many live keys the range has."""
        ...

    async def put(self, key: str, value: bytes, *, expect: Rev, ttl_ms: int | None = KEEP_TTL) -> WriteResult:
        """Write if the key's revision is `expect` (0: if it is absent). Returns once durable.

        In this process, watches have been delivered the event before the call returns, and
        ``Event.value`` is the very object passed as `value`.
        """
        ...

    async def delete(self, key: str, *, expect: Rev) -> WriteResult:
        """Remove if the key's revision is `expect`; on success `current` is what was removed."""
        ...

    async def watch(self, start: str, end: str, *, after: Rev, deliver: Deliver, failed: Failed) -> Watch:
        """Call `deliver` on this loop for every change of the range after `after`, in order, then go on.

        `deliver` must not block or raise. `failed` is called at most once, after which nothing follows;
        with `Compacted` when `after` is, or becomes while replaying, older than what is kept.
        Batches without events (progress) may come at any time.
        """
        ...

    async def request_progress(self) -> None:
        """Make every watch receive a batch whose `rev` is at least the revision current now."""
        ...

    async def compact(self, rev: Rev) -> None:
        """Forget history before `rev`. Raises `Compacted` when that has happened, `FutureRevision` when it can't."""
        ...

    async def compact_rev(self) -> Rev:
        """Below this, history is gone; 0 when nothing was compacted."""
        ...

    async def check(self, *, quick: bool = False) -> Findings:
        """What is wrong with the store, one line each; empty when it is sound. May take long.

        `quick`: only what can be told without holding up anybody who reads or writes meanwhile. Raises `Unavailable`
        when it couldn't be finished; cancelling it ends it.
        """
        ...
