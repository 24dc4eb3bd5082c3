"""`Supervisor`: the process of ``oarlock serve --workers N`` that starts the workers, and serves nothing itself.

It binds the port once and forks: every worker accepts from the same queue, so connections that wait in it when a worker
dies are accepted by another, on any system. The server's code was imported, and its options read, before: a worker that
is replaced later is the same program with the same options, whatever lies on the disk then.

- **At the start** nothing is tried twice: the first worker that fails ends the whole, with its error.
- **Later** a worker that ends is replaced, after a pause that grows while its lives are short. If they stay short, the
  whole ends, unless all that is wrong is that the store can't be reached.
- **SIGTERM and SIGINT** let all workers leave in order; a second one ends them at once.
- **SIGHUP** lets them look at their files at once. From a terminal that was closed it means to leave.

Must not know: what is served.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import logging
import os
import selectors
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import Any, NoReturn

from oarlock.client.clock import SystemClock
from oarlock.meta.dataclass import dataclass
from oarlock.net.backoff import Backoff
from oarlock.server.assembly.lifecycle import SharedParts, Terminal, serve_until, start_process
from oarlock.server.assembly.run import Running
from oarlock.server.config import ServerConfig
from oarlock.server.description import ServerDescription
from oarlock.server.serving.config import ServingConfig
from oarlock.server.serving.listener import bound_sockets
from oarlock.server.workers.exchange import AcceptShare, MetricsArea, MetricsExchange, WorkerTable
from oarlock.storage.backend import Unavailable

try:
    import uvloop
except ImportError:  # pragma: no cover - where it doesn't exist
    uvloop = None  # type: ignore[assignment]


log = logging.getLogger("oarlock.server")
REPORT_BYTES = 64 * 1024
"""How much of an error a worker tells its supervisor."""

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
ErrorText = Callable[[BaseException], str | None]
"""The line that tells an error a user can correct; None for any other error."""


@dataclass(frozen=True, slots=True)
class WorkerPlace:
    """What a worker gets from its supervisor.

    `channel` takes its reports. `lifeline` is at its end when the supervisor is gone.
    """

    number: int
    sockets: tuple[socket.socket, ...]
    channel: socket.socket
    lifeline: int
    share: AcceptShare
    exchange: MetricsExchange


def run_worker(server: ServerDescription, config: ServerConfig, place: WorkerPlace, error_text: ErrorText) -> int:
    """Serve until SIGTERM: the exit code."""
    _end_with_supervisor(place.lifeline)
    mark_log(f"worker {place.number}")
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop if uvloop else None) as runner:
            runner.run(_serve(server, config, place))
    except Exception as error:
        _report_error(place.channel, error, error_text)
        return 1
    return 0


def mark_log(name: str) -> None:
    """Put `name` into each line of the log."""
    for handler in logging.getLogger().handlers:
        handler.setFormatter(logging.Formatter(f"%(asctime)s %(levelname).1s [{name}] %(name)s: %(message)s"))


async def _serve(server: ServerDescription, config: ServerConfig, place: WorkerPlace) -> None:
    loop = asyncio.get_running_loop()
    leaving = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, leaving.set)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    terminal = _Lines()

    def started(running: Running) -> None:
        loop.add_signal_handler(signal.SIGHUP, running.check_files)
        place.share.ready = True
        place.share.report(0)  # at once: the next regular report is a second away
        _send(place.channel, {"ready": [terminal.message, terminal.result]})

    shared = SharedParts(place.sockets, place.share, place.exchange)
    try:
        await serve_until(leaving, start_process(server, config, SystemClock(), terminal, shared), started)
    finally:
        await place.exchange.close()


class _Lines:
    """A terminal that keeps the lines for the supervisor to print."""

    message = ""
    result = ""

    def print_message(self, line: str) -> None:
        self.message = line

    def print_result(self, line: str) -> None:
        self.result = line


def _report_error(channel: socket.socket, error: Exception, error_text: ErrorText) -> None:
    text = error_text(error)
    if text is None:
        text = f"a worker failed: {type(error).__name__}: {error}"
        traceback.print_exception(error)
    _send(channel, {"failed": text[:REPORT_BYTES], "again": isinstance(error, Unavailable)})


def _send(channel: socket.socket, report: dict[str, object]) -> None:
    try:
        channel.sendall(json.dumps(report).encode() + b"\n")
    except OSError:
        pass  # the supervisor is gone


def _end_with_supervisor(lifeline: int) -> None:
    """End this process when its supervisor ends, also while it is stopped or its event loop hangs."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    def wait() -> None:
        os.read(lifeline, 1)
        os._exit(1)

    threading.Thread(target=wait, name="oarlock: supervisor", daemon=True).start()


SHORT_LIFE_S = 10.0
"""A worker that ends sooner than this after its start has had a short life."""

SHORT_LIVES = 5
"""After so many short lives in a row, a worker isn't replaced any more."""

AGAIN = Backoff(0.5, 30.0)
"""How long to wait before a worker is replaced: twice as long after each short life."""

LEAVE_S = 30.0
"""How long workers may take to leave beyond what their options give them, in seconds, before they are killed."""

_SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD}


class WorkerFailed(Exception):
    """A worker can't be started, or doesn't live. The text says why, in one line."""


@dataclass
class _Worker:
    """One worker, in each of its lives."""

    number: int
    area: MetricsArea
    pid: int = 0
    channel: socket.socket | None = None
    started_at: float = 0.0
    is_ready: bool = False
    received: bytes = b""
    report: dict[str, Any] = field(default_factory=dict)
    short_lives: int = 0
    due: float | None = None


def serve_with_workers(
    server: ServerDescription, config: ServerConfig, terminal: Terminal, error_text: ErrorText
) -> int:
    """Serve with ``config.workers`` processes until a signal ends them: the exit code.

    Raises `CannotListen`, and `WorkerFailed` when a worker can't be started or doesn't live.
    """
    if server.storage is not None:
        raise WorkerFailed(
            f"--workers={config.workers}: APIServer(storage=…) works with one process only: leave one out"
        )
    sockets = bound_sockets(ServingConfig(host=config.bind_address, port=config.secure_port))
    table = WorkerTable(config.workers)
    areas = [MetricsArea() for _ in table.workers]

    def run(number: int, channel: socket.socket, lifeline: int) -> int:
        exchange = MetricsExchange(table, areas, number)
        share = AcceptShare(table, number)
        place = WorkerPlace(number, tuple(sockets), channel, lifeline, share, exchange)
        return run_worker(server, config, place, error_text)

    if threading.active_count() > 1:
        names = ", ".join(
            sorted(thread.name for thread in threading.enumerate() if thread is not threading.main_thread())
        )
        log.warning("threads that were started before the workers don't exist in them: %s", names)
    patience_s = config.shutdown_delay_s + config.request_timeout_s + LEAVE_S
    supervisor = Supervisor(run, table, areas, sockets, patience_s)
    mark_log("supervisor")
    code = supervisor.run(lambda lines: _print_usage(terminal, lines))
    if not code:
        terminal.print_message(f"{server.name}: stopped")
    return code


def _print_usage(terminal: Terminal, lines: list[str]) -> None:
    message, result = lines
    terminal.print_message(message)
    terminal.print_result(result)


RunWorker = Callable[[int, socket.socket, int], int]
"""Number, channel, lifeline → exit code. Called in the worker's process."""


class Supervisor:
    """Starts a worker for each number of `table`, and keeps them alive until a signal ends it."""

    def __init__(
        self,
        run_worker: RunWorker,
        table: WorkerTable,
        areas: list[MetricsArea],
        sockets: list[socket.socket],
        patience_s: float,
    ) -> None:
        self._run_worker = run_worker
        self._table = table
        self._sockets = sockets
        self._patience_s = patience_s
        self._workers = [_Worker(number, area) for number, area in zip(table.workers, areas, strict=True)]
        self._selector = selectors.DefaultSelector()
        self._lifeline, self._lifeline_end = os.pipe()
        self._all_ready = False
        self._kill_at: float | None = None
        self._failure = ""
        self._code = 0

    def run(self, ready: Callable[[list[str]], None]) -> int:
        """Until all workers have left. `ready` is called once, with what the first one has to say, when all are ready.

        Raises `WorkerFailed`.
        """
        gc.collect()
        gc.freeze()  # collections in the workers would write to, and so copy, every page of what they share
        with self._signals() as arrived:
            for worker in self._workers:
                self._start(worker)
            while any(worker.pid for worker in self._workers) or self._kill_at is None:
                for key, _ in self._selector.select(self._pause_s()):
                    if isinstance(key.data, _Worker):
                        self._receive(key.data)
                for number in arrived():
                    self._on_signal(number)
                self._reap()
                self._start_due()
                if not self._all_ready and all(worker.is_ready for worker in self._workers):
                    self._all_ready = True
                    ready(self._workers[0].report["ready"])
        if self._failure:
            raise WorkerFailed(self._failure)
        return self._code

    # Starting

    def _start(self, worker: _Worker) -> None:
        worker.due = None
        worker.is_ready, worker.received, worker.report = False, b"", {}
        ours, theirs = socket.socketpair()
        sys.stdout.flush()
        sys.stderr.flush()
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        pid = os.fork()
        if pid == 0:
            self._become(worker, ours, theirs)
        self._table.begin(worker.number, pid)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        theirs.close()
        ours.setblocking(False)
        worker.pid, worker.channel, worker.started_at = pid, ours, time.monotonic()
        self._selector.register(ours, selectors.EVENT_READ, worker)

    def _become(self, worker: _Worker, ours: socket.socket, theirs: socket.socket) -> NoReturn:
        """Be that worker. Nothing of the supervisor goes on in this process."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            # SIGTERM stays blocked until the event loop takes it: one that comes earlier is not lost
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS - {signal.SIGTERM})
            os.close(self._lifeline_end)
            self._selector.close()
            ours.close()
            for other in self._workers:
                if other.channel is not None:
                    other.channel.close()
            code = self._run_worker(worker.number, theirs, self._lifeline)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _start_due(self) -> None:
        now = time.monotonic()
        for worker in self._workers:
            if worker.due is not None and worker.due <= now and self._kill_at is None:
                self._start(worker)

    def _pause_s(self) -> float | None:
        """How long nothing is due."""
        moments = [worker.due for worker in self._workers if worker.due is not None]
        if self._kill_at is not None:
            moments.append(self._kill_at)
        return max(min(moments) - time.monotonic(), 0.0) if moments else None

    # What workers do

    def _receive(self, worker: _Worker) -> bool:
        """Read what a worker has to say. Returns whether there may be more."""
        if worker.channel is None:
            return False
        try:
            received = worker.channel.recv(REPORT_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            received = b""
        if not received:
            self._hang_up(worker)
            return False
        worker.received = (worker.received + received)[-4 * REPORT_BYTES :]
        *lines, worker.received = worker.received.split(b"\n")
        for line in lines:
            worker.report.update(json.loads(line))
        if not worker.is_ready and "ready" in worker.report:
            worker.is_ready = True
            if self._all_ready:
                log.info("worker %d is ready again", worker.number)
        return True

    def _hang_up(self, worker: _Worker) -> None:
        if worker.channel is not None:
            self._selector.unregister(worker.channel)
            worker.channel.close()
            worker.channel = None

    def _reap(self) -> None:
        """Note which workers have ended, and decide what follows."""
        for worker in self._workers:
            if not worker.pid:
                continue
            pid, status = os.waitpid(worker.pid, os.WNOHANG)
            if not pid:
                continue
            self._table.end(worker.number)
            worker.pid = 0
            while self._receive(worker):
                pass
            self._hang_up(worker)
            if self._kill_at is None:
                self._on_end(worker, os.waitstatus_to_exitcode(status))
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            self._signal_all(signal.SIGKILL)

    def _on_end(self, worker: _Worker, code: int) -> None:
        why = str(worker.report.get("failed", "")) or _cause(worker.number, code)
        if not self._all_ready:
            self._fail(why)
            return
        if time.monotonic() - worker.started_at >= SHORT_LIFE_S:
            worker.short_lives = 0
        pause_s = AGAIN.wait_s(worker.short_lives) if worker.short_lives else 0.0
        if not worker.report.get("again"):
            worker.short_lives += 1
            if worker.short_lives > SHORT_LIVES:
                self._fail(f"worker {worker.number} ended {worker.short_lives} times, soon after its start: {why}")
                return
        else:
            pause_s = AGAIN.wait_s(max(1, worker.short_lives) + 1)
        log.warning("%s; worker %d is started again in %.1f s", why, worker.number, pause_s)
        worker.due = time.monotonic() + pause_s

    def _fail(self, why: str) -> None:
        self._failure = why
        self._leave()

    # Leaving

    def _on_signal(self, number: int) -> None:
        if number == signal.SIGCHLD:
            return
        if number == signal.SIGHUP and not sys.stdin.isatty():
            log.warning("the workers reload changed files")
            self._signal_all(signal.SIGHUP)
        elif self._kill_at is None:
            log.info("leaving")
            self._leave()
        elif number != signal.SIGHUP:
            self._code = 128 + number
            self._signal_all(signal.SIGKILL)

    def _leave(self) -> None:
        """Accept no more once the workers don't, and let them leave in order."""
        self._kill_at = time.monotonic() + self._patience_s
        for sock in self._sockets:
            sock.close()
        for worker in self._workers:
            worker.due = None
        self._signal_all(signal.SIGTERM)

    def _signal_all(self, number: int) -> None:
        for worker in self._workers:
            if worker.pid:
                os.kill(worker.pid, number)

    @contextmanager
    def _signals(self) -> Iterator[Callable[[], bytes]]:
        """Signals wake the selector, instead of interrupting anything; what is yielded tells which have arrived."""
        reader, writer = socket.socketpair()
        reader.setblocking(False)
        writer.setblocking(False)
        before = {number: signal.signal(number, lambda *_: None) for number in _SIGNALS}
        wakeup_before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        self._selector.register(reader, selectors.EVENT_READ, None)

        def arrived() -> bytes:
            try:
                return reader.recv(4096)
            except BlockingIOError:
                return b""

        try:
            yield arrived
        finally:
            signal.set_wakeup_fd(wakeup_before)
            for number, handler in before.items():
                signal.signal(number, handler)
            self._selector.close()
            reader.close()
            writer.close()


def _cause(number: int, code: int) -> str:
    if code < 0:
        return f"worker {number} was ended by {signal.Signals(-code).name}"
    return f"worker {number} ended with exit code {code}"
