"""`NumbersPage`: ``/metrics`` and ``/healthz`` of a process that serves nothing else.

A small HTTP/1.1 server without TLS, for Prometheus and a kubelet: every request has a deadline, a size and an end.
See also: ``controllers.metrics``, what is on the page.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from oarlock.codec.prometheus_text import metrics_text
from oarlock.controllers.base import ControllerBase
from oarlock.controllers.metrics import controller_families
from oarlock.server.command import CommandError

__all__ = ["NumbersPage"]

REQUEST_S = 5.0
MAX_HEAD_BYTES = 16 * 1024
MAX_CONNECTIONS = 32


class NumbersPage:
    """Serves at `address`, ``host:port`` or a port of 127.0.0.1. Raises CommandError for another text."""

    def __init__(self, address: str, controllers: Sequence[ControllerBase[Any]]) -> None:
        host, _, port = address.rpartition(":")
        if not port.isascii() or not port.isdigit() or int(port) > 65_535:
            raise CommandError(f"--metrics-bind-address {address!r}: write ADDRESS:PORT, such as 127.0.0.1:8080")
        self._address = address
        self._host = host.strip("[]") or "127.0.0.1"
        self._port = int(port)
        self._controllers = controllers
        self._server: asyncio.Server | None = None
        self._open = 0

    @property
    def address(self) -> str:
        """Where it listens."""
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def __aenter__(self) -> Self:
        try:
            self._server = await asyncio.start_server(self._connected, self._host, self._port, limit=MAX_HEAD_BYTES)
        except OSError as error:
            what = f"cannot listen on {self._address}: {error.strerror or error}"
            raise CommandError(f"{what}: choose another --metrics-bind-address") from None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= MAX_CONNECTIONS:
                async with asyncio.timeout(REQUEST_S):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(await self._answer(head))
                    await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self._open -= 1
            writer.close()

    async def _answer(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b"\r\n")[0].partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method != b"GET":
            return _response("405 Method Not Allowed", b"only GET\n")
        if path == b"/healthz":
            return _response("200 OK", b"ok\n")
        if path != b"/metrics":
            return _response("404 Not Found", b"there are /metrics and /healthz\n")
        numbers = [numbers for controller in self._controllers for numbers in controller.numbers()]
        text = await asyncio.to_thread(metrics_text, controller_families(numbers))
        return _response("200 OK", text, "text/plain; version=0.0.4; charset=utf-8")


def _response(status: str, body: bytes, content_type: str = "text/plain") -> bytes:
    lines = (
        f"HTTP/1.1 {status}",
        f"content-type: {content_type}",
        f"content-length: {len(body)}",
        "x-content-type-options: nosniff",
        "connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode() + body
