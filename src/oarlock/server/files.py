"""Files that a server makes for itself and keeps: tokens, keys, certificates, kubeconfigs.

Several servers may start at the same moment on one store, and any of them may be killed at any point. So who makes
files in a folder holds the folder's lock (``flock``, which the kernel frees however its holder ends) and looks again
once it has it; and a file appears under its name when it is whole.
Must not know: what is in them. Next: `credentials`, ``serving.certs``.
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

PATIENCE_S = 10.0
_LOOK_EVERY_S = 0.01


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Be the only one, of all processes and threads, that makes files in `folder`, which exists.

    Not to be nested. Raises OSError: for a folder that can't be opened, and when another process holds the lock for
    ten seconds. On a file system without such locks nothing is locked.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        give_up = time.monotonic() + PATIENCE_S
        while not _try(descriptor):
            if time.monotonic() >= give_up:
                why = f"another process has been making files in it for {PATIENCE_S:g} s: see if it is stopped"
                raise TimeoutError(errno.ETIMEDOUT, why, str(folder))
            time.sleep(_LOOK_EVERY_S)
        yield
    finally:
        os.close(descriptor)


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # network file systems may refuse; two first starts at once are then a race, as without any lock
    return True


def write_file(file: Path, content: bytes, mode: int) -> None:
    """Put a whole file in place of the old one, on the disk when this returns. Hold the lock of its folder.

    Others see the old content or the new. What a crash left behind is overwritten by the next. Raises OSError.
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
