"""The folder that certificates are kept in, its lock, and whether they still do: tried by a TLS handshake in memory.

In doubt the answer is no, and the caller looks more closely. Only the standard library is used: what makes certificates
takes a tenth of a server's start, and 12 MiB. See also: `serving_pair`, which asks.
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from oarlock.meta.dataclass import dataclass
from oarlock.net.trust import trusting
from oarlock.server.files.credentials import locked
from oarlock.server.serving.certificates.tls import BadCertificateFile, refuse_password

__all__ = ["KeptPair", "certificates_do", "locked_directory"]


@contextmanager
def locked_directory(directory: Path) -> Iterator[None]:
    """Lock `directory`, created if missing. Raises `BadCertificateFile` if it can't be written."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(directory):
            yield
    except FileExistsError as error:
        raise BadCertificateFile(f"{directory}: it isn't a folder: set --cert-dir to one") from error
    except OSError as error:
        raise BadCertificateFile(f"{error.filename or directory}: {error.strerror}") from error


ROUNDS = 4
"""How often each side of the handshake is asked to go on: TLS 1.3 needs two rounds."""


@dataclass(frozen=True, slots=True)
class KeptPair:
    """The files of a certificate and its key."""

    certificate: Path
    key: Path


def certificates_do(
    authority: KeptPair, serving: KeptPair, hosts: Sequence[str], moment: datetime, rest: timedelta
) -> bool:
    """Whether `authority` can sign, and has signed `serving` for all `hosts`, both for longer than `rest` from now on.

    False also for files that are missing or can't be read.
    """
    try:
        _with_key(authority)
        client = trusting(file=authority.certificate)
        client.check_hostname = False  # all its names are compared below
        (signer,) = client.get_ca_certs()
        shown = _shown(_with_key(serving), client)
    except (OSError, ValueError):  # an SSLError is an OSError
        return False
    begins, *ends = map(parsedate_to_datetime, (shown["notBefore"], shown["notAfter"], signer["notAfter"]))
    names = {_comparable(name) for _, name in shown.get("subjectAltName", ())}
    return begins <= moment < min(ends) - rest and names.issuperset(map(_comparable, hosts))


def _with_key(pair: KeptPair) -> ssl.SSLContext:
    """A server with the certificate. Raises OSError, ValueError, also if the key is another one's."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key, refuse_password)
    return context


def _shown(server: ssl.SSLContext, client: ssl.SSLContext) -> Mapping[str, Any]:
    """The certificate that the server shows and the client believes. Raises OSError, ValueError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = client.wrap_bio(to_client, to_server), server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(ROUNDS):
        for end in ends:
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
    return ends[0].getpeercert() or {}


def _comparable(name: str) -> str:
    """An address in its one form; a DNS name as it is."""
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name
