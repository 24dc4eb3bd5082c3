"""`InMemory`: a whole server inside a test, with a store in memory and without sockets.

    async with InMemory(server) as api:
        made = await api.post("/apis/…/flunders", {"metadata": {"name": "a"}})
        assert made.status == 201
        async with api.watch("/apis/…/flunders") as events:
            kind, tree = await events.next()

Requests pass the whole filter chain; authentication always returns `user`.

A control plane makes some two hundred objects, which are the same each time. Before the second start of such a server
in a process, its `Prototype` is run once, and from then on new stores begin with copies (`prepare`): with uids of their
own, the time of their own clock, revisions from the beginning. The server then finds them as after a restart. What says
who runs where (leases, addresses, accounts) isn't copied: each start makes it.
Must not know: pytest, which objects a server makes.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import AsyncIterator, Coroutine, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self, TypeVar
from uuid import uuid4

from oarlock.apps.api_server import APIServer, Prototype
from oarlock.client.clock import TimerClock
from oarlock.client.keywords import warnings_of
from oarlock.endpoints.catalog import Catalog
from oarlock.endpoints.errors import as_status_error
from oarlock.endpoints.http import BodyTooLarge, Request, Response
from oarlock.endpoints.request_state import RequestState
from oarlock.meta.context import Peer, User
from oarlock.meta.memo import RecentlyUsed
from oarlock.meta.times import rfc3339
from oarlock.server.assembly.parts import ServerParts
from oarlock.server.assembly.run import Running
from oarlock.server.config import ServerConfig
from oarlock.server.filters.filter import Next, unchanged
from oarlock.server.local.streams import CONGESTED_BYTES, WEBSOCKET_HEADERS, MemoryStream, MemoryTunnel
from oarlock.server.local.transport import FixedUser, joined_headers, whole_body
from oarlock.storage.backend import Backend
from oarlock.storage.memory import MemoryBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.connections import RawClient, WebSocketClient
from oarlock.testing.faults import RequestFaults

if TYPE_CHECKING:
    from oarlock.client.client import Client

log = logging.getLogger("oarlock.testing")

MOST_KEPT = 8
"""How many prototypes' objects are kept, those that were used last."""

OWN = frozenset(
    {"configmaps", "endpoints", "endpointslices", "events", "ipaddresses", "leases", "secrets", "serviceaccounts"}
    | {"services"}
)
"""Resources whose objects say who runs where."""

MADE_S = 981_173_106.0
MADE = rfc3339(MADE_S).encode()
"""The time at which prototypes run: nothing else has it, so that it can be found in what they make."""

MOST_ROUNDS = 50
_UID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class _PreparedObject(NamedTuple):
    """An object to copy."""

    key: str
    value: bytes
    uid: bytes


_starts: Counter[Hashable] = Counter()
_kept: RecentlyUsed[Hashable, Sequence[_PreparedObject]] = RecentlyUsed(MOST_KEPT)


async def prepare(server: APIServer, config: ServerConfig, backend: MemoryBackend, clock: TimerClock) -> None:
    """Fill `backend`, which is new, if that saves the server's start any work.

    Where it is audited what is made, or encrypted, the server makes it all itself.
    """
    prototype = server.prototype()
    if prototype is None or config.audit_policy_file is not None or config.encryption_provider_config is not None:
        return
    _starts[prototype.key] += 1
    if _starts[prototype.key] < 2:
        return
    prepared = _kept.get(prototype.key)
    if prepared is None:
        try:
            prepared = await _made_by(prototype, config)
        except Exception:
            log.info("nothing is prepared: each start makes everything", exc_info=True)
            prepared = ()
        _kept.put(prototype.key, prepared)
    now = rfc3339(clock.now()).encode()
    for key, value, uid in prepared:
        own = value.replace(uid, str(uuid4()).encode()) if uid else value
        await backend.put(key, own.replace(MADE, now), expect=0)


class NoListener:
    """In the place of a listener; nothing to close."""

    port = 0

    def stop_accepting(self) -> None:
        return None

    async def drain(self, timeout_s: float) -> int:
        return 0

    async def close(self) -> None:
        return None


async def _made_by(prototype: Prototype, config: ServerConfig) -> Sequence[_PreparedObject]:
    clock = VirtualClock(MADE_S)
    backend = MemoryBackend(clock)
    parts = ServerParts(prototype.make(), config, backend, clock)
    running = Running(parts, NoListener(), "https://127.0.0.1:6443")
    try:
        await running.load()
        for _ in range(MOST_ROUNDS):
            rev = backend.known_rev()
            await clock.run(0)
            if backend.known_rev() == rev:
                break
        found = (await backend.list("/", "0")).kvs
    finally:
        await running.close()
    return [kept for kv in found if (kept := _copied(kv.key, kv.value)) is not None]


def _copied(key: str, value: bytes) -> _PreparedObject | None:
    """What is kept of an object; None if it isn't to be copied."""
    parts = key.split("/")
    if parts[1] != "registry":
        return _PreparedObject(key, value, b"")
    uid = json.loads(value)["metadata"]["uid"].encode()
    others = set(_UID.findall(value)) - {uid}
    return None if parts[3] in OWN or others else _PreparedObject(key, value, uid)


R = TypeVar("R")
ADMIN = User("admin", groups=("system:masters",))
MAX_REQUEST_BYTES = 3 * 1024 * 1024
SHOWN_EVENTS = 20


class Answer:
    """An answer. Header names are in lower case."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def warnings(self) -> list[str]:
        """The texts of its ``Warning`` headers (RFC 7234 §5.5), without quotes and escapes."""
        return warnings_of(self.headers.get("warning", ""))

    def __repr__(self) -> str:
        return f"<{self.status} {self.body[:200]!r}>"


class RequestMethods(ABC, Generic[R]):
    """The requests of one user, by method. `R` is an `Answer`, or what it is awaited from.

    Keywords are headers: ``client.get(path, accept="application/yaml")``.
    """

    @abstractmethod
    def request(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> R:
        """Send a request; a `body` that isn't bytes is sent as JSON.

        A streamed answer is returned when it has ended.
        """

    def get(self, path: str, **headers: str) -> R:
        return self.request("GET", path, None, header_names(headers))

    def post(self, path: str, body: Any = None, **headers: str) -> R:
        """POST `body`. An action has none."""
        return self.request("POST", path, body, header_names(headers))

    def put(self, path: str, body: Any, **headers: str) -> R:
        return self.request("PUT", path, body, header_names(headers))

    def delete(self, path: str, body: Any = None, **headers: str) -> R:
        return self.request("DELETE", path, body, header_names(headers))

    def patch(self, path: str, body: Any, content_type: str = "application/merge-patch+json") -> R:
        return self.request("PATCH", path, body, {"content-type": content_type})


class Lines(MemoryStream):
    """A streamed answer, line by line. It takes all that is written; tests set `buffered` to make it a slow one."""

    def __init__(self, response: Response | None = None) -> None:
        super().__init__(response)
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._rest = b""
        self._buffered = 0
        self._changed = asyncio.Event()

    @property
    def buffered(self) -> int:
        return self._buffered

    @buffered.setter
    def buffered(self, size: int) -> None:
        self._buffered = size
        self._changed.set()

    async def drained(self) -> None:
        while self._buffered > CONGESTED_BYTES and not self.closed:
            self._changed.clear()
            await self._changed.wait()

    def write(self, data: bytes) -> None:
        if self.closed:
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._lines.put_nowait(line)

    def _wake(self) -> None:
        self._changed.set()
        self._lines.put_nowait(None)

    async def line(self, timeout_s: float = 5.0) -> bytes:
        """The next line, without its end. Raises EOFError at the end, and TimeoutError."""
        line = await asyncio.wait_for(self._lines.get(), timeout_s)
        if line is None:
            raise EOFError("the answer has ended")
        return line

    def rest(self) -> bytes:
        """All lines that were written and not yet read."""
        lines = []
        while not self._lines.empty():
            line = self._lines.get_nowait()
            if line is not None:
                lines.append(line + b"\n")
        partial, self._rest = self._rest, b""
        return b"".join(lines) + partial


class ReceivedEvents:
    """The events that a watch of `path` has received, for the errors of one that has ended or is late."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._count = 0
        self._last: deque[str] = deque(maxlen=SHOWN_EVENTS)

    def event(self, line: bytes) -> tuple[str, Any]:
        """The type and object of an event."""
        event = json.loads(line)
        kind, tree = event["type"], event["object"]
        metadata = tree.get("metadata", {}) if isinstance(tree, dict) else {}
        name = "/".join(filter(None, (metadata.get("namespace"), metadata.get("name"))))
        self._count += 1
        self._last.append(f"{kind} {name}".rstrip())
        return kind, tree

    def late(self, timeout_s: float) -> TimeoutError:
        return TimeoutError(f"no event within {timeout_s:g} s on {self._path}; so far: {self}")

    def ended(self) -> EOFError:
        return EOFError(f"the watch of {self._path} has ended; so far: {self}")

    def __str__(self) -> str:
        more = self._count - len(self._last)
        return f"[{'…, ' if more else ''}{', '.join(self._last)}]"


class Events(Lines):
    """The stream of a watch. `next` waits; `pending` takes what has arrived. A line is an event."""

    def __init__(self, response: Response | None = None, path: str = "") -> None:
        super().__init__(response)
        self._received = ReceivedEvents(path)

    async def next(self, timeout_s: float = 5.0) -> tuple[str, Any]:
        """The next event's type and object. Raises EOFError when the watch has ended, and TimeoutError.

        Both say what has come so far.
        """
        try:
            line = await self.line(timeout_s)
        except TimeoutError:
            raise self._received.late(timeout_s) from None
        except EOFError:
            raise self._received.ended() from None
        return self._received.event(line)

    def pending(self) -> list[tuple[str, Any]]:
        """All events that were written and not yet read."""
        return [self._received.event(line) for line in self.rest().splitlines()]


class InMemory(RequestMethods[Coroutine[Any, Any, Answer]]):
    """Runs `server` without sockets while the context lasts.

    - `backend`: the store; by default that of the server, else a new one in memory.
    - `clock`: by default a new `VirtualClock`.
    - `user`: who sends the requests; by default an administrator.
    - `raise_server_exceptions`: an exception of your code during a request of this object is raised here, unless it is
      an error of the API. If false, the answer is the 500 that clients get.
    """

    def __init__(
        self,
        server: APIServer,
        *,
        backend: Backend | None = None,
        clock: TimerClock | None = None,
        user: User = ADMIN,
        config: ServerConfig | None = None,
        raise_server_exceptions: bool = True,
    ) -> None:
        self._raises = raise_server_exceptions
        self._raised: dict[Request, Exception | None] = {}
        """Requests of this object that are being carried out, each with what went wrong."""
        self.clock: TimerClock = clock or VirtualClock()
        self.server = server
        config = config or ServerConfig(storage="memory://")
        self._new_store: MemoryBackend | None = None
        backend = backend or server.storage
        if backend is None:
            backend = self._new_store = MemoryBackend(clock=self.clock)
        self.faults = RequestFaults(server)
        """The faults of the server under test: none at first."""
        server.around_dispatch = lambda rest: self.faults.around(self._noting(rest))
        self.parts = ServerParts(server, config, backend, self.clock)
        self._handle = self.parts.handler(FixedUser(user))
        self._running = Running(self.parts, NoListener(), "https://127.0.0.1:6443")

    async def __aenter__(self) -> Self:
        try:
            if self._new_store is not None:
                await prepare(self.server, self.parts.config, self._new_store, self.clock)
            await self._running.load()
        except BaseException:
            await self._running.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.parts.resources.router.watches.end_all()
        await self._running.close()
        self.server.running, self.server.around_dispatch = None, unchanged

    def client(self, user: User | None = None, *, field_manager: str = "oarlock") -> Client:
        """A `Client` of the server in its process, see `APIServer.client`."""
        return self.server.client(user, field_manager=field_manager)

    async def replace(self, catalog: Catalog) -> None:
        await self._running.replace(catalog)

    async def request(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        response = await self._send(method, path, body, headers or {})
        if response.stream is not None:
            lines = Lines(response)
            response.stream(lines)
            try:
                await _closed(lines)
            finally:
                lines.leave()
            return Answer(response.status, joined_headers(response.headers), lines.rest())
        data = await whole_body(response)
        return Answer(response.status, joined_headers(response.headers), data)

    @asynccontextmanager
    async def watch(self, path: str, **headers: str) -> AsyncIterator[Events]:
        """Watch `path` (``?watch=1`` is added) while the context lasts.

        Raises AssertionError unless the answer is 200.
        """
        response = await self._send("GET", with_watch(path), None, header_names(headers))
        if response.stream is None:
            raise AssertionError(f"the watch was answered with {response.status}: {response.body!r}")
        events = Events(response, path)
        response.stream(events)
        try:
            yield events
        finally:
            events.leave()

    @asynccontextmanager
    async def follow(self, path: str, **headers: str) -> AsyncIterator[Lines]:
        """Read a streamed answer, line by line, while the context lasts. Raises AssertionError for any other answer."""
        response = await self._send("GET", path, None, header_names(headers))
        if response.stream is None:
            raise AssertionError(f"the stream was answered with {response.status}: {response.body!r}")
        lines = Lines(response)
        response.stream(lines)
        try:
            yield lines
        finally:
            lines.leave()

    @asynccontextmanager
    async def connect(
        self, path: str, protocol: str = "v5.channel.k8s.io", **headers: str
    ) -> AsyncIterator[WebSocketClient]:
        """Connect to a subresource while the context lasts. Raises AssertionError when refused."""
        upgrade = {
            **WEBSOCKET_HEADERS,
            **({"sec-websocket-protocol": protocol} if protocol else {}),
            **header_names(headers),
        }
        tunnel, answer = await self._open_tunnel(path, upgrade)
        client = WebSocketClient(tunnel, answer.get("sec-websocket-protocol", ""))
        try:
            yield client
        finally:
            client.leave()

    @asynccontextmanager
    async def upgrade(self, path: str, protocol: str, **headers: str) -> AsyncIterator[RawClient]:
        """Connect to a subresource with `protocol` while the context lasts. Raises AssertionError when refused."""
        tunnel, _ = await self._open_tunnel(
            path, {"connection": "Upgrade", "upgrade": protocol, **header_names(headers)}
        )
        client = RawClient(tunnel)
        try:
            yield client
        finally:
            client.leave()

    async def _open_tunnel(self, path: str, headers: Mapping[str, str]) -> tuple[MemoryTunnel, dict[str, str]]:
        response = await self._send("GET", path, None, headers)
        if response.status != 101 or response.stream is None:
            raise AssertionError(f"the upgrade was answered with {response.status}: {response.body!r}")
        tunnel = MemoryTunnel(response)
        response.stream(tunnel)
        return tunnel, joined_headers(response.headers)

    async def _send(self, method: str, path: str, body: Any, headers: Mapping[str, str]) -> Response:
        path, _, query = path.partition("?")
        data = b"" if body is None else encoded(body)
        lower_case = {name.lower(): value for name, value in headers.items()}

        async def read() -> bytes:
            if len(data) > MAX_REQUEST_BYTES:
                raise BodyTooLarge(MAX_REQUEST_BYTES)
            return data

        peer = Peer("127.0.0.1", 1)
        request = Request(method, path, query, lower_case, list(lower_case.items()), peer, read, self.clock.monotonic())
        if not self._raises:
            return await self._handle(request)
        self._raised[request] = None
        try:
            response = await self._handle(request)
        finally:
            error = self._raised.pop(request)
        if error is not None:
            raise error
        return response

    def _noting(self, rest: Next) -> Next:
        """`rest`, which notes what the answer to a request of this object doesn't say."""

        async def note(state: RequestState) -> Response:
            try:
                return await rest(state)
            except Exception as error:
                if state.request in self._raised and as_status_error(error, state) is None:
                    self._raised[state.request] = error
                raise

        return note


async def _closed(lines: Lines) -> None:
    closed = asyncio.Event()
    lines.on_close(closed.set)
    await closed.wait()


def encoded(body: Any) -> bytes:
    """A request's body: bytes as they are, everything else as JSON."""
    return body if isinstance(body, bytes) else json.dumps(body).encode()


def with_watch(path: str) -> str:
    """`path` with ``watch=1`` in its query."""
    return path + ("&" if "?" in path else "?") + "watch=1"


def header_names(headers: Mapping[str, str]) -> dict[str, str]:
    """Keywords as headers: ``content_type`` is ``content-type``."""
    return {name.replace("_", "-"): value for name, value in headers.items()}
