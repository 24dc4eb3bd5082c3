"""The file of a backup: everything that a store holds at one revision, whatever its backend.

    the line "oarlock backup 1"
    head      revision, time it was made, epoch
    record …  key, value, the revisions it was created and changed at, when it expires; keys ascend
    tail      number of records, SHA-256 of all before

Head and records end with a CRC-32 of their own, so that damage is found where it is. Numbers are big-endian. A file is
written under a temporary name and gets its own when it is on the disk. It is read twice: once to check all of it,
which collects where the records are, then record by record.

Must not know: stores. See also: `backup`, `restore`.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import BinaryIO, Final

from oarlock.meta.dataclass import dataclass
from oarlock.storage.backend import KV, Rev, StorageError

__all__ = [
    "BackupFileError",
    "BackupHead",
    "BackupReader",
    "BackupWriter",
    "FileError",
    "as_file_error",
    "whole_file",
    "written_backup",
]


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


_MAGIC = b"oarlock backup 1\n"
_NAME = b"oarlock backup "
_HEAD = struct.Struct(">QqH")
_RECORD = struct.Struct(">HIQQq")
_TAIL = struct.Struct(">Q32s")
_CRC = struct.Struct(">I")
_A_RECORD, _THE_TAIL = b"R", b"E"
_NEVER = -1

_MOST_VALUE = 64 * 1024 * 1024
"""No store takes a value of this size: the length itself is damaged."""


class BackupFileError(FileError):
    """A file that is no whole backup. The message is one line."""


@dataclass(frozen=True, slots=True)
class BackupHead:
    """What a backup is of. `made_ms` is in epoch milliseconds."""

    epoch: str
    rev: Rev
    made_ms: int


class BackupWriter:
    """Appends to an open file."""

    def __init__(self, file: BinaryIO, head: BackupHead) -> None:
        self._file: Final = file
        self._digest: Final = hashlib.sha256()
        self._records = 0
        epoch = head.epoch.encode()
        self._write(_MAGIC)
        self._write(_with_crc(_HEAD.pack(head.rev, head.made_ms, len(epoch)) + epoch))

    def add(self, kvs: Iterable[KV]) -> None:
        """Append records; their keys ascend."""
        parts: list[bytes] = []
        for kv in kvs:
            key = kv.key.encode()
            expires = _NEVER if kv.expires is None else kv.expires
            fixed = _RECORD.pack(len(key), len(kv.value), kv.create_rev, kv.mod_rev, expires)
            parts.append(_A_RECORD)
            parts.append(_with_crc(b"".join((fixed, key, kv.value))))
            self._records += 1
        self._write(b"".join(parts))

    def finish(self) -> None:
        """Append the tail."""
        self._write(_THE_TAIL)
        self._file.write(_TAIL.pack(self._records, self._digest.digest()))

    def _write(self, part: bytes) -> None:
        self._digest.update(part)
        self._file.write(part)


def _with_crc(part: bytes) -> bytes:
    return part + _CRC.pack(zlib.crc32(part))


@contextmanager
def written_backup(path: Path, head: BackupHead) -> Iterator[BackupWriter]:
    """A context manager: `path` is a whole backup once it ends, readable by its owner only.

    Nothing is at `path`, or what was there before, if it ends with an error. Raises `FileError`.
    """
    with whole_file(path) as file:
        writer = BackupWriter(file, head)
        yield writer
        writer.finish()


@dataclass(slots=True)
class _RecordPlace:
    """Where a record is."""

    mod_rev: Rev
    offset: int


@dataclass(slots=True)
class BackupReader:
    """A backup that is being read. `check` comes first, `records` after it.

    `digest` tells it from other backups. Takes about 100 bytes of memory for each record, and one record at a time.
    """

    path: Path
    head: BackupHead
    digest: str = ""
    _places: list[_RecordPlace] = field(default_factory=list)
    _file: BinaryIO = field(init=False, repr=False)
    _size: int = 0

    def __init__(self, path: Path) -> None:
        self.path = path
        self._places = []
        with as_file_error(path):
            self._file = open(path, "rb")  # noqa: SIM115 (closed by `close`)
        try:
            with as_file_error(path):
                self._size = os.fstat(self._file.fileno()).st_size
                self.head = self._read_head()
        except BaseException:
            self._file.close()
            raise

    @property
    def count(self) -> int:
        """How many records there are."""
        return len(self._places)

    def close(self) -> None:
        self._file.close()

    def _read_head(self) -> BackupHead:
        magic = self._file.read(len(_MAGIC))
        if magic != _MAGIC:
            if magic and _MAGIC.startswith(magic):
                raise self._truncated()
            if magic.startswith(_NAME):
                raise BackupFileError(f"{self.path}: was made by a newer oarlock; restore it with that")
            raise BackupFileError(f"{self.path}: isn't a backup of `oarlock storage backup`")
        fixed = self._take(_HEAD.size)
        rev, made_ms, length = _HEAD.unpack(fixed)
        epoch = self._take(length)
        self._check_crc(fixed + epoch, len(_MAGIC))
        return BackupHead(epoch.decode(errors="replace"), rev, made_ms)

    def check(self) -> Iterator[int]:
        """Read all of it, and yield now and then how many bytes were read. Raises `BackupFileError`."""
        digest = hashlib.sha256()
        self._file.seek(0)
        with as_file_error(self.path):
            head = len(_MAGIC) + _HEAD.size + len(self.head.epoch.encode()) + _CRC.size
            digest.update(self._take(head))
            last, reported = "", 0
            while (kind := self._take(1)) == _A_RECORD:
                offset = self._file.tell()
                kv, content = self._record(offset)
                if kv.key <= last or not 0 < kv.create_rev <= kv.mod_rev <= self.head.rev:
                    raise self._damaged(offset)
                last = kv.key
                digest.update(kind)
                digest.update(content)
                self._places.append(_RecordPlace(kv.mod_rev, offset))
                if offset - reported >= 1024 * 1024:
                    reported = offset
                    yield offset
            self._check_tail(kind, digest)

    def _check_tail(self, kind: bytes, digest: hashlib._Hash) -> None:
        at = self._file.tell() - 1
        digest.update(kind)
        if kind != _THE_TAIL:
            raise self._damaged(at)
        records, expected = _TAIL.unpack(self._take(_TAIL.size))
        if expected != digest.digest() or records != len(self._places) or self._file.tell() != self._size:
            raise self._damaged(at)
        self.digest = digest.hexdigest()

    def records(self) -> Iterator[KV]:
        """Every record, in the order in which the keys were last changed."""
        with as_file_error(self.path):
            for place in sorted(self._places, key=lambda location: location.mod_rev):
                self._file.seek(place.offset)
                yield self._record(place.offset)[0]

    def _record(self, offset: int) -> tuple[KV, bytes]:
        """The record at the file's position, and its bytes."""
        fixed = self._take(_RECORD.size)
        key_length, value_length, create_rev, mod_rev, expires = _RECORD.unpack(fixed)
        if value_length > _MOST_VALUE:
            raise self._damaged(offset)
        body = self._take(key_length + value_length)
        crc = self._check_crc(fixed + body, offset)
        try:
            key = body[:key_length].decode()
        except UnicodeDecodeError:
            raise self._damaged(offset) from None
        kv = KV(key, body[key_length:], mod_rev, create_rev, None if expires == _NEVER else expires)
        return kv, fixed + body + crc

    def _check_crc(self, part: bytes, offset: int) -> bytes:
        crc = self._take(_CRC.size)
        if _CRC.unpack(crc)[0] != zlib.crc32(part):
            raise self._damaged(offset)
        return crc

    def _take(self, size: int) -> bytes:
        part = self._file.read(size) if size <= self._size else b""
        if len(part) < size:
            raise self._truncated()
        return part

    def _truncated(self) -> BackupFileError:
        return BackupFileError(
            f"{self.path}: is cut off after {self._size} bytes and {len(self._places)} keys: use a whole backup"
        )

    def _damaged(self, offset: int) -> BackupFileError:
        where = f"at byte {offset}, after {len(self._places)} keys"
        return BackupFileError(f"{self.path}: is damaged {where}: use another backup, or another copy of this one")
