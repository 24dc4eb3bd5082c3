"""Two locks between processes, both ``flock(2)``: the kernel releases them when their holder dies.

The *commit lock* is held around every commit and checkpoint. It is a fair queue, while SQLite's own busy handler
may let a waiting process starve for seconds.

The *membership lock* makes `known_rev` safe. A process may commit only while it holds this lock:
exclusively (it is alone, and its own counter is the store's) or shared (others may write too). A process that finds
it held exclusively asks the holder to share, and can't commit before that has happened. A lock belongs to a file, not
to its name: after locking, a process checks that the file is the one others would open.

Must not know: SQLite, revisions. Used by who commits: the writer thread, or the loop when this process is alone.
See also: `files`, for how one asks.
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from oarlock.storage.backend import Unavailable

__all__ = [
    "CHECK_S",
    "CommitLock",
    "Displaced",
    "FileId",
    "FilesMissing",
    "Membership",
    "Presence",
    "file_id",
    "wait_until_settled",
]

CHECK_S = 0.02
"""For how long a look at the path is good enough for a read. Writes are never answered without one of their own."""

SETTLED_S = 3 * CHECK_S

log = logging.getLogger("oarlock.storage.sqlite")

FileId = tuple[int, int]
"""Device and inode: what tells two files of one name apart."""


class FilesMissing(Unavailable):
    """A file of the store was deleted, moved or replaced; nothing was done."""


def file_id(path: str | Path) -> FileId | None:
    """The identity of the file at `path`, None when there is none."""
    try:
        actual = os.stat(path)
    except OSError:
        return None
    return actual.st_dev, actual.st_ino


def wait_until_settled(lock: Path) -> None:
    """Wait until no process trusts a counter that was made safe by a lock in another file.

    A process that was alone by a lock file which was then removed may answer reads for at most `CHECK_S` seconds after
    the file at `lock` replaced it. Until then, the holder of the new lock must not write.
    """
    age = time.time() - os.stat(lock).st_ctime
    if 0 <= age < SETTLED_S:
        time.sleep(SETTLED_S - age)


class Presence:
    """Made once all files are open. `path` is the name of the store, `real` the resolved path, `folder` has its locks.

    `problem` is the result of the last check, one line, or ``""``. If it is empty, no new check is needed before
    `good_until`, in monotonic seconds. Used from any thread.
    """

    def __init__(self, path: Path, real: Path, folder: Path) -> None:
        self._path: Final = path.absolute()
        self._log: Final = f"{real}-wal"
        self._store: Final = tuple((file, file_id(file)) for file in (str(self._path), self._log))
        others = (f"{real}-shm", folder / "members.lock", folder / "commit.lock")
        self._others: Final = tuple((str(file), file_id(file)) for file in others)
        self._lock: Final = threading.Lock()
        self._replaced = ""
        self.good_until = 0.0
        self.problem = ""

    def check(self) -> str:
        """Check all files; what is wrong, or ``""``. Logs when a problem begins and when it ends."""
        began = time.monotonic()
        return self._set(self._compared(), began + CHECK_S)

    def checked_lately(self) -> bool:
        """Whether the last check, a moment ago, was good. Enough for a read."""
        return time.monotonic() < self.good_until or not self.check()

    def confirm(self) -> bool:
        """Whether what has just been committed is in the file that the next process would open."""
        if not self.checked_lately():
            return False
        for file, expected in self._store:
            if file_id(file) != expected:
                return not self.check()
        return True

    def ensure(self) -> None:
        """Raise `FilesMissing` unless the last check, a moment ago, was good."""
        if not self.checked_lately():
            raise FilesMissing(self.problem, 5.0)

    def ensure_now(self) -> None:
        """Raise `FilesMissing` unless a check now is good."""
        if self.check():
            raise FilesMissing(self.problem, 5.0)

    def mark_replaced(self, why: str) -> None:
        """The content was replaced: only a restart helps."""
        self._replaced = f"{self._path} {why} while this server runs: it writes and reads nothing more, restart it"
        self._set("", 0.0)

    def only_log_missing(self) -> bool:
        """Whether only the name of the write-ahead log is missing, and nobody can have created a new one."""
        return (
            not self._replaced
            and file_id(self._log) is None
            and all(file_id(file) == expected for file, expected in (self._store[0], *self._others[1:]))
        )

    def _compared(self) -> str:
        for file, expected in (*self._store, *self._others):
            actual = file_id(file)
            if actual != expected:
                what = "was deleted or moved away" if actual is None else "was replaced by another file"
                return (
                    f"{file} {what} while this server runs: it writes and reads nothing more until that file is back; "
                    "if it doesn't come back, restart the server"
                )
        return ""

    def _set(self, problem: str, good_until: float) -> str:
        with self._lock:
            problem = self._replaced or problem
            before, self.problem = self.problem, problem
            self.good_until = 0.0 if problem else good_until
        if problem and not before:
            log.error("the store is gone: %s", problem)
        elif before and not problem:
            log.warning("the store is back: %s is unchanged, and the server continues", self._path)
        return problem


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
