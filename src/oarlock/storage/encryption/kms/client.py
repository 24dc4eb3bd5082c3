"""`KmsClient`: asks a key management service over a unix socket. Every call has a deadline.

Must not know: what is encrypted. Needs grpcio, which is imported when a client is made. See also: `provider`.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from oarlock.storage.encryption.kms import messages
from oarlock.storage.encryption.kms.envelope import EncryptedKey
from oarlock.storage.encryption.kms.wire import MalformedMessage

__all__ = ["KmsClient", "KmsRefused", "KmsUnreachable", "socket_target"]

T = TypeVar("T")

MAX_ANSWER_BYTES = 128 * 1024
MAX_SHOWN = 200
GRACE_S = 1.0
"""How much longer than its deadline a call may take before it is given up, whatever gRPC does."""


class KmsUnreachable(Exception):
    """The service doesn't answer, or not in time."""


class KmsRefused(Exception):
    """The service answered with an error, or with nonsense."""


class KmsClient:
    """Used from one event loop."""

    def __init__(self, endpoint: str, timeout_s: float) -> None:
        import grpc  # noqa: PLC0415 (an extra)
        import grpc.aio  # noqa: PLC0415

        options = [
            ("grpc.default_authority", "localhost"),
            ("grpc.enable_http_proxy", 0),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 3000),
            ("grpc.max_receive_message_length", MAX_ANSWER_BYTES),
            ("grpc.use_local_subchannel_pool", 1),
        ]
        self._timeout_s: Final = timeout_s
        self._channel: Final = grpc.aio.insecure_channel(socket_target(endpoint), options=options)
        self._rpc_error: Final = grpc.aio.AioRpcError
        codes = grpc.StatusCode
        self._unreachable: Final = (codes.UNAVAILABLE, codes.DEADLINE_EXCEEDED, codes.CANCELLED)

    async def close(self) -> None:
        await self._channel.close()

    async def status(self) -> messages.KmsStatus:
        """Raises `KmsUnreachable`, `KmsRefused`."""
        return await self._call(messages.STATUS, b"", messages.read_status)

    async def encrypt(self, plaintext: bytes) -> EncryptedKey:
        """Raises `KmsUnreachable`, `KmsRefused`."""
        request = messages.encrypt_request(plaintext, str(uuid.uuid4()))
        return await self._call(messages.ENCRYPT, request, messages.read_encrypted)

    async def decrypt(self, key: EncryptedKey) -> bytes:
        """Raises `KmsUnreachable`, `KmsRefused`."""
        request = messages.decrypt_request(key, str(uuid.uuid4()))
        return await self._call(messages.DECRYPT, request, messages.read_decrypted)

    async def _call(self, method: str, request: bytes, read: Callable[[bytes], T]) -> T:
        call: Any = self._channel.unary_unary(method)
        try:
            async with asyncio.timeout(self._timeout_s + GRACE_S):
                return read(await call(request, timeout=self._timeout_s, wait_for_ready=True))
        except self._rpc_error as error:
            why = f"{error.code().name}: {' '.join((error.details() or '').split())[:MAX_SHOWN]}"
            if error.code() in self._unreachable:
                raise KmsUnreachable(why) from None
            raise KmsRefused(why) from None
        except TimeoutError:
            raise KmsUnreachable(f"no answer within {self._timeout_s:g} s") from None
        except MalformedMessage as error:
            raise KmsRefused(f"its answer can't be read: {error}") from None


def socket_target(endpoint: str) -> str:
    """What gRPC calls the socket of ``unix:///path``, or of ``unix:///@name`` in the abstract namespace."""
    path = urlsplit(endpoint).path
    return f"unix-abstract:{path[2:]}" if path.startswith("/@") else f"unix:{path}"
