"""`ProxyCertificate`: the certificate by which backends know this server, read again when its files change."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from oarlock.apps.aggregation.forwarding.connection import BackendError
from oarlock.server.reloaded_files import file_signature

__all__ = ["ProxyCertificate"]


@dataclass(frozen=True, slots=True)
class ProxyCertificate:
    """The files of ``--proxy-client-cert-file`` and ``--proxy-client-key-file``; None for no certificate."""

    certificate: Path | None = None
    key: Path | None = None

    def stamp(self) -> tuple[object, ...]:
        """Another value when the files have changed."""
        return tuple(file_signature(file) for file in (self.certificate, self.key) if file is not None)

    def load(self, context: ssl.SSLContext) -> None:
        """Show the certificate in connections of `context`. Raises `BackendError`."""
        if self.certificate is None:
            return
        try:
            context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            raise BackendError(f"--proxy-client-cert-file={self.certificate}: {error}", unsent=True) from None
