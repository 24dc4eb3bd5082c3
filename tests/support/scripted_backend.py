"""A server behind an aggregator or a proxy that answers as a test says: well, badly, or not at all."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from oarlock.server.serving.certificates.issuing import CertificatePair, issue, new_authority

__all__ = ["Asked", "ScriptedBackend", "as_json", "newest", "well_behaved"]

GROUP = "echo.example.com"
Tree = dict[str, Any]


@dataclass(slots=True)
class Asked:
    """A request as the backend sees it; names of headers are lower case."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name]


Answer = Callable[[Asked, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def as_json(tree: Any, status: str = "200 OK") -> bytes:
    """An answer with this body."""
    body = msgspec.json.encode(tree)
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def resources(version: str) -> Tree:
    echoes = {"name": "echoes", "singularName": "echo", "namespaced": True, "kind": "Echo", "verbs": ["get", "list"]}
    return {"kind": "APIResourceList", "groupVersion": f"{GROUP}/{version}", "resources": [echoes]}


async def well_behaved(asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Says what it was asked, and what it has."""
    path = asked.target.partition("?")[0]
    if path.startswith("/openapi") or path == "/apis":
        writer.write(as_json({"kind": "Status"}, "404 Not Found"))
    elif path.count("/") == 3:
        writer.write(as_json(resources(path.rpartition("/")[2])))
    else:
        told = {"target": asked.target, "method": asked.method, "body": asked.body.decode(), "headers": asked.headers}
        writer.write(as_json(told))


class ScriptedBackend:
    """Serves on a free port of 127.0.0.1. What it was asked is in `asked`; `connections` counts them.

    Without `read_bodies` the body of a request is for `answer` to read; without `tls` it speaks plain HTTP.
    """

    def __init__(self, *hosts: str, answer: Answer = well_behaved, read_bodies: bool = True, tls: bool = True) -> None:
        self.answer = answer
        self.read_bodies = read_bodies
        self.tls = tls
        self.hosts = hosts or ("echo.default.svc",)
        self.asked: list[Asked] = []
        self.connections = 0
        self.port = 0
        self.certificates: list[Any] = []
        """What clients have shown of themselves, one for each connection."""
        self.authority = new_authority(datetime.now(UTC))
        self._listener: socket.socket | None = None
        self._handshakes: set[asyncio.Task[None]] = set()
        self._up = False
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def ca(self) -> bytes:
        return self.authority.certificate_pem

    def client_context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.ca.decode())

    async def start(self, folder: Path, clients: CertificatePair | None = None) -> ScriptedBackend:
        """Begin, on the same port as before; `clients` signs the certificates that clients must show."""
        pair = issue(self.authority, self.hosts, datetime.now(UTC))
        file = folder / "backend.pem"
        file.write_bytes(pair.certificate_pem + pair.key_pem)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        if clients is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=clients.certificate_pem.decode())
        self._up = True
        listener = socket.create_server(("127.0.0.1", self.port))
        listener.setblocking(False)
        self.port = listener.getsockname()[1]
        self._listener = listener
        asyncio.get_running_loop().add_reader(listener.fileno(), self._take, listener, context if self.tls else None)
        return self

    def _take(self, listener: socket.socket, context: ssl.SSLContext | None) -> None:
        """What ``asyncio.start_server`` does, which loses a connection that comes while it is closed."""
        try:
            one, _ = listener.accept()
        except OSError:  # it went while it waited
            return
        one.setblocking(False)
        task = asyncio.ensure_future(self._accepted(one, context))
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    async def _accepted(self, one: socket.socket, context: ssl.SSLContext | None) -> None:
        loop = asyncio.get_running_loop()
        protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader(), self._serve)
        with contextlib.suppress(OSError):
            await loop.connect_accepted_socket(lambda: protocol, one, ssl=context)

    async def stop(self) -> None:
        """Cut everything."""
        self._up = False
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener.fileno())
            self._listener.close()
            self._listener = None
        if self._handshakes:
            await asyncio.wait(self._handshakes)
        for writer in tuple(self._writers):
            writer.transport.abort()
        for _ in range(300):
            await asyncio.sleep(0)

    def api_service(self, version: str = "v1", group: str = GROUP, **spec: Any) -> Tree:
        """An APIService that sends requests here."""
        return {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {
                "name": f"{version}.{group}",
                "annotations": {"oarlock.dev/url": f"https://127.0.0.1:{self.port}"},
            },
            "spec": {
                "group": group,
                "version": version,
                "service": {"namespace": "default", "name": "echo"},
                "caBundle": base64.b64encode(self.ca).decode(),
                "groupPriorityMinimum": 1000,
                "versionPriority": 10,
                **spec,
            },
        }

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._up:
            writer.transport.abort()
            return
        self.connections += 1
        self._writers.add(writer)
        self.certificates.append(writer.get_extra_info("peercert"))
        try:
            while True:
                first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").strip().split("\r\n")
                method, target, _ = first.split(" ")
                headers = [(name.lower(), value) for name, _, value in (line.partition(": ") for line in lines)]
                size = int(dict(headers).get("content-length", "0")) if self.read_bodies else 0
                asked = Asked(method, target, headers, await reader.readexactly(size))
                self.asked.append(asked)
                await self.answer(asked, reader, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()


def newest(contexts: Sequence[ssl.SSLContext]) -> Callable[[], Awaitable[ssl.SSLContext]]:
    """The last of `contexts`, as a pool of connections asks for it."""

    async def tls() -> ssl.SSLContext:
        return contexts[-1]

    return tls
