"""`ServerNames`: the certificate that fits the name a client asks for (SNI, RFC 6066 §3).

Python's own callback for this needs Python's connections, and ours are OpenSSL's, so it is set in OpenSSL. All else is
decided by the context of the listener: versions, ciphers, client certificates.
Source: k8s.io/apiserver ``dynamiccertificates``. See also: `tls`.
"""

from __future__ import annotations

import ctypes
import logging
import ssl
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.x509.oid import NameOID

from oarlock.server.serving.certificates.tls import BadCertificateFile, NamedPair, openssl_of

__all__ = ["ServerNames"]

log = logging.getLogger("oarlock.serving")

SSL_CTRL_SET_TLSEXT_SERVERNAME_CB = 53  # openssl/tls1.h
HOST_NAME, CONTINUE = 0, 0
Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


class ServerNames:
    """Lets `default`, the context of a listener, serve the certificates of others by name. The first that fits counts.

    Raises `BadCertificateFile` if OpenSSL can't be reached.
    """

    def __init__(self, default: ssl.SSLContext, others: Sequence[tuple[NamedPair, ssl.SSLContext]]) -> None:
        self._others = tuple(others)
        self._contexts: dict[str, int] = {}
        reached = openssl_of(default)
        if reached is None:
            raise BadCertificateFile("certificates can't be chosen by name: this Python's OpenSSL can't be reached")
        library, pointer = reached
        self._name_of, self._switch = library.SSL_get_servername, library.SSL_set_SSL_CTX
        self._name_of.argtypes, self._name_of.restype = [ctypes.c_void_p, ctypes.c_int], ctypes.c_char_p
        self._switch.argtypes, self._switch.restype = [ctypes.c_void_p, ctypes.c_void_p], ctypes.c_void_p
        self.refresh()
        self._callback = Callback(self._choose)
        library.SSL_CTX_callback_ctrl.argtypes = [ctypes.c_void_p, ctypes.c_int, Callback]
        library.SSL_CTX_callback_ctrl(pointer, SSL_CTRL_SET_TLSEXT_SERVERNAME_CB, self._callback)
        default.server_names = self  # type: ignore[attr-defined]  # what OpenSSL calls must live as long

    def refresh(self) -> None:
        """Read the names in the certificates again. Raises `BadCertificateFile`."""
        explicit: dict[str, int] = {}
        read: dict[str, int] = {}
        for pair, context in self._others:
            reached = openssl_of(context)
            if reached is not None:
                for name in pair.names:
                    explicit.setdefault(name, reached[1])
                for name in () if pair.names else _names_in(pair.certificate):
                    read.setdefault(name, reached[1])
        self._contexts = {**read, **explicit}

    def _choose(self, connection: int, _alert: int, _argument: int) -> int:
        """Called by OpenSSL in the middle of a handshake."""
        name = self._name_of(connection, HOST_NAME)
        if name:
            context = self.context_for(name.decode("ascii", "replace"))
            if context is not None:
                self._switch(connection, context)
        return CONTINUE

    def context_for(self, name: str) -> int | None:
        """OpenSSL's context for a name; None for the listener's own."""
        name = name.lower().rstrip(".")
        exact = self._contexts.get(name)
        return exact if exact is not None else self._contexts.get(f"*.{name.partition('.')[2]}")


def _names_in(certificate: Path) -> list[str]:
    try:
        leaf = x509.load_pem_x509_certificates(certificate.read_bytes())[0]
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return [name.lower() for name in names.get_values_for_type(x509.DNSName)]
    except x509.ExtensionNotFound:
        return [str(attribute.value).lower() for attribute in leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    except (OSError, ValueError) as error:
        raise BadCertificateFile(f"{certificate}: {error}") from error
