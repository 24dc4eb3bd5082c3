"""A key management service (KMS v2) on a unix socket, which can fail in many ways. It "encrypts" by XOR."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc
import grpc.aio

from oarlock.storage.encryption.kms.envelope import bytes_field, fields_of, map_field

__all__ = ["KmsPlugin"]


class KmsPlugin:
    """Runs while the context lasts, on the running loop. `calls` has the name of each call.

    `hangs` names calls that are never answered, `fails` maps calls to the code they are answered with.
    """

    def __init__(self, socket: Path) -> None:
        self.endpoint = f"unix://{socket}"
        self.calls: list[str] = []
        self.hangs: set[str] = set()
        self.fails: dict[str, grpc.StatusCode] = {}
        self.key_id = "key-1"
        self.encrypts_as = ""
        """The key id in answers to Encrypt, if it isn't that of the status."""
        self.version, self.healthz = "v2", "ok"
        self.annotations: dict[str, bytes] = {"version.kms.example.com": b"7"}
        self.garbage = b""
        """In place of each answer, if not empty."""
        self._socket = socket
        self._server: Any = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        self._server = grpc.aio.server()
        answers = {"Status": self._status, "Encrypt": self._encrypt, "Decrypt": self._decrypt}
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(self._handler(name, answer)) for name, answer in answers.items()
        }
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("v2.KeyManagementService", handlers),)
        )
        self._server.add_insecure_port(f"unix:{self._socket}")
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(None)
        self._socket.unlink(missing_ok=True)

    def count(self, name: str) -> int:
        return self.calls.count(name)

    def _handler(self, name: str, answer: Callable[[dict[int, Any]], bytes]) -> Callable[..., Awaitable[bytes]]:
        async def handle(request: bytes, context: Any) -> bytes:
            self.calls.append(name)
            if name in self.hangs:
                await asyncio.Event().wait()
            if name in self.fails:
                await context.abort(self.fails[name], "as it was told to")
            return self.garbage or answer(dict(fields_of(request)))

        return handle

    def _status(self, request: dict[int, Any]) -> bytes:
        texts = (self.version, self.healthz, self.key_id)
        return b"".join(bytes_field(number, text.encode()) for number, text in enumerate(texts, 1))

    def _encrypt(self, request: dict[int, Any]) -> bytes:
        key_id = (self.encrypts_as or self.key_id).encode()
        return bytes_field(1, self._mixed(request[1], key_id)) + bytes_field(2, key_id) + map_field(3, self.annotations)

    def _decrypt(self, request: dict[int, Any]) -> bytes:
        assert request[2], "a uid"
        return bytes_field(1, self._mixed(request[1], request[3]))

    def _mixed(self, data: bytes, key_id: bytes) -> bytes:
        mask = sum(key_id) & 0xFF
        return bytes(byte ^ mask for byte in data)
