"""Asks a backend for a document, as the aggregator itself. See also: `forward`, requests of clients."""

from __future__ import annotations

from oarlock.meta.dataclass import dataclass
from oarlock.net.connecting import Address
from oarlock.net.messages import HttpError, HttpRequest
from oarlock.net.pool import HttpPool

__all__ = ["Fetched", "fetch"]

USER, GROUPS = "system:kube-aggregator", ("system:masters",)


@dataclass(frozen=True, slots=True)
class Fetched:
    """An answer: its status, what of its headers matters, and its body."""

    status: int
    content_type: str
    etag: str
    body: bytes


async def fetch(
    pool: HttpPool, address: Address, path: str, accept: str, *, most_bytes: int, etag: str = ""
) -> Fetched:
    """GET `path`. Raises `HttpError`, also for a body of more than `most_bytes`."""
    headers = [("accept", accept), ("x-remote-user", USER), *(("x-remote-group", group) for group in GROUPS)]
    if etag:
        headers.append(("if-none-match", etag))
    host = f"{address.server_name}:{address.port}"
    response = await pool.ask(address, HttpRequest("GET", host, path, tuple(headers)))
    body = await response.read(most_bytes)
    if len(body) > most_bytes:
        raise HttpError(f"its document has over {most_bytes} bytes")
    return Fetched(response.status, response.header("content-type"), response.header("etag"), body)
