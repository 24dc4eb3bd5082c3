"""`ServerAddress`: where clients reach a server, and whom they must trust there."""

from __future__ import annotations

from oarlock.meta.dataclass import dataclass

__all__ = ["ServerAddress"]


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """`ca` is the certificate to trust, in PEM; None if it is one that the system trusts, or where there is no TLS."""

    url: str
    ca: bytes | None = None
