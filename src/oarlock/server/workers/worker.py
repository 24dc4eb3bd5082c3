"""`run_worker`: the life of a worker process, from the fork to its exit code.

A worker is a server as it would be without ``--workers``, on sockets it inherited. SIGTERM lets it leave in order,
however often it comes; SIGINT, which a terminal sends to all, is the supervisor's matter; SIGHUP reads files again. It
ends at once when its supervisor is gone: the next start needs the port.

Must not know: the other workers. See also: `supervisor`.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import logging
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable

from oarlock.client.clock import SystemClock
from oarlock.meta.dataclass import dataclass
from oarlock.server.assembly.lifecycle import SharedParts, serve_until, start_process
from oarlock.server.assembly.run import Running
from oarlock.server.config import ServerConfig
from oarlock.server.description import ServerDescription
from oarlock.server.workers.exchange import AcceptShare, MetricsExchange
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
    """Serve until told to leave: the exit code."""
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
