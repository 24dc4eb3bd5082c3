"""Detects that the files of an open store were deleted, moved or replaced.

Such a file stays open and takes every write, but a process that opens the path later finds none of them. So a batch
of writes is acknowledged only after a check of the path, and a counter that is valid for the whole store is trusted
only for a moment after one. If the same file comes back to the path, the store continues; anything else needs a
restart.

Must not know: connections, threads. See also: `backend`, which checks; `locks`, whose files are checked here too.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from pathlib import Path
from typing import Final

from oarlock.storage.backend import Unavailable

__all__ = ["CHECK_S", "FileId", "FilesMissing", "Presence", "file_id", "wait_until_settled"]

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
            log.warning("the store is back: %s is as it was, and the server goes on", self._path)
        return problem
