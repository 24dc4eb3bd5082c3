"""The sinks of audit events: `EventBuffer` sends them in batches, `LogSink` and what rotates its file writes them.

The buffer is bounded in events and in bytes, those in transmission included. What doesn't fit is dropped, so that a
slow sink never holds up a request. Source: k8s.io/apiserver ``plugin/pkg/audit/buffered``.
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
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from oarlock.client.clock import TimerClock
from oarlock.meta.context import Clock
from oarlock.meta.dataclass import dataclass
from oarlock.policy.audit.event import AuditEvent
from oarlock.server.audit.sink import AuditSink, Failures, SinkModes, Truncation
from oarlock.server.files.credentials import locked

BUFFER_BYTES = 64 * 1024 * 1024
"""The most bytes of events that wait for one sink, whatever their number."""

PLUGIN = "buffered"


@dataclass(frozen=True, slots=True)
class Throttle:
    """So many batches a second on average, and so many at once after a pause."""

    per_second: float
    burst: int


@dataclass(frozen=True, slots=True)
class Batching:
    """How many events wait at most, and how they are sent: `senders` batches at a time."""

    buffer_size: int
    max_size: int
    max_wait_s: float = 0.0
    max_bytes: int = BUFFER_BYTES
    throttle: Throttle | None = None
    senders: int = 1


class _WaitingEvent(NamedTuple):
    line: bytes
    written: asyncio.Future[bool] | None


Send = Callable[[Sequence[bytes]], Awaitable[bool]]


class EventBuffer:
    """Gives batches of lines to `send`, which says whether it took them, and never raises."""

    def __init__(self, send: Send, batching: Batching, clock: TimerClock, failures: Failures) -> None:
        self._send = send
        self._batching = batching
        self._clock = clock
        self._failures = failures
        self._waiting: deque[_WaitingEvent] = deque()
        self._events = 0
        self.held_bytes = 0
        self._changed = asyncio.Event()
        self._free = asyncio.Semaphore(batching.senders)
        self._sender: asyncio.Task[None] | None = None
        self._sending: set[asyncio.Task[None]] = set()
        self._closing = False
        self._tokens = float(batching.throttle.burst if batching.throttle else 0)
        self._refilled = clock.monotonic()

    def put(self, line: bytes) -> bool:
        """Take an event, or drop it if the buffer is full: whether it was taken."""
        return self._put(line, None)

    def put_and_wait(self, line: bytes) -> Awaitable[bool] | bool:
        """The same; await it to know whether the event was written."""
        written = asyncio.get_running_loop().create_future()
        return written if self._put(line, written) else False

    def _put(self, line: bytes, written: asyncio.Future[bool] | None) -> bool:
        if self._closing:
            self._failures.report(PLUGIN, 1, "the server is closing")
            return False
        if self._events >= self._batching.buffer_size or self.held_bytes + len(line) > BUFFER_BYTES:
            self._failures.report(PLUGIN, 1, "the buffer is full")
            return False
        if self._sender is None:
            self._sender = asyncio.create_task(self._run())
        self._waiting.append(_WaitingEvent(line, written))
        self._events += 1
        self.held_bytes += len(line)
        if len(self._waiting) in (1, self._batching.max_size):
            self._changed.set()
        return True

    async def close(self, timeout_s: float) -> None:
        """Send what is waiting; after `timeout_s` the rest is dropped."""
        self._closing = True
        self._changed.set()
        if self._sender is not None:
            await asyncio.wait({self._sender}, timeout=timeout_s)
            tasks = {self._sender, *self._sending}
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        if self._events:
            self._failures.report(PLUGIN, self._events, "the server closes, and they can't be sent")
        for waiting in self._waiting:
            if waiting.written is not None and not waiting.written.done():
                waiting.written.set_result(False)
        self._waiting.clear()

    async def _run(self) -> None:
        while not (self._closing and not self._waiting):
            if not self._waiting:
                self._changed.clear()
                await self._changed.wait()
                continue
            await self._fill()
            await self._throttled()
            await self._free.acquire()
            batch = self._next_batch()
            task = asyncio.create_task(self._deliver(batch))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)
        while self._sending:
            await asyncio.wait(set(self._sending))

    async def _fill(self) -> None:
        """Wait until a batch is full, or its time is up."""
        batching = self._batching
        if not batching.max_wait_s or batching.max_size == 1:
            return
        timer = asyncio.ensure_future(self._clock.sleep(batching.max_wait_s))
        try:
            while len(self._waiting) < batching.max_size and not timer.done() and not self._closing:
                self._changed.clear()
                changed = asyncio.ensure_future(self._changed.wait())
                try:
                    await asyncio.wait((timer, changed), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    changed.cancel()
        finally:
            timer.cancel()

    async def _throttled(self) -> None:
        throttle = self._batching.throttle
        if throttle is None or self._closing:
            return
        now = self._clock.monotonic()
        self._tokens = min(throttle.burst, self._tokens + (now - self._refilled) * throttle.per_second)
        self._refilled = now
        self._tokens -= 1
        if self._tokens < 0:
            await self._clock.sleep(-self._tokens / throttle.per_second)

    def _next_batch(self) -> list[_WaitingEvent]:
        batch: list[_WaitingEvent] = []
        size = 0
        while self._waiting and len(batch) < self._batching.max_size:
            size += len(self._waiting[0].line)
            if batch and size > self._batching.max_bytes:
                break
            batch.append(self._waiting.popleft())
        return batch

    async def _deliver(self, batch: Sequence[_WaitingEvent]) -> None:
        good = False
        try:
            good = await self._send([waiting.line for waiting in batch])
            self._events -= len(batch)  # those that are cancelled stay counted: nobody has them
        finally:
            self.held_bytes -= sum(len(waiting.line) for waiting in batch)
            self._free.release()
            for sent in batch:
                if sent.written is not None and not sent.written.done():
                    sent.written.set_result(good)


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


LOG_PLUGIN = "log"
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
            self._failures.report(LOG_PLUGIN, events, f"{error.filename or 'the audit log'}: {error.strerror}")
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
        """End it after the work that was requested."""
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
