"""Everything of a store that lies on the disk, opened in the right order and closed in the reverse one.

    PATH                 the database (with SQLite's own -wal and -shm beside it)
    PATH.d/commit.lock   held around each commit
    PATH.d/members.lock  held by every process that may commit
    PATH.d/*.sock        where each process listens for hints

Must not know: revisions, events, loops. Next: `schema`, `locks`, `peers`.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import apsw

from oarlock.storage.backend import StorageError
from oarlock.storage.sqlite.errors import translate
from oarlock.storage.sqlite.locks import CommitLock, Membership
from oarlock.storage.sqlite.peers import Peers
from oarlock.storage.sqlite.schema import Meta, connect, create_file, prepare

__all__ = ["Files"]

_WRITER_CACHE_KIB = 8_192
_READER_CACHE_KIB = 4_096
_SMALL_CACHE_KIB = 256


@dataclass(frozen=True, slots=True)
class Files:
    """An opened store. `connection` is the writer's; the others are handed to whoever reads."""

    path: Path
    meta: Meta
    peers: Peers
    membership: Membership
    commit_lock: CommitLock
    connection: apsw.Connection
    reads: apsw.Connection
    tail: apsw.Connection
    glance: apsw.Connection
    """For the event loop itself, which must never wait: it doesn't retry what is busy."""

    @classmethod
    def open(cls, path: Path, *, create: bool, join_timeout_s: float) -> Files:
        """Blocks: on the disk, and on a process that holds the store alone. Raises `StorageError`, one line."""
        create_file(path, create)
        # Whatever links a process came by, all must meet in the same folder.
        real = path.resolve()
        folder = real.with_name(real.name + ".d")
        made = not folder.exists()
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            peers = Peers(folder)
        except OSError as error:
            raise StorageError(f"cannot open the store {path}: {folder}: {error.strerror}") from None
        membership: Membership | None = None
        connections: list[apsw.Connection] = []
        try:
            membership = Membership(folder / "members.lock", peers.ask_to_join, join_timeout_s)
            membership.join()
            commit_lock = CommitLock(folder / "commit.lock")
            try:
                with commit_lock.held():
                    connections.append(connect(path, cache_kib=_WRITER_CACHE_KIB))
                    meta = prepare(connections[0], path)
                connections.append(connect(path, cache_kib=_READER_CACHE_KIB))
                connections.append(connect(path, cache_kib=_SMALL_CACHE_KIB))
                connections.append(connect(path, cache_kib=_SMALL_CACHE_KIB, busy_timeout_s=0))
            except BaseException:
                commit_lock.close()
                raise
        except BaseException as error:
            for connection in connections:
                connection.close()
            if membership is not None:
                membership.close()
            peers.close()
            if made:
                shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, (OSError, apsw.Error)):
                raise StorageError(f"cannot open the store {path}: {translate(error, str(path))}") from error
            raise
        return cls(path, meta, peers, membership, commit_lock, *connections)

    def leave(self) -> None:
        """Only stop listening to the others: the writer thread still uses the rest, until the process ends."""
        self.glance.close()
        self.peers.close()

    def close(self) -> None:
        """Close what the readers haven't; SQLite's last checkpoint happens under the commit lock."""
        self.glance.close()
        with self.commit_lock.held():
            self.connection.close()
        self.membership.close()
        self.commit_lock.close()
        self.peers.close()
