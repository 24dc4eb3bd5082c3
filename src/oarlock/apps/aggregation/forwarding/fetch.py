"""Asks a backend for a document, as the aggregator itself. See also: `forward`, requests of clients."""

from __future__ import annotations

import asyncio

from oarlock.apps.aggregation.forwarding.connection import BackendError, ServerConnection
from oarlock.apps.aggregation.forwarding.pool import Address, BackendPool
from oarlock.meta.dataclass import dataclass

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
    pool: BackendPool, address: Address, path: str, accept: str, *, most_bytes: int, etag: str = ""
) -> Fetched:
    """GET `path`. A body of more than `most_bytes` isn't read. Raises `BackendError`."""
    lines = [
        f"GET {path} HTTP/1.1",
        f"host: {address.server_name}:{address.port}",
        f"accept: {accept}",
        f"x-remote-user: {USER}",
        *(f"x-remote-group: {group}" for group in GROUPS),
        *([f"if-none-match: {etag}"] if etag else []),
    ]
    connection = await pool.take(address, fresh=True)
    try:
        answer = await connection.ask("\r\n".join([*lines, "", ""]).encode("latin-1"))
        headers = dict(reversed(answer.headers))
        body = await _body(connection, most_bytes)
        return Fetched(answer.status, headers.get("content-type", ""), headers.get("etag", ""), body)
    except (asyncio.CancelledError, BackendError):
        connection.abort()
        raise
    finally:
        pool.give_back(address, connection)


async def _body(connection: ServerConnection, most_bytes: int) -> bytes:
    data = bytearray()
    async for piece in connection.pieces():
        data += piece
        if len(data) > most_bytes:
            connection.abort()
            raise BackendError(f"its document has over {most_bytes} bytes")
    return bytes(data)
