"""A TLS handshake with a backend, as an aggregator makes it. See also: `checks`."""

from __future__ import annotations

import asyncio
import ssl

from oarlock.meta.dataclass import dataclass
from oarlock.net.connecting import Address, open_connection
from oarlock.net.trust import trusting, trusting_anybody

__all__ = ["Handshake", "shake_hands"]

CONNECT_S = 3.0


@dataclass(frozen=True, slots=True)
class Handshake:
    """`reached` says whether anything answered. `problem` is why the certificate isn't accepted, empty if it is."""

    reached: bool
    problem: str = ""
    certificate: bytes = b""


async def shake_hands(host: str, port: int, name: str, bundle: str | None) -> Handshake:
    """Connect, and check the certificate against `bundle` (PEM) for `name`; without a bundle, against nothing.

    The certificate is the DER of what the backend serves, whether it is accepted or not.
    """
    try:
        certificate = await _certificate(host, port, name, trusting_anybody())
    except ssl.SSLError as error:
        return Handshake(True, f"it doesn't speak TLS: {error.reason or error}")
    except (OSError, TimeoutError):
        return Handshake(False)
    if bundle is None:
        return Handshake(True, certificate=certificate)
    try:
        await _certificate(host, port, name, trusting(bundle))
    except ssl.SSLCertVerificationError as error:
        return Handshake(True, error.verify_message, certificate)
    except (ssl.SSLError, OSError, TimeoutError) as error:
        return Handshake(True, str(error), certificate)
    return Handshake(True, certificate=certificate)


async def _certificate(host: str, port: int, name: str, context: ssl.SSLContext) -> bytes:
    async with asyncio.timeout(CONNECT_S):
        transport = await open_connection(asyncio.Protocol, Address(host, port, name), context)
    try:
        found = transport.get_extra_info("ssl_object").getpeercert(True)
        return found if isinstance(found, bytes) else b""
    finally:
        transport.close()
