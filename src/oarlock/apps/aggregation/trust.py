"""The TLS of connections to backends: `BackendTrust`, a context for all that trust the same; proxy certificates."""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging
import ssl
from pathlib import Path
from weakref import WeakValueDictionary

from oarlock.apps.kinds.apiregistration import APIServiceSpec
from oarlock.client.client import Client
from oarlock.meta.dataclass import dataclass
from oarlock.net.files import file_signature
from oarlock.net.messages import HttpError
from oarlock.net.trust import trusting, trusting_anybody
from oarlock.server.serving.certificates.tls import BadCertificateFile, load_pair, read_pair


@dataclass(frozen=True, slots=True)
class _Terms:
    """What decides which TLS context a connection uses."""

    bundle: str | None
    insecure: bool
    certificate: object


class BackendTrust:
    """TLS contexts, shared, since making one takes milliseconds. A context lives as long as it is referenced."""

    def __init__(self, certificate: ProxyCertificate) -> None:
        self.certificate = certificate
        self._contexts: WeakValueDictionary[_Terms, ssl.SSLContext] = WeakValueDictionary()

    def context(self, spec: APIServiceSpec) -> ssl.SSLContext:
        """Another one when the certificate's files have changed. Raises `HttpError`."""
        terms = _Terms(spec.ca_bundle, spec.insecure_skip_tls_verify, self.certificate.stamp())
        context = self._contexts.get(terms)
        if context is None:
            context = _context_for(terms)
            self.certificate.load(context)
            self._contexts[terms] = context
        return context


def _context_for(terms: _Terms) -> ssl.SSLContext:
    if terms.insecure:
        return trusting_anybody()
    try:
        return trusting(base64.b64decode(terms.bundle or ""))
    except (ssl.SSLError, binascii.Error, ValueError) as error:
        raise HttpError(f"unable to load root certificates: {error}", unsent=True) from None


log = logging.getLogger("oarlock.aggregation")


class ProxyCertificate:
    """The files of ``--proxy-client-cert-file`` and ``--proxy-client-key-file``; None for no certificate.

    While they don't belong together, as between two writes, or can't be read, the previous content stays in force.
    """

    def __init__(self, certificate: Path | None = None, key: Path | None = None) -> None:
        self.files = None if certificate is None else (certificate, key or certificate)
        self._read_as: tuple[object, ...] = ()
        self._pair = b""
        self.problem = ""
        """Why there is no certificate to show, where there should be one."""

    async def ready(self, client: Client) -> None:
        """Wait until there is what can be had of it. `client` is one of this server's process."""

    def stamp(self) -> object:
        """Another value when there is another certificate."""
        if self.files is not None:
            signature = tuple(map(file_signature, self.files))
            if signature != self._read_as:
                self._read_as = signature
                self._read(*self.files)
        return hashlib.sha256(self._pair).digest()

    def load(self, context: ssl.SSLContext) -> None:
        """Show the certificate of the last `stamp` in connections of `context`. Raises `HttpError`."""
        if not self._pair and self.problem:
            raise HttpError(f"the client certificate of this server: {self.problem}", unsent=True)
        if self.files is None:
            return
        try:
            load_pair(context, self._pair, *self.files)
        except (OSError, ssl.SSLError) as error:
            raise HttpError(f"the client certificate of this server: {error}", unsent=True) from None

    def _read(self, certificate: Path, key: Path) -> None:
        try:
            self._pair = read_pair(certificate, key)
        except BadCertificateFile as error:
            self.problem = str(error)
            log.error("%s: the previous content stays in force", error)
        else:
            self.problem = ""
