"""Runs a user's method in a task that outlives the request, for `stream_text` and `connect`.

It ends when the client disconnects, on shutdown, and when the resource is withdrawn.
Must not know: what is sent. See also: ``watching.watch_book``, which has all open-ended answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from oarlock.endpoints.http import Stream
from oarlock.endpoints.routing.route import ResourceRoute

__all__ = ["LongRunning", "held", "until_begun"]

FIRST_S = 1.0
"""How long, in seconds, an answer waits for the method to begin: until then, what it raises is an ordinary answer."""
ABANDONED_S = 30.0
"""How long, in seconds, a method waits for its answer to be sent: the client may just have disconnected."""


class LongRunning(Protocol):
    """The task. `begun` resolves when the method first sends or reads, ends, or fails."""

    begun: asyncio.Future[None]

    def cancel(self) -> None:
        """End at once: the client has disconnected."""
        ...

    def connected(self, stream: Stream) -> None:
        """The answer is being sent."""
        ...

    def leave(self) -> None:
        """End: shutdown, or the resource is withdrawn."""
        ...


async def until_begun(task: LongRunning) -> None:
    """Wait for `begun`, at most `FIRST_S`. Raises what the method raised until then."""
    try:
        await asyncio.wait((task.begun,), timeout=FIRST_S)
        if not task.begun.done():
            task.begun.set_result(None)  # too late for an ordinary answer
        task.begun.result()
    except BaseException:
        task.cancel()
        raise


def held(task: LongRunning, route: ResourceRoute) -> Callable[[Stream], None]:
    """The callback that starts the answer; from then on `task` ends with the server and the resource."""
    abandoned = asyncio.get_running_loop().call_later(ABANDONED_S, task.cancel)

    def start(stream: Stream) -> None:
        abandoned.cancel()
        book, resource = route.watches, route.resource
        task.connected(stream)
        if not stream.closed:
            book.hold(task.leave, resource)
            stream.on_close(lambda: book.release(task.leave))

    return start
