"""`Peer`: the client's end of a connection, as the serving layer knows it. One per connection."""

from __future__ import annotations

from oarlock.meta.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Peer:
    """The client's end of a connection.

    `certificate` is the client's certificate in DER; `chain` are further certificates it sent. TLS has checked only
    that the client holds the key: whom to trust is decided by authentication. `tls` is False without encryption.
    """

    address: str
    port: int
    certificate: bytes | None = None
    chain: tuple[bytes, ...] = ()
    tls: bool = False
