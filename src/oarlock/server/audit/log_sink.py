"""`LogSink`: events as lines of a file, or of standard output.

A regular file takes a line in some microseconds, so the blocking modes write it at once. A pipe or a terminal may take
none for as long as nobody reads it: there requests wait, each until its own deadline, and the server goes on.
Source: k8s.io/apiserver ``plugin/pkg/audit/log``.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import gzip
import logging
import os
import re
import shutil
import stat
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue

from oarlock.client.clock import TimerClock
from oarlock.meta.context import Clock
from oarlock.meta.dataclass import dataclass
from oarlock.policy.audit.event import AuditEvent
from oarlock.server.audit.buffer import Batching, EventBuffer
from oarlock.server.audit.sink import AuditSink, Failures, SinkModes, Truncation
from oarlock.server.files.credentials import locked

log = logging.getLogger("oarlock.audit")

LOOK_INTERVAL_S = 1.0
COMPLAINT_INTERVAL_S = 60.0
MEGABYTE = 1024 * 1024
_DAY_S = 86400.0
_TIME = "%Y-%m-%dT%H-%M-%S"
_BACKUP = r"-(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d)\.\d{3}(?:-\d+)?"


@dataclass(frozen=True, slots=True)
class Rotation:
    """When a file is rotated, and what of the old ones is kept. 0 is no limit."""

    max_bytes: int = 100 * MEGABYTE
    max_backups: int = 100
    max_age_days: int = 366
    compress: bool = False


class LogFile:
    """The file at `path`, created if missing. `later` runs what may take long in another thread. Raises OSError."""

    def __init__(
        self, path: Path, rotation: Rotation, clock: Clock, later: Callable[[Callable[[], None]], None]
    ) -> None:
        self.path = path
        self._rotation = rotation
        self._clock = clock
        self._later = later
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = -1
        self._inode = 0
        self._size = 0
        self._torn = False
        self.is_regular = True
        self._open()
        self._look_due = clock.monotonic() + LOOK_INTERVAL_S
        self._complain_due = clock.monotonic()

    def write(self, data: bytes) -> None:
        """Append `data`, whole lines. Raises OSError."""
        if self._clock.monotonic() >= self._look_due:
            self._look()
        limit = self._rotation.max_bytes
        if limit and self.is_regular and self._size and self._size + len(data) > limit:
            self._rotate(len(data))
        if self._file < 0:
            self._open()
        if self._torn:  # the disk was full in the middle of a line: what comes now begins another one
            self._size += os.write(self._file, b"\n")
            self._torn = False
        written = 0
        while written < len(data):
            try:
                count = os.write(self._file, data[written:] if written else data)
            except OSError:
                self._torn = written > 0
                raise
            written += count
            self._size += count

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _open(self) -> None:
        access = os.O_RDWR if self.path.is_fifo() else os.O_WRONLY  # a pipe for writing only waits for its reader
        file = os.open(self.path, access | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY, 0o600)
        self.close()
        self._file = file
        status = os.fstat(file)
        self._inode, self._size = status.st_ino, status.st_size
        self.is_regular = stat.S_ISREG(status.st_mode)

    def _look(self) -> None:
        """Find out whether another process has rotated the file, or written to it."""
        self._look_due = self._clock.monotonic() + LOOK_INTERVAL_S
        if not self.is_regular:
            return
        try:
            status = os.stat(self.path)
        except OSError:
            status = None
        if status is not None and status.st_ino == self._inode:
            self._size = status.st_size
        else:
            with contextlib.suppress(OSError):  # its folder is gone: the old file takes what there is
                self._open()

    def _rotate(self, room: int) -> None:
        try:
            with locked(self.path.parent):
                self._look()
                if self._size and self._size + room > self._rotation.max_bytes:
                    os.rename(self.path, self._backup_name())
                    self._open()
        except OSError as error:
            if self._clock.monotonic() >= self._complain_due:
                self._complain_due = self._clock.monotonic() + COMPLAINT_INTERVAL_S
                log.error("%s can't be rotated and keeps growing: %s", self.path, error)
        else:
            self._later(self._tidy)

    def _backup_name(self) -> Path:
        now = self._clock.now()
        moment = datetime.fromtimestamp(now, UTC).strftime(_TIME)
        stem = f"{self.path.stem}-{moment}.{int(now * 1000) % 1000:03d}"
        names = [f"{stem}{self.path.suffix}", *(f"{stem}-{i}{self.path.suffix}" for i in range(1, 100))]
        for name in names:
            candidate = self.path.with_name(name)
            if not candidate.exists() and not candidate.with_name(f"{name}.gz").exists():
                return candidate
        raise OSError(errno.EEXIST, "a hundred files were rotated in a millisecond", str(self.path))

    def backups(self) -> list[Path]:
        """The rotated files, newest first."""
        return [path for _, path in sorted(self._backups(), reverse=True)]

    def _backups(self) -> Iterator[tuple[str, Path]]:
        suffix = re.escape(self.path.suffix)
        pattern = re.compile(f"{re.escape(self.path.stem)}({_BACKUP}){suffix}(?:\\.gz)?")
        for path in self.path.parent.iterdir():
            match = pattern.fullmatch(path.name)
            if match:
                yield match[1], path

    def _tidy(self) -> None:
        """Remove what is too old or too much, and compress the rest. One process at a time does; others leave it."""
        rotation = self._rotation
        oldest = self._clock.now() - rotation.max_age_days * _DAY_S
        try:
            with open(self.path.with_name(f".{self.path.name}.tidy"), "ab") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for count, path in enumerate(self.backups()):
                    outnumbered = rotation.max_backups and count >= rotation.max_backups
                    if outnumbered or (rotation.max_age_days and _time_in(path.name) < oldest):
                        path.unlink(missing_ok=True)
                    elif rotation.compress and path.suffix != ".gz":
                        _compress(path)
        except BlockingIOError:
            return
        except OSError as error:
            log.error("old audit logs of %s can't be removed: %s", self.path, error)


def _time_in(name: str) -> float:
    found = re.findall(_BACKUP, name)
    with contextlib.suppress(ValueError, IndexError):
        return datetime.strptime(found[-1], _TIME).replace(tzinfo=UTC).timestamp()
    return float("inf")


def _compress(path: Path) -> None:
    packed = path.with_name(f"{path.name}.gz")
    temporary = path.with_name(f".{path.name}.gz.new")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with path.open("rb") as source, os.fdopen(descriptor, "wb") as raw, gzip.open(raw, "wb") as out:
            shutil.copyfileobj(source, out, MEGABYTE)
        os.replace(temporary, packed)
        path.unlink()
    finally:
        temporary.unlink(missing_ok=True)


PLUGIN = "log"
STDOUT = 1


@dataclass(frozen=True, slots=True)
class LogSettings:
    """How events are logged. `path` is None for standard output."""

    path: Path | None
    rotation: Rotation
    mode: str
    batching: Batching
    legacy: bool = False
    truncation: Truncation | None = None


class StandardOutput:
    """Standard output in the place of a file, without rotation."""

    def __init__(self) -> None:
        self.is_regular = stat.S_ISREG(os.fstat(STDOUT).st_mode)

    def write(self, data: bytes) -> None:
        while data:
            data = data[os.write(STDOUT, data) :]

    def close(self) -> None:
        """It isn't ours."""


class LogSink(AuditSink):
    """Writes lines to the file that `settings` name. Raises OSError if it can't be opened."""

    def __init__(self, settings: LogSettings, clock: TimerClock, failures: Failures) -> None:
        self._legacy = settings.legacy
        self._mode = settings.mode
        self._thread = _Thread()
        self._file: LogFile | StandardOutput
        if settings.path is None:
            self._file = StandardOutput()
        else:
            self._file = LogFile(settings.path, settings.rotation, clock, self._tidy_later)
        self._buffer: EventBuffer | None = None
        if settings.mode == SinkModes.BATCH or not self._file.is_regular:
            self._buffer = EventBuffer(self._send, settings.batching, clock, failures)
        prompt = settings.mode == SinkModes.BATCH or (settings.mode == SinkModes.BLOCKING and self._buffer is None)
        # Other forms of an event are made from its record, so it must not wait for the next stage.
        prompt = prompt and not settings.legacy and settings.truncation is None
        super().__init__(settings.truncation, failures, prompt=prompt)

    def write_all(self, events: Sequence[AuditEvent]) -> Sequence[Awaitable[bool] | bool]:
        if self._buffer is not None or self._legacy or self._truncation is not None:
            return super().write_all(events)
        data = b"%s\n" % events[0].line if len(events) == 1 else b"".join([event.line + b"\n" for event in events])
        return (self._append(data, len(events)) or self._mode != SinkModes.STRICT,)

    def _write(self, event: AuditEvent) -> Awaitable[bool] | bool:
        line = (event.legacy() if self._legacy else event.line) + b"\n"
        buffer = self._buffer
        if buffer is None:
            return self._append(line, 1) or self._mode != SinkModes.STRICT
        if self._mode == SinkModes.BATCH:
            buffer.put(line)
            return True
        return self._when_written(buffer.put_and_wait(line))

    async def _when_written(self, written: Awaitable[bool] | bool) -> bool:
        good = written if isinstance(written, bool) else await written
        return good or self._mode != SinkModes.STRICT

    async def _send(self, lines: Sequence[bytes]) -> bool:
        loop = asyncio.get_running_loop()
        written: asyncio.Future[bool] = loop.create_future()
        data = b"".join(lines)

        def write() -> None:
            good = self._append(data, len(lines))
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_resolve, written, good)

        self._thread.run(write)
        return await written

    def _append(self, data: bytes, events: int) -> bool:
        try:
            self._file.write(data)
        except OSError as error:
            self._failures.report(PLUGIN, events, f"{error.filename or 'the audit log'}: {error.strerror}")
            return False
        return True

    def _tidy_later(self, tidy: Callable[[], None]) -> None:
        self._thread.run(tidy)

    async def close(self, timeout_s: float) -> None:
        if self._buffer is not None:
            await self._buffer.close(timeout_s)
        self._thread.run(self._file.close)
        self._thread.end()


class _Thread:
    """One thread for what may take long, started when needed. A process that ends doesn't wait for it."""

    def __init__(self) -> None:
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._started = False

    def run(self, step: Callable[[], None]) -> None:
        self._work.put(step)
        if not self._started:
            self._started = True
            threading.Thread(target=self._loop, name="audit-log", daemon=True).start()

    def end(self) -> None:
        """End it after what was asked for."""
        self._work.put(None)

    def _loop(self) -> None:
        while (step := self._work.get()) is not None:
            try:
                step()
            except Exception:
                log.exception("a step of the audit log failed")


def _resolve(written: asyncio.Future[bool], good: bool) -> None:
    if not written.done():
        written.set_result(good)
