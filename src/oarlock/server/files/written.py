"""Writes generated files: tokens, keys, certificates, kubeconfigs.

Several servers may start at the same moment on one store, and any may be killed at any point. So a writer holds the
directory's lock (``flock``, which the kernel releases when the process ends) and checks again once it has it; and a
file appears under its name only when it is complete.
Must not know: what is in them. See also: `credentials`, ``serving.certs``.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["locked", "write_file"]

LOCK_TIMEOUT_S = 10.0
_RETRY_INTERVAL_S = 0.01


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of `folder`, which must exist, against all processes and threads.

    Must not be nested. Raises OSError if the directory can't be opened, and after ten seconds if another process holds
    the lock. On a file system without locks nothing is locked.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + LOCK_TIMEOUT_S
        while not _try_lock(descriptor):
            if time.monotonic() >= deadline:
                why = f"another process has been making files in it for {LOCK_TIMEOUT_S:g} s: see if it is stopped"
                raise TimeoutError(errno.ETIMEDOUT, why, str(folder))
            time.sleep(_RETRY_INTERVAL_S)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # network file systems may not support locks; two first starts at once are then a race
    return True


def write_file(file: Path, content: bytes, mode: int) -> None:
    """Write or replace a file atomically, and sync it to disk. Hold the lock of its directory.

    Others see the old content or the new. A temporary file left by a crash is overwritten by the next call. Raises
    OSError.
    """
    temporary = file.with_name(f".{file.name}.new")
    temporary.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        os.replace(temporary, file)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
