"""The `Backend` protocol: bytes at keys, with revisions. A new kind of store implements it.

The semantics of objects (finalizers, dry-run, selectors, conflicts, watch events) are implemented above it, once for
all backends. ``oarlock.testing.contracts.backend`` tests what each method promises; the ids below (R1, W2, V3…) are
the names of those tests.

R1 one counter for the whole store, strictly growing, no two keys share a revision. There may be gaps.
R2 commit order is revision order: once R is seen, nothing at or below R appears later.
R3 no revision is used twice, not even after a crash, a failover or a restore. A store that may have lost its newest
   history has another epoch, goes on above every revision it may have given out, and has compacted up to there
   (`Backend.begin_epoch` does this to a store of which only its user knows).
R4 reads without a revision, and `Backend.current_rev`, are linearizable, also between processes: they ask the store
   itself (the primary, a quorum), never a replica that may be behind.
W1–W3 put and delete compare the key's revision atomically and return the current state when they fail.
W4 an acknowledged write survives ``kill -9``; an unknown outcome is reported as unknown.
W5 any bytes in values, keys of at least 630 bytes in byte order, `TooLarge` above ``caps.max_value``.
L1–L4 a list is one snapshot, at an exact revision if asked, in pages if asked.
V1–V3 a watch delivers everything after its revision, in order, once, without a gap and without being asked; or it
   fails: with `Compacted` when it can't be continued, with `Unavailable` when it may be begun again where it was.
V4 the revision of a batch is a promise: no event up to it will come later. A backend whose store doesn't know that for
   sure finds another way, such as a write of its own. It can be asked for.
V5 a closed watch gets nothing more; a slow one disturbs nobody.
C1 compaction keeps live values and what later events need as previous value.
T1 a key with a time to live vanishes with an ordinary delete event.
M1 all of this with several processes, one of them killed.

A store may be on a network, so these are **not** promised: that the event of a write comes before or after its result,
in this process or another; that what is read or delivered is the very object that was written, only equal bytes; that a
watch lives long. `cache` makes up for them. Every call ends: a backend that waits for others has deadlines of its own.
How a process hears of the commits of others (a connection, hints, polling) is the backend's matter. Hints may be lost:
within about a second the events come all the same.

Must not know: kinds, JSON, users. See also: `memory` (the reference model), `sqlite`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol, Self, runtime_checkable

from oarlock.meta.dataclass import dataclass

__all__ = [
    "EPOCH_GAP",
    "KEEP_TTL",
    "KV",
    "Backend",
    "Batch",
    "Caps",
    "Compacted",
    "Damaged",
    "Deliver",
    "Failed",
    "Findings",
    "FutureRevision",
    "OnDisk",
    "Op",
    "OutcomeUnknown",
    "Page",
    "Rev",
    "Sealed",
    "Stale",
    "StorageError",
    "StoreEvent",
    "TooLarge",
    "Traced",
    "Unavailable",
    "Watch",
    "WriteResult",
    "shown_key",
]

Rev = int

EPOCH_GAP = 1_000_000_000
"""How far a new epoch begins above what is known, where a jump costs nothing: others may know of more."""

KEEP_TTL = -1
"""For `Backend.put`: leave the key's time to live as it is. ``None`` drops it, a number sets it, in milliseconds."""


class Op(IntEnum):
    CREATE = 1
    UPDATE = 2
    DELETE = 3


class Damaged(bytes):
    """Takes the place of a value that the store can't read; `why` is the reason in one line.

    It has no bytes.
    """

    why: str

    def __new__(cls, why: str) -> Self:
        self = super().__new__(cls)
        self.why = why
        return self


class Sealed(Damaged):
    """Takes the place of a value that can't be decrypted: it may be sound, and what it is decrypted with wrong.

    `key` names a key that isn't at hand, as the value does, if that is why.
    """

    key: str

    def __new__(cls, why: str, key: str = "") -> Self:
        self = super().__new__(cls, why)
        self.key = key
        return self


class Stale(bytes):
    """A value that the store would write in another form today: writing the same again is worth it."""


class KV(NamedTuple):
    """A live key. `expires` is in epoch milliseconds of the store's clock. A value may be `Damaged` or `Stale`."""

    key: str
    value: bytes
    mod_rev: Rev
    create_rev: Rev
    expires: int | None = None


class StoreEvent(NamedTuple):
    """A change of a key. A DELETE has no value; an UPDATE or DELETE has the previous one. Values are as in `KV`."""

    rev: Rev
    op: Op
    key: str
    value: bytes | None
    create_rev: Rev
    prev_rev: Rev = 0
    prev_value: bytes | None = None


class Batch(NamedTuple):
    """What a watch delivers: events (possibly none). All events up to `rev` have been delivered with it."""

    events: tuple[StoreEvent, ...]
    rev: Rev


class WriteResult(NamedTuple):
    """The result of a write. If not `ok`, `current` is the state that was compared with (None: the key is absent)."""

    ok: bool
    rev: Rev
    current: KV | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list at `rev`. `count` is how many keys of the range follow this page."""

    kvs: Sequence[KV]
    rev: Rev
    more: bool = False
    count: int = 0


@dataclass(frozen=True, slots=True)
class Caps:
    """Capabilities of a backend. `max_value` is in bytes. With `rewrites`, what it returns may be `Stale`."""

    durable: bool
    max_value: int
    rewrites: bool = False


class StorageError(Exception):
    """Base class of the errors that a backend raises."""


class Compacted(StorageError):
    """The requested revision has been compacted, or is of a history that the store has lost."""

    def __init__(self, compact_rev: Rev, current_rev: Rev) -> None:
        super().__init__(f"revision is compacted: everything below {compact_rev} is gone, current is {current_rev}")
        self.compact_rev = compact_rev
        self.current_rev = current_rev


class FutureRevision(StorageError):
    """The requested revision is newer than the store's."""

    def __init__(self, current_rev: Rev) -> None:
        super().__init__(f"revision is in the future, current is {current_rev}")
        self.current_rev = current_rev


class Unavailable(StorageError):
    """The store can't do it at the moment, and has not done it. `retry_after_s` is a hint."""

    def __init__(self, why: str, retry_after_s: float = 1.0) -> None:
        super().__init__(why)
        self.retry_after_s = retry_after_s


class OutcomeUnknown(Unavailable):
    """The write may or may not have been committed."""


class TooLarge(StorageError):
    """The value has more bytes than ``caps.max_value``."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"value of {size} bytes exceeds the store's limit of {limit}")
        self.limit = limit


Findings = list[str]
"""What `Backend.check` found wrong, one line each. Named here because a method called `list` shadows the type."""

Deliver = Callable[[Batch], None]
Failed = Callable[[StorageError], None]


class Watch(Protocol):
    def close(self) -> None:
        """Stop the watch. Nothing is delivered any more. Safe to call twice."""
        ...


class Backend(Protocol):
    """A store. Methods may be called concurrently from one event loop; a range is ``start <= key < end``."""

    caps: Caps

    async def start(self) -> None:
        """Open the store. Called once, before anything else. Raises `StorageError` with a one-line message."""
        ...

    async def close(self) -> None:
        """Finish accepted writes, then release all resources. Safe to call twice."""
        ...

    async def epoch(self) -> str:
        """An identifier of this history of the store. It changes when a restore or failover may have lost revisions.

        Linearizable, as `current_rev`. It is asked at the start and each time a watch is begun again.
        """
        ...

    def known_rev(self) -> Rev | None:
        """The current revision if this process alone holds the store and so knows it without asking; else None."""
        ...

    async def current_rev(self) -> Rev:
        """The current revision, linearizable (R4).

        A backend that can look at it within microseconds, without waiting, may also have a method
        ``current_rev_sync() -> Rev | None`` that does: the watch cache then asks that first. None means that it has to
        wait.
        """
        ...

    async def get(self, key: str, *, rev: Rev = 0) -> tuple[KV | None, Rev]:
        """The key, now or at `rev`, and the revision at which it was read."""
        ...

    async def list(self, start: str, end: str, *, rev: Rev = 0, limit: int = 0) -> Page:
        """The range, now or at `rev`, in byte order, at most `limit` keys (0: all)."""
        ...

    async def count(self, start: str, end: str) -> tuple[int, Rev]:
        """The number of live keys in the range."""
        ...

    async def put(self, key: str, value: bytes, *, expect: Rev, ttl_ms: int | None = KEEP_TTL) -> WriteResult:
        """Write if the key's revision is `expect` (0: if it is absent). Returns once durable.

        Raises `Unavailable` when it certainly wasn't and won't be executed, `OutcomeUnknown` when it may have been, or
        may still be. A cancelled call may be executed. Watches get the event before or after the call returns.
        """
        ...

    async def delete(self, key: str, *, expect: Rev) -> WriteResult:
        """Delete the key if its revision is `expect`. On success `current` is the deleted state. Otherwise as `put`."""
        ...

    async def watch(self, start: str, end: str, *, after: Rev, deliver: Deliver, failed: Failed) -> Watch:
        """Call `deliver` on this loop for every change of the range after revision `after`, in order.

        `deliver` must not block or raise; it may be called before this returns. `failed` is called at most once, and
        nothing is delivered after it: with `Compacted` when `after` has been compacted, also if that happens during the
        replay, or when the store has lost the history that `after` belongs to; with another `StorageError` when the
        watch broke. Batches without events (progress) may come at any time. Raises `StorageError` when it can't be
        begun.
        """
        ...

    async def request_progress(self) -> None:
        """Make every watch of this process deliver, soon, a batch whose `rev` is at least the current revision."""
        ...

    async def compact(self, rev: Rev) -> None:
        """Remove history before `rev`.

        Raises `Compacted` when it is gone already, `FutureRevision` when `rev` isn't reached.
        """
        ...

    async def compact_rev(self) -> Rev:
        """History below this revision has been compacted; 0 when there was no compaction."""
        ...

    async def begin_epoch(self, above: Rev) -> Rev:
        """Begin another history: with another epoch, at a revision above `above` and above the current one.

        Live keys stay as they are. History is compacted up to the new revision, so every watch of every process fails
        with `Compacted`. Returns the new current revision, which is at least `EPOCH_GAP` higher. After a failure it may
        have been begun: then call it again.
        """
        ...

    async def check(self, *, quick: bool = False) -> Findings:
        """What is wrong with the store, one line each; empty when it is consistent. May take long.

        With `quick`, only checks that don't block concurrent reads and writes. Raises `Unavailable`
        when the check couldn't be finished. Cancelling the call ends it.
        """
        ...


@runtime_checkable
class OnDisk(Protocol):
    """What a backend has that knows how much space its store takes."""

    async def disk_bytes(self) -> int:
        """The bytes on the disk, with what is kept for later use."""
        ...


@runtime_checkable
class Traced(Protocol):
    """What a backend has whose database may be one of several: an old primary that came back beside the new one.

    `lineage` says in which history it was seen, as text to remember; ``""`` if that isn't known. Set before the start,
    it makes the backend refuse a database that is in an older one.
    """

    lineage: str


def shown_key(backend: Backend, key: str) -> str:
    """The key as an operator finds it in the store, for messages; a backend that has others has a ``stored_key``."""
    stored: Callable[[str], bytes] | None = getattr(backend, "stored_key", None)
    return key if stored is None else stored(key).decode(errors="replace")
