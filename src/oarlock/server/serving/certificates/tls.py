"""TLS: the context of a listener, its versions and cipher suites, and the client's certificate.

TLS 1.2 and later, ALPN ``h2`` and ``http/1.1``. A client certificate is requested but never fails the handshake: it is
passed to authentication as it is, which answers 401 for a bad one, as in Kubernetes. TLS itself verifies that the
client has its key; nothing else is verified here. Cipher suites have Go's names, as kube-apiserver's flags; those
without forward secrecy or with known weaknesses aren't taken. Source: Go's ``crypto/tls``; RFC 9325. See also:
`issuing` for generated certificates; `sni`; `listener`, which uses this.
"""

from __future__ import annotations

import _ssl
import ctypes
import logging
import os
import ssl
import sys
from pathlib import Path
from typing import Any, NoReturn

from oarlock.meta.context import Peer
from oarlock.meta.dataclass import dataclass

__all__ = [
    "CIPHERS",
    "VERSIONS",
    "BadCertificateFile",
    "NamedPair",
    "TLSRules",
    "cipher_suite",
    "load_pair",
    "openssl_ciphers",
    "openssl_of",
    "parse_named_pair",
    "peer_of",
    "read_pair",
    "refuse_password",
    "reload_certificate",
    "server_context",
]

VERSIONS = {"VersionTLS12": ssl.TLSVersion.TLSv1_2, "VersionTLS13": ssl.TLSVersion.TLSv1_3}

_ALWAYS = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")

_SUITES = {
    f"TLS_ECDHE_{key}_WITH_{go}": f"ECDHE-{key}-{name}"
    for key in ("ECDSA", "RSA")
    for go, name in (
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
        ("CHACHA20_POLY1305", "CHACHA20-POLY1305"),
    )
}


def cipher_suite(text: str) -> str:
    """A suite's name, if it is taken. Raises ValueError."""
    if text in _SUITES or text in _ALWAYS:
        return text
    known = ", ".join(name for name in _SUITES if not name.endswith("POLY1305"))
    raise ValueError(f"{text} isn't taken; choose of {known}")


def openssl_ciphers(suites: tuple[str, ...]) -> str:
    """OpenSSL's list for suites of Go; those of TLS 1.3 are left out. Raises ValueError if none is left."""
    names = [_SUITES[suite] for suite in suites if suite in _SUITES]
    if not names:
        raise ValueError("names suites of TLS 1.3 only, which are always on: name one of TLS 1.2 too")
    return ":".join(dict.fromkeys(names))


@dataclass(frozen=True, slots=True)
class NamedPair:
    """A certificate, its key, and the names it is for; without names those in the certificate."""

    certificate: Path
    key: Path
    names: tuple[str, ...] = ()


def parse_named_pair(text: str) -> NamedPair:
    """``certificate,key`` or ``certificate,key:name,*.name``. Raises ValueError."""
    files, _, names = text.partition(":")
    pair = [part.strip() for part in files.split(",")]
    if len(pair) != 2 or not all(pair):
        raise ValueError(f"{text} isn't a pair of files: write cert.pem,key.pem or cert.pem,key.pem:*.example.com")
    listed = tuple(name.strip().lower() for name in names.split(",") if name.strip())
    for name in listed:
        if "*" in name.removeprefix("*."):
            raise ValueError(f"{name} isn't a valid name: * must be the first label, as in *.example.com")
    return NamedPair(Path(pair[0]), Path(pair[1]), listed)


log = logging.getLogger("oarlock.serving")

SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF = 44, 0  # openssl/ssl.h

SSL_CTRL_SET_MAX_CERT_LIST = 51

CERTIFICATES_BYTES = 32 * 1024
"""The largest chain of a client's certificates, which is held as long as the connection."""

CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"  # for TLS 1.2; those of TLS 1.3 are all secure


@dataclass(frozen=True, slots=True)
class TLSRules:
    """What a listener takes: the lowest version, and OpenSSL's list of ciphers for TLS 1.2."""

    min_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    ciphers: str = CIPHERS


class BadCertificateFile(Exception):
    """A certificate or key file can't be used. The message names the file and the reason."""


def server_context(
    certificate: Path,
    key: Path,
    *,
    http2: bool = True,
    client_certificates: bool = False,
    client_ca: Path | None = None,
    rules: TLSRules = TLSRules(),
) -> ssl.SSLContext:
    """The TLS context of a listener.

    With `client_certificates` the client is asked for one, and any is accepted unverified. If the interpreter doesn't
    allow that, OpenSSL verifies against `client_ca`, and an unknown certificate fails the handshake. Raises
    `BadCertificateFile`.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = rules.min_version
    context.set_ciphers(rules.ciphers)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.set_alpn_protocols(["h2", "http/1.1"] if http2 else ["http/1.1"])
    reload_certificate(context, certificate, key)
    _keep_nothing(context)
    if client_certificates and not _accept_any_certificate(context):
        if client_ca is None:
            log.warning("client certificates can't be requested: no client CA is set and OpenSSL can't be called")
            return context
        try:
            context.load_verify_locations(client_ca)
        except (OSError, ssl.SSLError) as error:
            raise BadCertificateFile(f"{client_ca}: {_reason(error)}") from error
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def reload_certificate(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    """Use these files from the next handshake on. Raises `BadCertificateFile` and changes nothing then."""
    pair = read_pair(certificate, key)
    try:
        load_pair(context, pair, certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise BadCertificateFile(f"{certificate}: {_reason(error)}") from error


def load_pair(context: ssl.SSLContext, pair: bytes, certificate: Path, key: Path) -> None:
    """Give OpenSSL what was checked, where the system allows it: it takes files only, and they may change meanwhile."""
    if not hasattr(os, "memfd_create"):
        context.load_cert_chain(certificate, key, refuse_password)
        return
    descriptor = os.memfd_create("oarlock-tls", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, pair)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password=refuse_password)
    finally:
        os.close(descriptor)


def refuse_password() -> NoReturn:
    """Called by OpenSSL for the password of an encrypted key, for which it would ask at the terminal."""
    raise ValueError("it is encrypted: use a key without a password")


def read_pair(certificate: Path, key: Path) -> bytes:
    """Both files, one after the other, if they belong together. Raises `BadCertificateFile`."""
    chain = _read(certificate, b"CERTIFICATE", "certificate")
    secret = _read(key, b"PRIVATE KEY", "private key")
    pair = chain + b"\n" + secret
    try:
        load_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), pair, certificate, key)
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        # Imported here, because it is large, and only for what OpenSSL's messages don't say.
        from oarlock.server.serving.certificates.bad_pairs import pair_problem  # noqa: PLC0415 (see above)

        problem = pair_problem(chain, secret, certificate, key) or f"{certificate}: {_reason(error)}"
        raise BadCertificateFile(problem) from error
    return pair


def _read(file: Path, label: bytes, what: str) -> bytes:
    """What is in a file, which has a block in PEM with this label: OpenSSL would take it from the other file."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise BadCertificateFile(f"{file}: {_reason(error)}") from error
    if label + b"-----" not in content:
        raise BadCertificateFile(f"{file}: it contains no {what} in PEM")
    return content


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and not isinstance(error, ssl.SSLError):
        return error.strerror
    return str(error) or type(error).__name__


VerifyCallback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p)


def _clear_error() -> Any:
    try:
        return ctypes.CDLL(_ssl.__file__).ERR_clear_error
    except (AttributeError, OSError):  # then `_openssl` doesn't reach OpenSSL either
        return int


_forget_error = _clear_error()


def _let_through(_ok: int, _store: int) -> int:
    """Agrees. What OpenSSL noted about the certificate would be taken for an error of the next read, so it goes."""
    _forget_error()
    return 1


LET_THROUGH = VerifyCallback(_let_through)


def _openssl(context: ssl.SSLContext) -> tuple[ctypes.CDLL, int] | None:
    """OpenSSL, and its own context behind Python's: its pointer is the first field of Python's object.

    This is checked by reading back, through it, what was set through the documented API. If the check fails, returns
    None and changes nothing.
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


def openssl_of(context: ssl.SSLContext) -> tuple[ctypes.CDLL, int] | None:
    """`_openssl` for a context that is in use: it is tried with another one, and `context` isn't changed."""
    reached = _openssl(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    if reached is None:
        return None
    pointer = ctypes.c_void_p.from_address(id(context) + object.__basicsize__).value
    return (reached[0], pointer) if pointer else None


def _keep_nothing(context: ssl.SSLContext) -> None:
    """Store no sessions, and limit certificate chains.

    OpenSSL stores the sessions of TLS 1.2 clients without tickets, with their certificates: up to twenty thousand, for
    any client. Without, they make a full handshake each time; tickets, and TLS 1.3, need no server-side state.
    """
    openssl = _openssl(context)
    if openssl is not None:
        library, pointer = openssl
        library.SSL_CTX_ctrl(pointer, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, None)
        library.SSL_CTX_ctrl(pointer, SSL_CTRL_SET_MAX_CERT_LIST, CERTIFICATES_BYTES, None)


def _accept_any_certificate(context: ssl.SSLContext) -> bool:
    """Request a client certificate and accept any (Go's ``tls.RequestClientCert``).

    Python's ssl has no such mode, so OpenSSL gets a verify callback that always agrees. If OpenSSL can't be reached,
    returns False and changes nothing.
    """
    openssl = _openssl(context)
    if openssl is None:
        return False
    library, pointer = openssl
    library.SSL_CTX_set_verify(pointer, 1, ctypes.cast(LET_THROUGH, ctypes.c_void_p))
    return bool(context.verify_mode == ssl.CERT_OPTIONAL)


def peer_of(transport: Any) -> Peer:
    """The client of a connection, after the TLS handshake, if any. Called once per connection."""
    name = transport.get_extra_info("peername")
    address, port = (str(name[0]), int(name[1])) if isinstance(name, tuple) and len(name) >= 2 else ("", 0)
    tls = transport.get_extra_info("ssl_object")
    certificate = tls.getpeercert(True) if tls is not None else None
    if certificate is None:
        return Peer(address, port, tls=tls is not None)
    return Peer(address, port, certificate, tuple(_further(tls, certificate)), tls=True)


def _further(tls: Any, certificate: bytes) -> list[bytes]:
    """The certificates after the client's own. Python has a public API for them from 3.13 on."""
    chain = getattr(tls, "get_unverified_chain", None)
    try:
        found = chain() if chain is not None else tls._sslobj.get_unverified_chain()
    except (AttributeError, NotImplementedError):
        return []
    encoded = [
        certificate if isinstance(certificate, bytes) else certificate.public_bytes(_ssl.ENCODING_DER)
        for certificate in found or ()
    ]
    return [der for der in encoded if der != certificate]
