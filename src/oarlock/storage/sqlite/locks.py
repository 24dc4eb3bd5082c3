"""Two locks between processes, both ``flock(2)``: freed by the kernel when their holder dies, however it dies.

The *commit lock* is held around every commit and checkpoint: a fair queue, where SQLite's own busy handler
lets a waiting process starve for seconds.

The *membership lock* is what makes `known_rev` safe. A process may commit only while it holds it:
exclusively (it is alone, and its own counter is the store's) or shared (others may write too). Whoever finds
it held exclusively asks the holder to share, and can't commit before that has happened. A lock is that of its file, not
of its name: whoever gets it makes sure that the file is the one others would open.

Must not know: SQLite, revisions. Used from the writer thread only. Next: `peers`, for how one asks.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from oarlock.storage.backend import Unavailable
from oarlock.storage.sqlite.presence import mark_of

__all__ = ["CommitLock", "Displaced", "Membership"]

_ASK_EVERY_S = 0.05
_LOOK_EVERY_S = 0.002


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


class CommitLock:
    """One committer at a time, in the order they asked."""

    def __init__(self, path: Path) -> None:
        self._fd = _open(path)

    @contextmanager
    def held(self) -> Iterator[None]:
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._fd)


class Displaced(Unavailable):
    """The lock's file was removed or replaced: holding it keeps nobody else out."""


class Membership:
    """This process's right to commit. `ask` tells every other process that somebody wants to join."""

    def __init__(self, path: Path, ask: Callable[[], str], timeout_s: float) -> None:
        self._fd = _open(path)
        self._path = path
        self._ask = ask
        self._timeout_s = timeout_s
        self.alone = False
        self._held = False

    def enter(self) -> None:
        """The first `join`. The file may go in the moment in which it is opened; then it is the one that is there."""
        while True:
            try:
                return self.join()
            except Displaced:
                os.close(self._fd)
                self._fd = _open(self._path)

    def join(self) -> None:
        """Get in: alone if nobody else is there, else beside the others. Raises `Unavailable` if they don't react."""
        if not self.try_alone():
            self.ensure()

    def try_alone(self) -> bool:
        """Become the only member if nobody else is. When this fails there is no membership until `ensure`."""
        # A failed conversion of a flock loses the lock that was held.
        self.alone = self._held = False
        self.alone = self._held = self._try(fcntl.LOCK_EX)
        return self.alone

    def share(self) -> None:
        """Let others in. The caller has made sure that `known_rev` is no longer answered."""
        self.alone = self._held = False
        self.ensure()

    def ensure(self) -> None:
        """Be a member, or raise `Unavailable`."""
        if self._held:
            return
        # Waiting on other processes is real time, whatever clock the keys expire by.
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
            time.sleep(_LOOK_EVERY_S)
        self._held = True

    def close(self) -> None:
        self.alone = self._held = False
        os.close(self._fd)

    def _try(self, how: int) -> bool:
        try:
            fcntl.flock(self._fd, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        found = os.fstat(self._fd)
        if mark_of(self._path) != (found.st_dev, found.st_ino):
            fcntl.flock(self._fd, fcntl.LOCK_UN)
            raise Displaced(f"{self._path} was removed or replaced: restart the server", 5.0)
        return True
