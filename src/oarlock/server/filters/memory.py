"""Refuses writes with 503 when the address space is nearly exhausted (``ulimit -v``, ``RLIMIT_AS``).

When an allocation fails, Python raises MemoryError, but a C library may crash: msgspec 0.22 ends the process with
SIGSEGV for a long string. So before each write, a reserve is allocated as a test. Limits of resident memory (a
container's) can't be detected this way: there the kernel ends the process.
"""

from __future__ import annotations

import ctypes
import logging
import resource

from oarlock.endpoints.request_state import RequestState
from oarlock.meta.errors import ServiceUnavailable

log = logging.getLogger("oarlock.server")

GROWING = frozenset({"create", "update", "patch"})
BLOCK = 4 * 1024 * 1024
BLOCKS = 12
"""48 MiB in pieces, as freed memory is fragmented: sixteen request bodies of the largest size."""

LOOK_EVERY_S = 0.05
LOOK_EVERY_BYTES = BLOCK
UNKNOWN_LENGTH = 64 * 1024

_malloc = ctypes.pythonapi.PyMem_RawMalloc
_malloc.argtypes, _malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
_free = ctypes.pythonapi.PyMem_RawFree
_free.argtypes, _free.restype = [ctypes.c_void_p], None


def is_limited() -> bool:
    """Whether this process may run out of address space before the machine runs out of memory."""
    limits = (resource.getrlimit(which)[0] for which in (resource.RLIMIT_AS, resource.RLIMIT_DATA))
    return any(limit != resource.RLIM_INFINITY for limit in limits)


def _can_be_had() -> bool:
    """Whether `BLOCKS` can be allocated now. They are never touched, so they take no physical memory."""
    blocks: list[int] = []
    while len(blocks) < BLOCKS and (block := _malloc(BLOCK)):
        blocks.append(block)
    for block in blocks:
        _free(block)
    return len(blocks) == BLOCKS


class MemoryReserve:
    """A filter that refuses writes with 503 while the reserve can't be allocated."""

    __slots__ = ("_bytes", "_due", "_short")

    def __init__(self) -> None:
        self._short = False
        self._due = 0.0
        self._bytes = 0

    def __call__(self, state: RequestState) -> None:
        if state.target.verb in GROWING and self._runs_short(state):
            raise ServiceUnavailable("the server is low on memory and refuses creates and updates", retry_after_s=5)

    def _runs_short(self, state: RequestState) -> bool:
        length = state.request.headers.get("content-length", "")
        self._bytes += int(length) if length.isdecimal() else UNKNOWN_LENGTH
        now = state.clock.monotonic()
        if now >= self._due or self._bytes >= LOOK_EVERY_BYTES or self._short:
            self._due, self._bytes = now + LOOK_EVERY_S, 0
            self._log_change(short=not _can_be_had())
        return self._short

    def _log_change(self, *, short: bool) -> None:
        before, self._short = self._short, short
        if short and not before:
            megabytes = BLOCK * BLOCKS >> 20
            log.error("less than %d MiB of the address space are left: creates and updates are refused", megabytes)
        elif before and not short:
            log.warning("memory is available again: creates and updates are accepted")
