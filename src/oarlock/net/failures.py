"""What it is called when a connection can't be made: the texts of Go's HTTP client, which people search for.

See also: `connecting`. Source: Go's ``net/http``, ``net`` and ``crypto/x509``.
"""

from __future__ import annotations

import os
import socket
import ssl

__all__ = ["failure_text"]

UNKNOWN_AUTHORITY = "certificate signed by unknown authority"
_HOST_MISMATCH = (62, 63, 64)
"""OpenSSL's verify codes for a certificate of another host, mail address or IP address."""
_EXPIRED = (9, 10)


def failure_text(error: BaseException, address: str, host: str) -> str:
    """What an error means, of a connection to `address`, where `host` was expected; "" if unknown."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"tls: failed to verify certificate: x509: {_distrust(error, host)}"
    if isinstance(error, ssl.SSLError):
        return f"remote error: tls: {(error.reason or str(error)).lower().replace('_', ' ')}"
    if isinstance(error, socket.gaierror):
        return f"dial tcp: lookup {address.rpartition(':')[0]}: no such host"
    if isinstance(error, ConnectionRefusedError) or "Connect call failed" in str(error):
        return f"dial tcp {address}: connect: connection refused"
    if isinstance(error, ConnectionResetError):
        return "EOF"
    if isinstance(error, OSError) and error.errno:
        return f"dial tcp {address}: connect: {os.strerror(error.errno).lower()}"
    return ""


def _distrust(error: ssl.SSLCertVerificationError, host: str) -> str:
    if error.verify_code in _HOST_MISMATCH:
        return f"certificate is not valid for {host}"
    if error.verify_code in _EXPIRED:
        return "certificate has expired or is not yet valid"
    return UNKNOWN_AUTHORITY
