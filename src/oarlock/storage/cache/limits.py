"""Limits of the watch cache in memory and time, each with its reason.

Must not know: anything else of the cache. See also: `ring` and `position`, which use most of them.
"""

from __future__ import annotations

from oarlock.meta.dataclass import dataclass
from oarlock.net.backoff import Backoff
from oarlock.storage.pacing import SLICE_S

__all__ = ["CacheLimits"]


@dataclass(frozen=True, slots=True)
class CacheLimits:
    """Limits of one `WatchCache`. The first three, of the event ring, are those of Kubernetes' watch cache."""

    ring_min: int = 100
    """Events a resource keeps at least room for."""
    ring_max: int = 102_400
    """Events a resource keeps at most."""
    ring_age_s: float = 75.0
    """The ring grows while its oldest event is younger than this: a client that reconnects after its
    connection was lost (a minute, plus a few seconds of back-off) still finds its place."""
    ring_bytes: int = 64 << 20
    """Bytes of encoded objects a ring may keep alive; a resource updated all the time must not hold gigabytes."""
    ring_warm: int = 256
    """The newest events keep what encoders noted on them; older ones are encoded again when somebody asks."""
    history_revs: int = 10_000
    """How many revisions before the loaded list are asked of the backend, so that a restart doesn't end every watch."""
    roots: int = 128
    """Past states of a resource kept for the next page of a list."""
    undo: int = 1_000
    """How many keys may be set back to answer a list at a past revision from memory (about 5 µs each)."""
    page: int = 2_000
    """Keys per request to the backend while loading: bounds the bytes that are held twice."""
    slice_s: float = SLICE_S
    """How long loading may keep the loop before it gives it back."""
    slice_events: int = 256
    """How many events are applied in one go; a longer batch is applied over several turns of the loop."""
    nudge_s: float = 0.1
    """How often the backend is asked for progress while a reader waits."""
    fresh_s: float = 3.0
    """How long a linearizable read waits for the cache to catch up (Kubernetes: 3 s)."""
    retry_s: float = 0.05
    """The first pause before a lost watch is begun again; doubles up to 20 times this."""

    @property
    def again(self) -> Backoff:
        """The pauses before a lost watch is begun again."""
        return Backoff(self.retry_s, self.retry_s * 20)
