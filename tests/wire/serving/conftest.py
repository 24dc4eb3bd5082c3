"""A listener on 127.0.0.1 and raw sockets to talk to it."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import h2.events
import h2.settings
import pytest

from oarlock.endpoints.http import Request, Response
from oarlock.server.serving.certificates.serving_pair import ServingFiles, ensure_certificates
from oarlock.server.serving.certificates.tls import server_context
from oarlock.server.serving.config import ConnectionLimits, ServingConfig
from oarlock.server.serving.listener import Listener, serve

WAIT_S = 30.0


class ManualClock:
    """Time that stands still until it is moved."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> float:
        return 1_800_000_000.0 + self.seconds

    def monotonic(self) -> float:
        return self.seconds


class Raw:
    """A client that sends what it's told to and reads what comes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def until(self, end: bytes) -> bytes:
        return await asyncio.wait_for(self.reader.readuntil(end), WAIT_S)

    async def exactly(self, count: int) -> bytes:
        return await asyncio.wait_for(self.reader.readexactly(count), WAIT_S)

    async def rest(self) -> bytes:
        """Everything up to the end; a reset counts as the end."""
        data = b""
        try:
            while piece := await asyncio.wait_for(self.reader.read(65536), WAIT_S):
                data += piece
        except ConnectionError:
            pass
        return data

    async def response(self, head_only: bool = False) -> tuple[int, dict[str, str], bytes]:
        """One whole answer: status, headers, body."""
        head = (await self.until(b"\r\n\r\n")).decode()
        first, *lines = head[:-4].split("\r\n")
        status = int(first.split(" ")[1])
        headers = dict(line.split(": ", 1) for line in lines)
        if head_only or status in (204, 304) or status < 200:
            return status, headers, b""
        if "content-length" in headers:
            return status, headers, await self.exactly(int(headers["content-length"]))
        if headers.get("transfer-encoding") == "chunked":
            body = b""
            while size := int(await self.until(b"\r\n"), 16):
                body += (await self.exactly(size + 2))[:-2]
            await self.until(b"\r\n")
            return status, headers, body
        return status, headers, await self.rest()

    def close(self) -> None:
        self.writer.close()


class Server:
    """A listener, its clock and how to reach it."""

    def __init__(self, listening: Listener, clock: ManualClock, tls: ssl.SSLContext | None) -> None:
        self.listening = listening
        self.clock = clock
        self.tls = tls
        self.clients: list[Raw] = []

    async def connect(self, tls: ssl.SSLContext | None = None, **options: Any) -> Raw:
        context = tls or self.tls
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.listening.port, ssl=context, limit=2**26, **options
        )
        self.clients.append(Raw(reader, writer))
        return self.clients[-1]

    async def finish(self) -> None:
        for client in self.clients:
            client.writer.transport.abort()
        await self.listening.close()

    async def later(self, seconds: float) -> None:
        """Move the clock and let the listener look at it."""
        for _ in range(3):
            await asyncio.sleep(0.002)
        self.clock.seconds += seconds
        self.listening.sweep(self.clock.seconds)
        for _ in range(3):
            await asyncio.sleep(0.002)


async def echo(request: Request) -> Response:
    """Says what it was asked."""
    body = await request.read()
    text = f"{request.method} {request.path} {request.query} {len(body)}".encode()
    return Response(200, [("content-type", "text/plain")], text)


Handler = Callable[[Request], Awaitable[Response]]


@asynccontextmanager
async def serving(
    handler: Handler = echo,
    *,
    tls: tuple[ssl.SSLContext, ssl.SSLContext] | None = None,
    http2: bool = True,
    **limits: Any,
) -> AsyncIterator[Server]:
    clock = ManualClock()
    config = ServingConfig(
        tls=tls[0] if tls else None, limits=replace(ConnectionLimits(), **limits), sweep_interval_s=3600.0, http2=http2
    )
    listening = await serve(handler, config, clock)
    running = Server(listening, clock, tls[1] if tls else None)
    try:
        yield running
    finally:
        await running.finish()


@pytest.fixture(scope="session")
def server() -> Any:
    """`async with server(handler, **limits) as s: client = await s.connect()`."""
    return serving


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> ServingFiles:
    return ensure_certificates(Path(tmp_path_factory.mktemp("certs")), (), time.time())


class Answer:
    """What came back on one stream so far."""

    def __init__(self, stream_id: int) -> None:
        self.id = stream_id
        self.headers: dict[str, str] = {}
        self.body = b""
        self.frames = 0
        self.ended = False
        self.reset: int | None = None
        self.unacknowledged = 0
        self.informed = 0

    @property
    def status(self) -> int:
        return int(self.headers[":status"])


class PatientConnection(h2.connection.H2Connection):
    """h2's connection, which would understand nothing more after a GOAWAY (RFC 9113 §6.8: streams go on)."""

    def _receive_goaway_frame(self, frame: Any) -> Any:
        event = h2.events.ConnectionTerminated()
        event.error_code = frame.error_code
        event.last_stream_id = frame.last_stream_id
        return [], [event]


class H2Client:
    """A client on python-hyper's h2, which checks the server's frames as it goes."""

    def __init__(self, raw: Raw, initial_window: int | None, acknowledge: bool) -> None:
        self.raw = raw
        self.h2 = PatientConnection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
        if initial_window is not None:
            self.h2.local_settings = h2.settings.Settings(
                client=True, initial_values={h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: initial_window}
            )
        self.answers: dict[int, Answer] = {}
        self.acknowledges = acknowledge
        self.received = self.sent_data = 0
        self.goaways: list[tuple[int, int]] = []
        self.gone = False
        self.error: BaseException | None = None
        self.bodies: dict[int, bytes] = {}
        self.changed = asyncio.Event()
        self.held = False
        self.h2.initiate_connection()
        self.flush()
        self.reading = asyncio.ensure_future(self._read())

    def flush(self) -> None:
        if not self.held:
            self.raw.writer.write(self.h2.data_to_send())

    @contextmanager
    def together(self) -> Iterator[None]:
        """Everything inside leaves in one packet."""
        self.held = True
        yield
        self.held = False
        self.flush()

    def start(self, path: str, method: str = "GET", extra: Sequence[tuple[str, str]] = (), end: bool = True) -> Answer:
        stream_id = self.h2.get_next_available_stream_id()
        answer = self.answers[stream_id] = Answer(stream_id)
        head = [(":method", method), (":scheme", "http"), (":authority", "example"), (":path", path), *extra]
        self.h2.send_headers(stream_id, head, end_stream=end)
        self.flush()
        return answer

    async def get(self, path: str, method: str = "GET", extra: Sequence[tuple[str, str]] = ()) -> Answer:
        answer = self.start(path, method, extra)
        await self.until(lambda: answer.ended or answer.reset is not None)
        return answer

    async def post(self, path: str, body: bytes, extra: Sequence[tuple[str, str]] = ()) -> Answer:
        with self.together():
            answer = self.start(path, "POST", extra, end=False)
            self.bodies[answer.id] = body
            self._upload()
        await self.until(lambda: answer.ended or answer.reset is not None)
        return answer

    def reset(self, answer: Answer) -> None:
        self.h2.reset_stream(answer.id, 8)
        self.flush()

    def set_initial_window(self, size: int) -> None:
        self.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: size})
        self.flush()

    def acknowledge_all(self) -> None:
        self.acknowledges = True
        for answer in self.answers.values():
            if answer.unacknowledged:
                if answer.ended:
                    self.h2.increment_flow_control_window(answer.unacknowledged)
                else:
                    self.h2.acknowledge_received_data(answer.unacknowledged, answer.id)
                answer.unacknowledged = 0
        self.flush()

    def say_goodbye(self) -> None:
        """GOAWAY, which h2 could send but not survive."""
        self.raw.writer.write(b"\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\0")

    async def until(self, condition: Callable[[], Any]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not condition():
                if self.error is not None:
                    raise self.error
                assert not self.gone, f"the server has closed: {self.goaways}"
                self.changed.clear()
                await self.changed.wait()

    def close(self) -> None:
        self.reading.cancel()
        self.raw.writer.transport.abort()

    async def _read(self) -> None:
        try:
            while data := await self.raw.reader.read(65536):
                for event in self.h2.receive_data(data):
                    self._event(event)
                self._upload()
                self.flush()
                self.changed.set()
        except asyncio.CancelledError:
            raise
        except ConnectionError:
            pass
        except BaseException as error:
            self.error = error
        self.gone = True
        self.changed.set()

    def _event(self, event: Any) -> None:
        answer = self.answers.get(getattr(event, "stream_id", 0))
        if isinstance(event, h2.events.ConnectionTerminated):
            self.goaways.append((event.error_code, event.last_stream_id))
        elif answer is None:
            pass
        elif isinstance(event, h2.events.ResponseReceived):
            answer.headers = {str(name): str(value) for name, value in event.headers}
        elif isinstance(event, h2.events.InformationalResponseReceived):
            answer.informed += 1
        elif isinstance(event, h2.events.DataReceived):
            answer.body += event.data
            answer.frames += 1
            self.received += len(event.data)
            if self.acknowledges:
                self.h2.acknowledge_received_data(event.flow_controlled_length, answer.id)
            else:
                answer.unacknowledged += event.flow_controlled_length
        elif isinstance(event, h2.events.StreamEnded):
            answer.ended = True
        elif isinstance(event, h2.events.StreamReset):
            answer.reset = event.error_code

    def _upload(self) -> None:
        for stream_id, body in list(self.bodies.items()):
            if self.answers[stream_id].reset is not None:
                del self.bodies[stream_id]
                continue
            while True:
                size = min(len(body), self.h2.local_flow_control_window(stream_id), self.h2.max_outbound_frame_size)
                if body and not size:
                    break
                body = self.bodies[stream_id][size:]
                self.h2.send_data(stream_id, self.bodies[stream_id][:size], end_stream=not body)
                self.sent_data += size
                self.bodies[stream_id] = body
                if not body:
                    del self.bodies[stream_id]
                    break


@pytest.fixture(scope="session")
def make_h2_client() -> Any:
    """`client = await make_h2_client(s)`, on whatever loop runs."""

    async def connect(s: Server, **options: Any) -> H2Client:
        return H2Client(await s.connect(**options), None, True)

    return connect


@pytest.fixture
async def h2_client() -> AsyncIterator[Any]:
    """`client = await h2_client(s)`: an HTTP/2 client of that server."""
    clients: list[H2Client] = []

    async def connect(
        s: Server, initial_window: int | None = None, acknowledge: bool = True, **options: Any
    ) -> H2Client:
        clients.append(H2Client(await s.connect(**options), initial_window, acknowledge))
        return clients[-1]

    yield connect
    for client in clients:
        client.close()
        await asyncio.wait((client.reading,))


@pytest.fixture
def tls_contexts(certificates: ServingFiles) -> Any:
    """`tls_contexts("h2")`: the server's context and a client's that offers these protocols."""

    def make(*alpn: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        client = ssl.create_default_context(cafile=str(certificates.ca))
        if alpn:
            client.set_alpn_protocols(list(alpn))
        return server_context(certificates.certificate, certificates.key), client

    return make
