"""Writes a file that is there completely or not at all.

It is written as ``NAME.partial``, in the same folder, and gets its name when it is on the disk.

Must not know: what is in it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from oarlock.storage.backend import StorageError

__all__ = ["FileError", "as_file_error", "whole_file"]


class FileError(StorageError):
    """A file that can't be written or read. The message is one line that names it."""


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A context manager for a file to write, readable by its owner only, that is at `path` once the block ends.

    Nothing is at `path`, or what was there before, if it ends with an error. Raises `FileError`.
    """
    partial = path.with_name(path.name + ".partial")
    with as_file_error(path):
        if path.is_dir():
            raise FileError(f"{path}: is a directory; name a file in it")
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        with open(partial, "wb", opener=lambda name, _: os.open(name, flags, 0o600)) as file:
            _claim(file, partial)
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
                os.replace(partial, path)
            except BaseException:
                partial.unlink(missing_ok=True)
                raise
        _sync_folder(path.parent)


def _claim(file: BinaryIO, partial: Path) -> None:
    """Make sure that nobody else writes this file, and empty it: one that was ended by force has left it."""
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        mine, there = os.fstat(file.fileno()), os.stat(partial)
    except (BlockingIOError, FileNotFoundError):
        raise FileError(f"{partial}: another process is writing this file") from None
    if (mine.st_dev, mine.st_ino) != (there.st_dev, there.st_ino):
        raise FileError(f"{partial}: another process is writing this file")
    os.fchmod(file.fileno(), 0o600)
    file.truncate(0)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def as_file_error(path: Path) -> Iterator[None]:
    """A context manager that turns an OSError into a `FileError` about `path`."""
    try:
        yield
    except OSError as error:
        raise FileError(f"{path}: {error.strerror or error}") from error
