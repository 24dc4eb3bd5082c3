"""The files of a store on disk, opened in the right order and closed in reverse order.

    PATH                 the database (with SQLite's own -wal and -shm beside it)
    PATH.d/commit.lock   held around each commit
    PATH.d/members.lock  held by every process that may commit
    PATH.d/*.sock        where each process listens for hints

Must not know: revisions, events, loops. See also: `schema`, `locks`.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import apsw

from oarlock.meta.dataclass import dataclass
from oarlock.storage.backend import StorageError
from oarlock.storage.sql.reads import Meta
from oarlock.storage.sqlite.content import Content
from oarlock.storage.sqlite.locks import CommitLock, Membership, Presence, file_id, wait_until_settled
from oarlock.storage.sqlite.schema import connect, create_file, prepare, translate

__all__ = ["Files", "Peers"]

_SUFFIX = ".sock"
_MESSAGE_BYTES = 256


class Peers:
    """This process's socket and those of the others.

    All methods but `receive` and `close` may be called in any thread.
    """

    def __init__(self, folder: Path) -> None:
        self._name: Final = f"{os.getpid()}-{secrets.token_hex(4)}{_SUFFIX}"
        self._others: tuple[str, ...] = ()
        self._folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        # A unix socket address has at most 107 bytes; relative to the open folder it is short for any path.
        short = f"/proc/self/fd/{self._folder_fd}"
        self._prefix: Final = short if os.path.isdir(short) else str(folder)
        self.socket: Final = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        try:
            self.socket.bind(self._address(self._name))
        except OSError as error:
            self.socket.close()
            os.close(self._folder_fd)
            raise StorageError(
                f"cannot make a socket in {folder} ({error.strerror or error}): use a local disk and a shorter path"
            ) from None
        self.refresh()

    def refresh(self) -> tuple[str, ...]:
        """List the sockets again; those of dead processes are removed."""
        names = os.listdir(self._folder_fd)
        self._others = tuple(name for name in names if name.endswith(_SUFFIX) and name != self._name)
        self.send(b"p")
        return self._others

    def send(self, message: bytes) -> None:
        """Send to all others. Never blocks: a process with a full buffer will look at the store anyway."""
        for name in self._others:
            try:
                self.socket.sendto(message, self._address(name))
            except BlockingIOError:
                pass
            except (ConnectionRefusedError, FileNotFoundError):
                self._forget(name)
            except OSError:
                # An unreachable peer finds out by polling; a writer must not fail for it.
                pass

    def ask_to_join(self) -> str:
        """Ask the process that is alone to share; returns who was asked, for an error message."""
        others = self.refresh()
        self.send(b"j " + self._name.encode())
        pids = sorted({name.partition("-")[0] for name in others})
        return f" (pid {', '.join(pids)})" if pids else ""

    def receive(self) -> set[bytes]:
        """The kinds of messages that have arrived, each once."""
        kinds: set[bytes] = set()
        while True:
            try:
                message = self.socket.recv(_MESSAGE_BYTES)
            except (BlockingIOError, OSError):
                return kinds
            kind, _, name = message.partition(b" ")
            kinds.add(kind)
            if kind == b"j" and (joiner := name.decode(errors="replace")) not in self._others:
                self._others = (*self._others, joiner)

    def close(self) -> None:
        self.socket.close()
        try:
            os.unlink(self._name, dir_fd=self._folder_fd)
        except OSError:
            pass
        os.close(self._folder_fd)

    def _forget(self, name: str) -> None:
        # Names are never used twice, so a name that refuses a connection belongs to a dead process.
        self._others = tuple(other for other in self._others if other != name)
        try:
            os.unlink(name, dir_fd=self._folder_fd)
        except OSError:
            pass

    def _address(self, name: str) -> str:
        return f"{self._prefix}/{name}"


_CACHES_KIB = (8_192, 4_096, 256, 256, 256)
"""How much each of the connections caches, in the order of the fields of `Files`."""

log = logging.getLogger("oarlock.storage.sqlite")


@dataclass(frozen=True, slots=True)
class Files:
    """An open store. `connection` is the writer's; the others are handed to the readers."""

    path: Path
    meta: Meta
    peers: Peers
    membership: Membership
    commit_lock: CommitLock
    presence: Presence
    content: Content
    connection: apsw.Connection
    reads: apsw.Connection
    tail: apsw.Connection
    check: apsw.Connection
    """For looking through the store. Open from the start: one that is opened later makes the log if it is missing."""
    sync_reader: apsw.Connection
    """For the event loop itself, which must never wait: it doesn't retry what is busy."""

    @property
    def log_path(self) -> Path:
        """SQLite's write-ahead log, which is there as long as a connection is."""
        real = self.path.resolve()
        return real.with_name(f"{real.name}-wal")

    @classmethod
    def open(cls, path: Path, *, create: bool, join_timeout_s: float) -> Files:
        """Open or create the files. Blocks on the disk and on a process that holds the store alone.

        Raises `StorageError` with a one-line message.
        """
        fresh = create_file(path, create) or path.stat().st_size == 0
        before = file_id(path)
        # Symbolic links are resolved, so all processes use the same folder.
        real = path.resolve()
        folder = real.with_name(real.name + ".d")
        new_folder = not folder.exists()
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            peers = Peers(folder)
        except OSError as error:
            raise StorageError(f"cannot open the store {path}: {folder}: {error.strerror}") from None
        undo = ExitStack()
        undo.callback(peers.close)
        try:
            membership = Membership(folder / "members.lock", peers.ask_to_join, join_timeout_s)
            undo.callback(membership.close)
            if new_folder:
                undo.callback(_remove_if_alone, membership, folder)
            membership.enter()
            if not fresh:
                wait_until_settled(folder / "members.lock")
            commit_lock = CommitLock(folder / "commit.lock")
            undo.callback(commit_lock.close)
            connections: list[apsw.Connection] = []
            with commit_lock.held():
                for cache_kib in _CACHES_KIB:
                    connections.append(connect(path, cache_kib=cache_kib))
                    undo.callback(connections[-1].close)
                    # The first read opens the write-ahead log: so all connections have the current one.
                    meta = prepare(connections[-1], path)
            connections[-1].set_busy_timeout(0)
            presence = Presence(path, real, folder)
            if file_id(path) != before:
                raise StorageError(f"cannot open the store {path}: it was replaced in this moment; try again")
            content = Content(path, meta.epoch, connections[0])
        except BaseException as error:
            undo.close()
            if isinstance(error, (OSError, apsw.Error)):
                raise StorageError(f"cannot open the store {path}: {translate(error, str(path))}") from error
            raise
        return cls(path, meta, peers, membership, commit_lock, presence, content, *connections)

    def leave(self) -> None:
        """Close only the socket: the writer thread still uses the rest, until the process ends."""
        self.sync_reader.close()
        self.peers.close()

    def close(self) -> None:
        """Close what the readers haven't closed. SQLite's last checkpoint happens under the commit lock."""
        self.sync_reader.close()
        self.check.close()
        with self.commit_lock.held():
            if self.presence.check() or not self.is_ours():
                # The last close checkpoints into the file and unlinks the log by name: by now another store's, perhaps.
                self.connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            self.connection.close()
        self.content.close()
        self.membership.close()
        self.commit_lock.close()
        self.peers.close()

    def check_content(self) -> None:
        """Detect that another store was copied over the file. Called between two commits of this process."""
        with self.commit_lock.held():
            self.is_ours()

    def is_ours(self) -> bool:
        """Whether a commit may build on the file: its pages and those of the log belong to one store.

        Call it under the commit lock, before any page is moved.
        """
        if self.content.changed() and (why := self.content.problem()):
            self.presence.mark_replaced(why)
        return not self.presence.problem

    def save(self) -> None:
        """Checkpoint acknowledged writes that are only in a write-ahead log whose file was unlinked."""
        with self.commit_lock.held():
            if self.presence.only_log_missing() and not (self.content.changed() and self.content.problem()):
                self.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_FULL)
                log.warning("everything that was acknowledged has been moved into %s", self.path)


def _remove_if_alone(membership: Membership, folder: Path) -> None:
    """Remove the files again, unless other processes have joined meanwhile."""
    if membership.alone:
        shutil.rmtree(folder, ignore_errors=True)
