"""`CacheSource`: what all resources of a watch cache share."""

from __future__ import annotations

from collections.abc import Callable

from oarlock.meta.context import Clock
from oarlock.meta.dataclass import dataclass
from oarlock.storage.backend import Backend, Rev
from oarlock.storage.cache.limits import CacheLimits
from oarlock.storage.cache.position import Position

__all__ = ["CacheSource"]


@dataclass(frozen=True, slots=True)
class CacheSource:
    """What all resources of a cache share. `late` is called with a revision whose events don't come."""

    backend: Backend
    position: Position
    limits: CacheLimits
    clock: Clock
    late: Callable[[Rev], None]
