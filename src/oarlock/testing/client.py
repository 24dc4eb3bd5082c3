"""Clients for synchronous tests: `InMemoryClient` without sockets, `HTTPClient` over TLS.

    with InMemoryClient(server) as client:
        assert client.post("/apis/…/flunders", {"metadata": {"name": "a"}}).status == 201
        with client.watch("/apis/…/flunders") as events:
            kind, tree = events.next()

Both are a `TestClient`, so that a test can use either.
Must not know: pytest. See also: `server`, for async tests; `thread`, a server for `HTTPClient`.
"""

from __future__ import annotations

import asyncio
import http.client
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

from oarlock.apps.api_server import APIServer
from oarlock.client.clock import TimerClock
from oarlock.meta.context import User
from oarlock.net.url import parse_url
from oarlock.server.config import ServerConfig
from oarlock.server.local.transport import joined_headers
from oarlock.storage.backend import Backend
from oarlock.testing.faults import RequestFaults
from oarlock.testing.server import (
    ADMIN,
    Answer,
    Events,
    InMemory,
    ReceivedEvents,
    RequestMethods,
    encoded,
    header_names,
    with_watch,
)

REQUEST_S = 60.0

T = TypeVar("T")


class Watching(ABC):
    """An open watch."""

    @abstractmethod
    def next(self, timeout_s: float = 30.0) -> tuple[str, Any]:
        """The next event's type and object.

        Raises EOFError when the watch has ended, and TimeoutError after `timeout_s` seconds. Both errors list the
        events before.
        """


class TestClient(RequestMethods[Answer]):
    """Sends the requests of one user."""

    __test__ = False  # pytest collects classes named Test…

    @abstractmethod
    def watch(self, path: str, **headers: str) -> AbstractContextManager[Watching]:
        """Watch `path` (``?watch=1`` is added) while the context lasts.

        Raises AssertionError unless the answer is 200.
        """


class _InMemoryWatching(Watching):
    def __init__(self, client: InMemoryClient, events: Events) -> None:
        self._client = client
        self._events = events

    def next(self, timeout_s: float = 30.0) -> tuple[str, Any]:
        return self._client.run(self._events.next(timeout_s))


class InMemoryClient(TestClient):
    """`InMemory` for synchronous tests, with the same arguments.

    The server's event loop runs in this thread, and only while a request is answered or an event waited for. Raises
    RuntimeError in an async test, which can use `InMemory` itself.
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
        self.api = InMemory(
            server,
            backend=backend,
            clock=clock,
            user=user,
            config=config,
            raise_server_exceptions=raise_server_exceptions,
        )
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self.api.faults.in_loop = lambda call: self.run(_called(call))

    @property
    def clock(self) -> TimerClock:
        """The server's clock: a `VirtualClock` unless another was given."""
        return self.api.clock

    @property
    def faults(self) -> RequestFaults:
        """The faults of the server under test: none at first."""
        return self.api.faults

    def run(self, scenario: Coroutine[Any, Any, T]) -> T:
        """Run `scenario` in the server's event loop, to use `api`: ``client.run(talk(client.api))``."""
        if _in_event_loop():
            scenario.close()
            instead = "use `async with InMemory(server) as api`, and await what it answers"
            raise RuntimeError(f"this test is async: {instead}")
        return self._runner.run(scenario)

    def request(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        return self.run(self.api.request(method, path, body, headers))

    @contextmanager
    def watch(self, path: str, **headers: str) -> Iterator[Watching]:
        opening = self.api.watch(path, **headers)
        events = self.run(opening.__aenter__())
        try:
            yield _InMemoryWatching(self, events)
        finally:
            events.close()
            self.run(opening.__aexit__(None, None, None))

    def __enter__(self) -> Self:
        self._runner.__enter__()
        try:
            self.run(self.api.__aenter__())
        except BaseException:
            self._runner.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.run(self.api.__aexit__(kind, error, trace))
        finally:
            self._runner.close()


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _called(call: Callable[[], T]) -> T:
    return call()


class _HTTPWatching(Watching):
    def __init__(self, connection: http.client.HTTPSConnection, answer: http.client.HTTPResponse, path: str) -> None:
        self._connection = connection
        self._answer = answer
        self._received = ReceivedEvents(path)

    def next(self, timeout_s: float = 30.0) -> tuple[str, Any]:
        if self._connection.sock is not None:
            self._connection.sock.settimeout(timeout_s)
        try:
            line = self._answer.readline()
        except TimeoutError:
            raise self._received.late(timeout_s) from None
        if not line:
            raise self._received.ended()
        return self._received.event(line)


class HTTPClient(TestClient):
    """A client of a server that listens at `url`. It opens a connection for each request.

    Without a `token`, requests are unauthenticated. A watch that has raised TimeoutError has ended.
    """

    def __init__(self, url: str, tls: ssl.SSLContext, token: str = "") -> None:
        self.url = url
        self._place = parse_url(url)
        self._tls = tls
        self._credential_headers = {"authorization": f"Bearer {token}"} if token else {}

    def request(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        connection, answer = self._send(method, path, body, headers or {})
        try:
            return Answer(answer.status, joined_headers(answer.getheaders()), answer.read())
        finally:
            connection.close()

    @contextmanager
    def watch(self, path: str, **headers: str) -> Iterator[Watching]:
        connection, answer = self._send("GET", with_watch(path), None, header_names(headers))
        try:
            if answer.status != 200:
                raise AssertionError(f"the watch was answered with {answer.status}: {answer.read()!r}")
            yield _HTTPWatching(connection, answer, path)
        finally:
            answer.close()
            connection.close()

    def _send(
        self, method: str, path: str, body: Any, headers: Mapping[str, str]
    ) -> tuple[http.client.HTTPSConnection, http.client.HTTPResponse]:
        connection = http.client.HTTPSConnection(
            self._place.hostname, self._place.port, context=self._tls, timeout=REQUEST_S
        )
        try:
            data = None if body is None else encoded(body)
            sent_headers = {**self._credential_headers, **{name.lower(): value for name, value in headers.items()}}
            if data is not None:
                sent_headers.setdefault("content-type", "application/json")
            connection.request(method, path, data, sent_headers)
            return connection, connection.getresponse()
        except BaseException:
            connection.close()
            raise
