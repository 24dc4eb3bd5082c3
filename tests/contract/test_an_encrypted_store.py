"""A backend with encrypted values keeps the storage contract, and what it wraps never sees a plain value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from oarlock.storage.backend import Backend, Rev
from oarlock.storage.encryption.backend import EncryptedBackend
from oarlock.storage.encryption.ciphers import AesGcm
from oarlock.storage.encryption.rules import EncryptionRules, NamedCipher, Transformer
from oarlock.storage.memory import MemoryBackend
from oarlock.storage.sqlite.backend import SqliteBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.contracts.backend import BackendContract
from oarlock.testing.contracts.histories import HistoryContract
from oarlock.testing.contracts.network import NetworkBackend


class Everything(EncryptionRules):
    """Encrypts whatever the key."""

    def __init__(self) -> None:
        super().__init__({})
        self._transformer = Transformer([NamedCipher(b"k8s:enc:aesgcm:v1:k:", AesGcm(bytes(32)))], "a test")

    def transformer(self, key: str) -> Transformer:
        return self._transformer


class TestEncryptedInMemory(BackendContract, HistoryContract):
    def backend(self, folder: Path, clock: VirtualClock) -> Backend:
        return EncryptedBackend(MemoryBackend(clock), Everything())

    async def lose_after(self, backend: Any, rev: Rev) -> None:
        backend._inner.lose_after(rev)

    async def expire(self, backend: Any) -> None:
        backend._inner.reap()


class TestEncryptedInSqlite(BackendContract, HistoryContract):
    def backend(self, folder: Path, clock: VirtualClock) -> Backend:
        return EncryptedBackend(SqliteBackend(folder / "store.db", clock), Everything())

    def replica(self, folder: Path, clock: VirtualClock) -> Backend:
        return EncryptedBackend(SqliteBackend(folder / "store.db", clock), Everything())

    async def expire(self, backend: Any) -> None:
        await backend._inner.reap()


REMOTE: dict[Path, MemoryBackend] = {}


class TestEncryptedOverANetwork(BackendContract, HistoryContract):
    def backend(self, folder: Path, clock: VirtualClock) -> Backend:
        return EncryptedBackend(NetworkBackend(REMOTE.setdefault(folder, MemoryBackend(clock)), seed=3), Everything())

    def replica(self, folder: Path, clock: VirtualClock) -> Backend:
        return EncryptedBackend(NetworkBackend(REMOTE[folder], seed=4), Everything())

    async def lose_after(self, backend: Any, rev: Rev) -> None:
        backend._inner.remote.lose_after(rev)

    async def expire(self, backend: Any) -> None:
        backend._inner.remote.reap()
