"""Every backend keeps the storage contract, alone, with a second server, and through random histories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from oarlock.storage.backend import Backend, Rev
from oarlock.storage.memory import MemoryBackend
from oarlock.storage.sqlite.backend import SqliteBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.contracts.backend import BackendContract
from oarlock.testing.contracts.histories import HistoryContract
from oarlock.testing.contracts.network import NetworkBackend
from oarlock.testing.contracts.support import SkippingBackend

NETWORKED: dict[Path, MemoryBackend] = {}
"""The stores of `TestOverANetwork`, each at its folder, as on another machine: they outlive their servers."""


class TestMemory(BackendContract, HistoryContract):
    def backend(self, folder: Path, clock: VirtualClock) -> Backend:
        return MemoryBackend(clock)

    async def lose_after(self, backend: Any, rev: Rev) -> None:
        backend.lose_after(rev)


class TestSqlite(BackendContract, HistoryContract):
    def backend(self, folder: Path, clock: VirtualClock) -> Backend:
        return SqliteBackend(folder / "store.db", clock)

    def replica(self, folder: Path, clock: VirtualClock) -> Backend:
        return SqliteBackend(folder / "store.db", clock)


class TestSqliteWithCommitsInAThread(BackendContract, HistoryContract):
    def backend(self, folder: Path, clock: VirtualClock) -> Backend:
        return SqliteBackend(folder / "store.db", clock, commit_on_loop=False)

    def replica(self, folder: Path, clock: VirtualClock) -> Backend:
        return SqliteBackend(folder / "store.db", clock)


class TestSkippingRevisions(BackendContract, HistoryContract):
    def backend(self, folder: Path, clock: VirtualClock) -> Backend:
        return SkippingBackend(clock, seed=7)

    async def lose_after(self, backend: Any, rev: Rev) -> None:
        backend.lose_after(rev)


class TestOverANetwork(BackendContract, HistoryContract):
    def backend(self, folder: Path, clock: VirtualClock) -> Backend:
        return NetworkBackend(NETWORKED.setdefault(folder, MemoryBackend(clock)), seed=3)

    def replica(self, folder: Path, clock: VirtualClock) -> Backend:
        return NetworkBackend(NETWORKED[folder], seed=4)

    async def lose_after(self, backend: Any, rev: Rev) -> None:
        backend.remote.lose_after(rev)

    async def expire(self, backend: Any) -> None:
        backend.remote.reap()
