"""Every backend keeps the storage contract, alone, with a second server, and through random histories."""

from __future__ import annotations

from pathlib import Path

from oarlock.storage.backend import Backend
from oarlock.storage.memory import MemoryBackend
from oarlock.storage.sqlite.backend import SqliteBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.contracts.backend import BackendContract
from oarlock.testing.contracts.histories import HistoryContract
from oarlock.testing.contracts.skipping import SkippingBackend


class TestMemory(BackendContract, HistoryContract):
    def backend(self, folder: Path, clock: VirtualClock) -> Backend:
        return MemoryBackend(clock)


class TestSqlite(BackendContract, HistoryContract):
    def backend(self, folder: Path, clock: VirtualClock) -> Backend:
        return SqliteBackend(folder / "store.db", clock)

    def replica(self, folder: Path, clock: VirtualClock) -> Backend:
        return SqliteBackend(folder / "store.db", clock)


class TestSkippingRevisions(BackendContract, HistoryContract):
    def backend(self, folder: Path, clock: VirtualClock) -> Backend:
        return SkippingBackend(clock, seed=7)
