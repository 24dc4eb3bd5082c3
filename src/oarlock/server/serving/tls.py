"""TLS: the context a listener serves with, and who is at the other end.

TLS 1.2 and later, ALPN ``h2`` and ``http/1.1``. A client certificate is asked for but never fails the
handshake: it reaches authentication as it was presented, which answers 401 for a bad one, as Kubernetes
does. Nothing is verified here but that the client holds the key of the certificate it shows (TLS itself
does that). Next: `certs` for certificates when none are given, `server` for who uses this.
"""

from __future__ import annotations

import _ssl
import ctypes
import logging
import ssl
import sys
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from oarlock.endpoints.http import Peer

__all__ = ["BadCertificateFile", "peer_of", "reload_certificate", "server_context"]

log = logging.getLogger("oarlock.serving")

SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF = 44, 0  # openssl/ssl.h
SSL_CTRL_SET_MAX_CERT_LIST = 51
CERTIFICATES_BYTES = 32 * 1024
"""How long a client's chain of certificates may be; it is kept for as long as the connection."""
CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"  # TLS 1.2; those of TLS 1.3 are all sound


class BadCertificateFile(Exception):
    """A certificate or key file can't be used. The message names the file and what is wrong with it."""


def server_context(
    certificate: Path,
    key: Path,
    *,
    http2: bool = True,
    client_certificates: bool = False,
    client_ca: Path | None = None,
) -> ssl.SSLContext:
    """The context for a listener.

    With `client_certificates` the client is asked for one and any is let through, unverified. Where the
    interpreter doesn't allow that, OpenSSL verifies against `client_ca` and a certificate it doesn't know
    fails the handshake. Raises `BadCertificateFile`.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.set_alpn_protocols(["h2", "http/1.1"] if http2 else ["http/1.1"])
    reload_certificate(context, certificate, key)
    _keep_nothing(context)
    if client_certificates and not _accept_any_certificate(context):
        if client_ca is None:
            log.warning("client certificates can't be asked for: no client CA is given and OpenSSL can't be reached")
            return context
        try:
            context.load_verify_locations(client_ca)
        except (OSError, ssl.SSLError) as error:
            raise BadCertificateFile(f"{client_ca}: {_reason(error)}") from error
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def reload_certificate(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    """Serve with these files from the next handshake on. Raises `BadCertificateFile` and changes nothing then."""
    _check_pair(certificate, key)
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise BadCertificateFile(f"{certificate}: {_reason(error)}") from error


def _check_pair(certificate: Path, key: Path) -> None:
    """Say which of two files is wrong: OpenSSL's own messages don't."""
    try:
        leaf = x509.load_pem_x509_certificates(certificate.read_bytes())[0]
    except OSError as error:
        raise BadCertificateFile(f"{certificate}: {_reason(error)}") from error
    except ValueError as error:
        raise BadCertificateFile(f"{certificate}: it holds no certificate in PEM") from error
    try:
        private = load_pem_private_key(key.read_bytes(), None)
    except OSError as error:
        raise BadCertificateFile(f"{key}: {_reason(error)}") from error
    except TypeError as error:
        raise BadCertificateFile(f"{key}: it is encrypted: give one without a password") from error
    except ValueError as error:
        raise BadCertificateFile(f"{key}: it holds no private key in PEM") from error
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if private.public_key().public_bytes(*form) != leaf.public_key().public_bytes(*form):
        raise BadCertificateFile(f"{key}: it is not the key of the certificate in {certificate}")


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and not isinstance(error, ssl.SSLError):
        return error.strerror
    return str(error) or type(error).__name__


VerifyCallback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p)
LET_THROUGH = VerifyCallback(lambda _ok, _store: 1)


def _openssl(context: ssl.SSLContext) -> tuple[ctypes.CDLL, int] | None:
    """OpenSSL, and its own context behind Python's: its pointer is the first field of Python's object.

    That this is so is tested by reading back, through it, what was set through the documented API. None, and nothing
    is changed, where it isn't so.
    """
    if sys.implementation.name != "cpython":
        return None
    try:
        library = ctypes.CDLL(_ssl.__file__)
        get_mode, set_verify, control = (
            library.SSL_CTX_get_verify_mode,
            library.SSL_CTX_set_verify,
            library.SSL_CTX_ctrl,
        )
    except (AttributeError, OSError):
        return None
    get_mode.argtypes, get_mode.restype = [ctypes.c_void_p], ctypes.c_int
    set_verify.argtypes, set_verify.restype = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p], None
    control.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_long, ctypes.c_void_p]
    control.restype = ctypes.c_long
    pointer = ctypes.c_void_p.from_address(id(context) + object.__basicsize__).value
    if not pointer:
        return None
    expected = {ssl.CERT_OPTIONAL: 1, ssl.CERT_REQUIRED: 3, ssl.CERT_NONE: 0}
    for mode, seen in expected.items():
        context.verify_mode = mode
        if get_mode(pointer) != seen:
            context.verify_mode = ssl.CERT_NONE
            return None
    return library, pointer


def _keep_nothing(context: ssl.SSLContext) -> None:
    """Keep no sessions, and take no endless chains of certificates.

    OpenSSL keeps the sessions of TLS 1.2 clients that take no ticket, with the certificates that they showed: twenty
    thousand of them, for anybody. They make a full handshake each time; tickets, and TLS 1.3, resume without a memory.
    """
    openssl = _openssl(context)
    if openssl is not None:
        library, pointer = openssl
        library.SSL_CTX_ctrl(pointer, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, None)
        library.SSL_CTX_ctrl(pointer, SSL_CTRL_SET_MAX_CERT_LIST, CERTIFICATES_BYTES, None)


def _accept_any_certificate(context: ssl.SSLContext) -> bool:
    """Ask for a client certificate and let every one through (Go's ``tls.RequestClientCert``).

    Python's ssl has no such mode, so OpenSSL is given a verify callback that always agrees. False, and nothing is
    changed, where OpenSSL can't be reached.
    """
    openssl = _openssl(context)
    if openssl is None:
        return False
    library, pointer = openssl
    library.SSL_CTX_set_verify(pointer, 1, ctypes.cast(LET_THROUGH, ctypes.c_void_p))
    return bool(context.verify_mode == ssl.CERT_OPTIONAL)


def peer_of(transport: Any) -> Peer:
    """The other end of a connection whose handshake, if any, is done. Read once per connection."""
    name = transport.get_extra_info("peername")
    address, port = (str(name[0]), int(name[1])) if isinstance(name, tuple) and len(name) >= 2 else ("", 0)
    tls = transport.get_extra_info("ssl_object")
    certificate = tls.getpeercert(True) if tls is not None else None
    if certificate is None:
        return Peer(address, port)
    return Peer(address, port, certificate, tuple(_further(tls, certificate)))


def _further(tls: Any, certificate: bytes) -> list[bytes]:
    """What the client sent besides its own certificate. Python says so publicly from 3.13 on."""
    chain = getattr(tls, "get_unverified_chain", None)
    try:
        found = chain() if chain is not None else tls._sslobj.get_unverified_chain()
    except (AttributeError, NotImplementedError):
        return []
    encoded = [one if isinstance(one, bytes) else one.public_bytes(_ssl.ENCODING_DER) for one in found or ()]
    return [one for one in encoded if one != certificate]
