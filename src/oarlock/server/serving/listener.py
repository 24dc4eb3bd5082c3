"""`serve`: a listener for TLS or plain connections, HTTP/1.1 and HTTP/2.

The only module that opens sockets. It knows connections only as `listener_state.Connection`; `ProtocolDetector` chooses
the protocol. The order of shutdown is `stop_accepting`, `drain`, `close`. Errors of connections, most of which any
client can cause at will, are logged at a limited rate. See also: `http1.connection`, `http2.connection`.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from oarlock.endpoints.http import Handler, Unsent
from oarlock.meta.context import Clock
from oarlock.server.serving.base_stream import TLS_BUFFER_BYTES
from oarlock.server.serving.config import ServingConfig
from oarlock.server.serving.listener_state import ListenerState, SlowReader, cut_slowest, log
from oarlock.server.serving.protocol_detection import ProtocolDetector

__all__ = ["AddressInUse", "CannotListen", "ConnectionErrors", "Listener", "ThrottledLog", "bound_sockets", "serve"]

EVERY_S = 10.0


class ThrottledLog:
    """Lines of one kind: the first at once, then one in `EVERY_S` seconds, with the number of lines left out."""

    __slots__ = ("_level", "_monotonic", "_next", "_unwritten")

    def __init__(self, level: int, monotonic: Callable[[], float]) -> None:
        self._level = level
        self._monotonic = monotonic
        self._next = float("-inf")
        self._unwritten = 0

    def write(self, text: str, *args: object) -> None:
        """Log ``text % args``, or count it."""
        now = self._monotonic()
        if now < self._next:
            self._unwritten += 1
            return
        if self._unwritten:
            text, args = (
                f"{text} (and %d more in the last %.0f s)",
                (*args, self._unwritten, now - self._next + EVERY_S),
            )
        log.log(self._level, text, *args)
        self._next = now + EVERY_S
        self._unwritten = 0


class ConnectionErrors:
    """The event loop's exception handler for errors that transports report of broken connections.

    asyncio logs them with a traceback (and can't format the report of an aborted handshake, whose exception is a
    class). For a server they are normal. Everything else is passed to the previous handler.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, lines: ThrottledLog) -> None:
        self._loop = loop
        self._lines = lines
        self._before = loop.get_exception_handler()
        loop.set_exception_handler(self)

    def restore(self) -> None:
        if self._loop.get_exception_handler() is self:
            self._loop.set_exception_handler(self._before)

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        kind = error if isinstance(error, type) else type(error)
        if "transport" in context and issubclass(kind, OSError):  # ssl.SSLError is one
            detail = kind.__name__ if isinstance(error, type) else error
            self._lines.write("%s: %s: %s", _peer(context["transport"]), context.get("message", ""), detail)
        elif self._before is not None:
            self._before(loop, context)
        else:
            loop.default_exception_handler(context)


def _peer(transport: Any) -> str:
    name = transport.get_extra_info("peername")
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) and len(name) >= 2 else "a connection"


try:
    from aiofastnet import connect_accepted_socket
except ImportError:  # pragma: no cover - a platform without the extension
    connect_accepted_socket = None  # type: ignore[assignment]


ACCEPTS_PER_TURN = 64

OTHERS_FIRST_S = 0.002
"""How long a connection is left to other processes on the same sockets, in seconds, before this one takes it."""

OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class CannotListen(OSError):
    """Can't listen on the address. The message has address and port."""


class AddressInUse(CannotListen):
    """The address is in use."""


async def serve(handler: Handler, config: ServingConfig, clock: Clock, unsent: Unsent | None = None) -> Listener:
    """Listen as `config` says and answer every request with `handler`, until the result is closed.

    `handler` runs without a task until it first waits (see `eager.run_eagerly`). `unsent` is the budget of unsent
    bytes, by default one of its own. Raises `AddressInUse`, `CannotListen`.
    """
    sockets = list(config.sockets) or bound_sockets(config)
    loop = asyncio.get_running_loop()
    state = ListenerState(handler, config.limits, clock, loop, Unsent() if unsent is None else unsent)
    listener = Listener(state, config, sockets)
    listener._start()
    return listener


def bound_sockets(config: ServingConfig) -> list[socket.socket]:
    """Listening sockets as `config` says. Raises `AddressInUse`, `CannotListen`."""
    address = f"[{config.host}]:{config.port}" if ":" in config.host else f"{config.host}:{config.port}"
    # Bytes, because a text is encoded by IDNA, whose tables take longer to load than all this.
    host = config.host.encode() if config.host.isascii() else config.host
    try:
        found = socket.getaddrinfo(
            host or None, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_NUMERICSERV
        )
    except socket.gaierror as error:
        raise CannotListen(error.errno, f"cannot listen on {address}: {error.strerror}") from error
    sockets: list[socket.socket] = []
    port = config.port
    try:
        for family, kind, _, _, where in dict.fromkeys(found):
            # With proto 0 the transport would leave Nagle's algorithm on: 40 ms added to small answers.
            sock = socket.socket(family, kind, socket.IPPROTO_TCP)
            sockets.append(sock)
            _prepare(sock, config)
            sock.bind((where[0], port, *where[2:]))
            sock.listen(config.backlog)
            port = port or sock.getsockname()[1]
    except OSError as error:
        for sock in sockets:
            sock.close()
        kind_of = AddressInUse if error.errno == errno.EADDRINUSE else CannotListen
        raise kind_of(error.errno, f"cannot listen on {address}: {error.strerror}") from error
    return sockets


def _prepare(sock: socket.socket, config: ServingConfig) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Accepted sockets inherit these: a vanished peer is noticed even if nobody writes to it.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 9)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    if config.reuse_port:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if sock.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)


class Listener:
    """An open listener."""

    def __init__(self, state: ListenerState, config: ServingConfig, sockets: list[socket.socket]) -> None:
        self._state = state
        self._config = config
        self._sockets = sockets
        self._loop = state.loop
        self._accepting: set[socket.socket] = set()
        self._handshakes: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._cutting: asyncio.Handle | None = None
        self._closed = False
        state.unsent.on_overflow = self._cut_slowest_soon
        self._broken = ThrottledLog(logging.INFO, state.monotonic)
        self._refused = ThrottledLog(logging.ERROR, state.monotonic)
        self._errors: ConnectionErrors | None = None
        self._port = sockets[0].getsockname()[1] if sockets[0].family != socket.AF_UNIX else 0

    @property
    def port(self) -> int:
        """The port, also if port 0 was asked for; 0 for a UNIX socket."""
        port: int = self._port
        return port

    @property
    def sockets(self) -> tuple[socket.socket, ...]:
        """The listening sockets; empty once it stopped accepting."""
        return tuple(self._sockets)

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._state.connections)

    def stop_accepting(self) -> None:
        """Close the listening sockets; open connections go on."""
        for sock in self._sockets:
            self._ignore(sock)
            sock.close()
        self._sockets = []
        if self._config.sharing is not None:
            self._config.sharing.stop()

    async def drain(self, timeout_s: float) -> int:
        """Let every connection finish its answers and close; returns how many are left after `timeout_s`.

        HTTP/1: idle connections are closed, the next answer of others has ``connection: close``. HTTP/2: GOAWAY, so
        that clients send nothing new; streams in progress go on. An open-ended answer (a watch) is ended by its writer,
        or cut by `close`.
        """
        state = self._state
        state.draining = True
        for connection in list(state.connections):
            connection.drain()
        if state.connections:
            empty = self._loop.create_future()
            state.on_empty = lambda: None if empty.done() else empty.set_result(None)
            try:
                await asyncio.wait((empty,), timeout=timeout_s)
            finally:
                state.on_empty = None
        return len(state.connections)

    async def close(self) -> None:
        """Stop accepting and cut all connections."""
        self._closed = True
        self.stop_accepting()
        if self._timer is not None:
            self._timer.cancel()
        for handshake in self._handshakes:
            handshake.cancel()
        if self._handshakes:
            await asyncio.wait(self._handshakes)
        for connection in list(self._state.connections):
            connection.abort()
        for _ in range(3):  # connection_lost is called a turn or two later
            await asyncio.sleep(0)
        if self._errors is not None:
            self._errors.restore()

    def sweep(self, now: float) -> None:
        """Check the time limits of every connection. Called by a timer; `now` is in monotonic seconds."""
        for connection in list(self._state.connections):
            try:
                connection.sweep(now)
            except Exception:
                log.exception("a connection failed")
                connection.abort()
        if self._state.unsent.full:
            self.cut_slowest()

    def _readers(self) -> Iterator[SlowReader]:
        for connection in list(self._state.connections):
            yield from connection.readers()

    def cut_slowest(self) -> None:
        """Cut the slowest readers until the budget of unsent bytes is kept."""
        self._cutting = None
        cut = cut_slowest(self._readers(), self._state.unsent)
        if cut:
            log.warning("%d slow readers were disconnected: unread data exceeded --max-unsent-bytes", cut)

    def _cut_slowest_soon(self) -> None:
        if self._cutting is None and not self._closed:
            self._cutting = self._loop.call_soon(self.cut_slowest)

    def _start(self) -> None:
        self._errors = ConnectionErrors(self._loop, self._broken)
        for sock in self._sockets:
            sock.setblocking(False)
            self._listen(sock)
        self._tick()

    def _tick(self) -> None:
        if self._timer is not None:
            self.sweep(self._state.monotonic())
            self._resume_accepting()
            self._state.freed_memory.give_back(self._loop)
        if self._config.sharing is not None and self._sockets:
            self._config.sharing.report(self._count)
        self._timer = self._loop.call_later(self._config.sweep_interval_s, self._tick)

    def _listen(self, sock: socket.socket) -> None:
        self._accepting.add(sock)
        self._loop.add_reader(sock.fileno(), self._accept, sock)

    def _ignore(self, sock: socket.socket) -> None:
        if sock in self._accepting:
            self._accepting.discard(sock)
            self._loop.remove_reader(sock.fileno())

    @property
    def _count(self) -> int:
        return len(self._state.connections) + len(self._handshakes)

    @property
    def _full(self) -> bool:
        return self._count >= self._config.limits.max_connections

    def _resume_accepting(self) -> None:
        if not self._full:
            for sock in self._sockets:
                if sock not in self._accepting:
                    self._listen(sock)

    def _accept(self, listener: socket.socket) -> None:
        sharing = self._config.sharing
        for _ in range(ACCEPTS_PER_TURN):
            if self._full:
                self._ignore(listener)  # until the next tick that finds room
                return
            if sharing is not None and sharing.is_ahead(self._count):
                self._ignore(listener)
                self._loop.call_later(OTHERS_FIRST_S, self._accept_what_is_left, listener)
                return
            if not self._accept_one(listener):
                return

    def _accept_what_is_left(self, listener: socket.socket) -> None:
        """Accept the connection that was left to other processes, if none of them has taken it."""
        if listener not in self._sockets or listener in self._accepting or self._full:
            return
        sharing = self._config.sharing
        if sharing is not None and sharing.must_wait():
            self._loop.call_later(OTHERS_FIRST_S, self._accept_what_is_left, listener)
            return
        self._listen(listener)
        self._accept_one(listener)

    def _accept_one(self, listener: socket.socket) -> bool:
        """Accept a connection. Returns whether there may be more."""
        try:
            accepted, _address = listener.accept()
        except (BlockingIOError, InterruptedError):
            return False
        except ConnectionAbortedError:
            return True
        except OSError as error:
            if error.errno not in OUT_OF_RESOURCES:
                raise
            self._refused.write("cannot accept connections: %s", error.strerror)
            self._ignore(listener)  # it would be ready again at once
            return False
        accepted.setblocking(False)
        task = self._loop.create_task(self._set_up_connection(accepted))
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)
        return True

    async def _set_up_connection(self, accepted: socket.socket) -> None:
        state, tls, http2 = self._state, self._config.tls, self._config.http2
        options: dict[str, Any] = {}
        if tls is not None:
            options["ssl_handshake_timeout"] = self._config.limits.tls_handshake_timeout_s
            # Our own sweep cuts stalled clients; this would cut a slow one in the middle of an answer.
            options["ssl_shutdown_timeout"] = 3600.0
            if connect_accepted_socket is not None:
                options["ssl_outgoing_bio_size"] = TLS_BUFFER_BYTES
        connect: Callable[..., Awaitable[object]]
        if connect_accepted_socket is not None:
            connect = connect_accepted_socket
            arguments: tuple[Any, ...] = (
                self._loop,
                lambda: ProtocolDetector(state, tls is not None, http2),
                accepted,
            )
        else:  # pragma: no cover
            connect = self._loop.connect_accepted_socket
            arguments = (lambda: ProtocolDetector(state, tls is not None, http2), accepted)
        try:
            await connect(*arguments, ssl=tls, **options)
        except OSError as error:  # ssl.SSLError is one
            log.debug("TLS handshake failed: %s", error)
            accepted.close()
        except asyncio.CancelledError:
            accepted.close()
            raise
        except Exception:
            log.exception("a connection could not be set up")
            accepted.close()
