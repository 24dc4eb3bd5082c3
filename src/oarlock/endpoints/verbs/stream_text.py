"""GET of a subresource that answers with a stream, such as ``…/foos/a/log?follow=true``.

A task runs the user's generator and writes what it yields, with backpressure from the client. It ends when the client
disconnects, on shutdown, and when the resource is withdrawn: the generator is then closed, so that its `finally` blocks
run. See also: `registry.subresource_hooks`, which makes the generator.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

from oarlock.endpoints.http import Response, Stream
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.routing.route import ResourceRoute, Verb
from oarlock.endpoints.verbs.long_running import held, until_begun
from oarlock.endpoints.verbs.subresource import parent_of
from oarlock.registry.hooks.hook_caller import values_of
from oarlock.registry.served import StreamHook
from oarlock.storage.pacing import Pacer

__all__ = ["stream_text"]

log = logging.getLogger("oarlock.endpoints")

AHEAD_BYTES = 256 * 1024


def stream_text(hook: StreamHook) -> Verb:
    """The verb that answers with what the user's generator yields.

    What it raises before its first piece is an ordinary error.
    """
    headers = [("content-type", hook.media_type), ("x-content-type-options", "nosniff")]

    async def answer_with_text(state: RequestState, route: ResourceRoute) -> Response:
        arguments = values_of(hook.arguments, route.pairs)
        parent = await parent_of(state, route)
        pieces = hook.stream(state.context(), parent, arguments)
        text_stream = _TextStream(pieces, f"{route.target.group_resource}/{hook.name}")
        await until_begun(text_stream)
        return Response(200, [*headers], stream=held(text_stream, route))

    return answer_with_text


class _TextStream:
    """The task of one generator. `begun` resolves with its first piece, its end or its error."""

    def __init__(self, pieces: AsyncIterator[bytes], what: str) -> None:
        loop = asyncio.get_running_loop()
        self.begun: asyncio.Future[None] = loop.create_future()
        self._stream: asyncio.Future[Stream] = loop.create_future()
        self._what = what
        self._task = loop.create_task(self._run(pieces))

    def cancel(self) -> None:
        self._task.cancel()

    def connected(self, stream: Stream) -> None:
        stream.on_close(self.cancel)
        self._stream.set_result(stream)

    def leave(self) -> None:
        self._stream.result().close()

    async def _run(self, pieces: AsyncIterator[bytes]) -> None:
        try:
            await self._send(pieces)
        except Exception as error:
            if not self.begun.done():
                self.begun.set_exception(error)
                return
            log.exception("%s failed halfway", self._what)
            (await self._stream).abort()
        else:
            if not self.begun.done():
                self.begun.set_result(None)
            (await self._stream).close()
        finally:
            if not self.begun.done():
                self.begun.cancel()
            close = getattr(pieces, "aclose", None)
            if close is not None:
                await close()

    async def _send(self, pieces: AsyncIterator[bytes]) -> None:
        pacer = Pacer()
        async for piece in pieces:
            if not isinstance(piece, bytes):
                raise TypeError(f"{self._what} yielded {piece!r:.100}: it yields bytes")
            if not self.begun.done():
                self.begun.set_result(None)
            stream = await self._stream
            stream.write(piece)
            if stream.buffered > AHEAD_BYTES:
                await stream.drained()
            await pacer.turn()  # let others run: a generator that never waits would block the event loop
