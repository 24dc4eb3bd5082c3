"""Two locks between processes, both ``flock(2)``: the kernel releases them when their holder dies.

The *commit lock* is held around every commit and checkpoint. It is a fair queue, while SQLite's own busy handler
may let a waiting process starve for seconds.

The *membership lock* makes `known_rev` safe. A process may commit only while it holds this lock:
exclusively (it is alone, and its own counter is the store's) or shared (others may write too). A process that finds
it held exclusively asks the holder to share, and can't commit before that has happened. A lock belongs to a file, not
to its name: after locking, a process checks that the file is the one others would open.

Must not know: SQLite, revisions. Used by who commits: the writer thread, or the loop when this process is alone.
See also: `peers`, for how one asks.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from oarlock.storage.backend import Unavailable
from oarlock.storage.sqlite.presence import file_id

__all__ = ["CommitLock", "Displaced", "Membership"]

_ASK_EVERY_S = 0.05
_TRY_EVERY_S = 0.002


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


class CommitLock:
    """One committer at a time, in the order in which they asked."""

    def __init__(self, path: Path) -> None:
        self._fd = _open(path)

    @contextmanager
    def held(self) -> Iterator[None]:
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    @contextmanager
    def tried(self) -> Iterator[bool]:
        """The lock if it can be had without waiting; whether it was."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        try:
            yield True
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._fd)


class Displaced(Unavailable):
    """The lock's file was removed or replaced, so that the lock excludes no other process any more."""


class Membership:
    """This process's right to commit. `ask` tells the other processes that this one wants to join."""

    def __init__(self, path: Path, ask: Callable[[], str], timeout_s: float) -> None:
        self._fd = _open(path)
        self._path = path
        self._ask = ask
        self._timeout_s = timeout_s
        self.alone = False
        self._held = False

    def enter(self) -> None:
        """The first `join`. If the lock file is replaced while it is being opened, the new one is used."""
        while True:
            try:
                return self.join()
            except Displaced:
                os.close(self._fd)
                self._fd = _open(self._path)

    def join(self) -> None:
        """Become a member: alone if there is no other, else shared. Raises `Unavailable` if the others don't react."""
        if not self.try_alone():
            self.ensure()

    def try_alone(self) -> bool:
        """Become the only member if there is no other. If this fails there is no membership until `ensure`."""
        # flock(2): a failed conversion also loses the lock that was held.
        self.alone = self._held = False
        self.alone = self._held = self._try(fcntl.LOCK_EX)
        return self.alone

    def share(self) -> None:
        """Let others join. The caller must have made sure that `known_rev` is no longer answered."""
        self.alone = self._held = False
        self.ensure()

    def ensure(self) -> None:
        """Be a member, or raise `Unavailable`."""
        if self._held:
            return
        # Waiting for other processes takes real time, whatever clock the keys expire by.
        give_up = time.monotonic() + self._timeout_s
        next_ask = 0.0
        others = ""
        while not self._try(fcntl.LOCK_SH):
            now = time.monotonic()
            if now >= give_up:
                raise Unavailable(
                    f"another process{others} holds {self._path.parent} for itself and does not answer:"
                    " end that process, then try again",
                    retry_after_s=5.0,
                )
            if now >= next_ask:
                next_ask = now + _ASK_EVERY_S
                others = self._ask()
            time.sleep(_TRY_EVERY_S)
        self._held = True

    def close(self) -> None:
        self.alone = self._held = False
        os.close(self._fd)

    def _try(self, how: int) -> bool:
        try:
            fcntl.flock(self._fd, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        opened = os.fstat(self._fd)
        if file_id(self._path) != (opened.st_dev, opened.st_ino):
            fcntl.flock(self._fd, fcntl.LOCK_UN)
            raise Displaced(f"{self._path} was removed or replaced: restart the server", 5.0)
        return True
