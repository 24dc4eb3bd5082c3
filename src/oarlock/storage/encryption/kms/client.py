"""`KmsClient`: asks a key management service over a unix socket. Every call has a deadline.

Must not know: what is encrypted. See also: `provider`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Final, TypeVar
from urllib.parse import unquote

from oarlock.net.url import parse_url
from oarlock.storage.encryption.kms import messages
from oarlock.storage.encryption.kms.envelope import EncryptedKey, MalformedMessage
from oarlock.storage.grpc.calls import GrpcCode, GrpcError
from oarlock.storage.grpc.channel import GrpcChannel, GrpcTarget

__all__ = ["KmsClient", "KmsRefused", "KmsUnreachable", "socket_path"]

T = TypeVar("T")

MAX_ANSWER_BYTES = 128 * 1024
MAX_SHOWN = 200

_UNREACHABLE: Final = (GrpcCode.UNAVAILABLE, GrpcCode.DEADLINE_EXCEEDED, GrpcCode.CANCELLED)


class KmsUnreachable(Exception):
    """The service doesn't answer, or not in time."""


class KmsRefused(Exception):
    """The service answered with an error, or with nonsense."""


class KmsClient:
    """Used from one event loop."""

    def __init__(self, endpoint: str, timeout_s: float) -> None:
        self._timeout_s: Final = timeout_s
        self._channel: Final = GrpcChannel(GrpcTarget(path=socket_path(endpoint)), largest=MAX_ANSWER_BYTES)

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
        try:
            return read(await self._channel.unary(method, request, timeout_s=self._timeout_s, patient=True))
        except GrpcError as error:
            why = f"{error.code.name}: {' '.join(error.details.split())[:MAX_SHOWN]}"
            if error.code in _UNREACHABLE:
                raise KmsUnreachable(why) from None
            raise KmsRefused(why) from None
        except MalformedMessage as error:
            raise KmsRefused(f"its answer can't be read: {error}") from None


def socket_path(endpoint: str) -> str:
    """The path in ``unix:///path``; that of ``unix:///@name``, in the abstract namespace, begins with a NUL."""
    path = unquote(parse_url(endpoint).path)
    return f"\0{path[2:]}" if path.startswith("/@") else path
