"""`LogSink`: events as lines of a file, or of standard output.

A regular file takes a line in some microseconds, so the blocking modes write it at once. A pipe or a terminal may take
none for as long as nobody reads it: there requests wait, each until its own deadline, and the server goes on.
Source: k8s.io/apiserver ``plugin/pkg/audit/log``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import stat
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from queue import SimpleQueue

from oarlock.client.clock import TimerClock
from oarlock.meta.dataclass import dataclass
from oarlock.policy.audit.event import AuditEvent
from oarlock.server.audit.buffer import Batching, EventBuffer
from oarlock.server.audit.log_file import LogFile, Rotation
from oarlock.server.audit.sink import AuditSink, Failures, SinkModes, Truncation

__all__ = ["LogSettings", "LogSink", "StandardOutput"]

log = logging.getLogger("oarlock.audit")

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
