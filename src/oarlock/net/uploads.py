"""`Upload`: the body of a request on its way, beside the response to it.

A task sends it as fast as the server takes it. A response may come before it is all sent.
See also: `http1`, `http2`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

from oarlock.net.messages import HttpError, HttpResponse

__all__ = ["Upload", "in_pieces"]

PIECE_BYTES = 64 * 1024


class _BodyWriter(Protocol):
    """How a connection sends a body."""

    async def write_body(self, data: bytes) -> None: ...

    async def end_body(self) -> None: ...

    def cut(self) -> None: ...


class Upload:
    """A body that breaks off ends the request: `response` fails with what the body raised."""

    def __init__(self, body: AsyncIterator[bytes], connection: _BodyWriter, response: HttpResponse) -> None:
        self._response = response
        self._connection = connection
        self._task = asyncio.ensure_future(self._run(body))

    @property
    def done(self) -> bool:
        return self._task.done()

    def cancel(self) -> None:
        """Send no more of it."""
        self._task.cancel()

    async def _run(self, body: AsyncIterator[bytes]) -> None:
        try:
            async for piece in body:
                await self._connection.write_body(piece)
            await self._connection.end_body()
        except HttpError:
            pass  # the response tells, or there is none
        except Exception as error:
            began = self._response.head.done()
            self._connection.cut()
            self._response.fail(HttpError("the body of the request broke off") if began else error)


async def in_pieces(data: bytes) -> AsyncIterator[bytes]:
    """A long body, so that others have their turn while it is sent."""
    for start in range(0, len(data), PIECE_BYTES):
        yield data[start : start + PIECE_BYTES]
