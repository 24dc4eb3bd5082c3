"""What `stream_text` and `connect` share: a user's method in a task of its own, that goes on after the request.

It ends with the client, with the server, and when the resource is withdrawn. Must not know: what is sent.
Next: ``route.WatchBook``, which knows all that goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from oarlock.endpoints.http import Stream
from oarlock.endpoints.route import Route

__all__ = ["Lasting", "held", "until_begun"]

FIRST_S = 1.0
"""How long an answer waits for the method to begin: until then, what it raises is an ordinary answer."""
ABANDONED_S = 30.0
"""How long a method waits for its answer to be sent: the client may have gone in that very moment."""


class Lasting(Protocol):
    """The task. `begun` resolves when the method first sends or reads, ends, or fails."""

    begun: asyncio.Future[None]

    def cancel(self) -> None:
        """Nobody will read it: end at once."""
        ...

    def connected(self, stream: Stream) -> None:
        """The answer is on its way."""
        ...

    def leave(self) -> None:
        """The server leaves, or the resource is withdrawn."""
        ...


async def until_begun(talk: Lasting) -> None:
    """Wait for `begun`, no longer than `FIRST_S`. Raises what the method raised until then."""
    try:
        await asyncio.wait((talk.begun,), timeout=FIRST_S)
        if not talk.begun.done():
            talk.begun.set_result(None)  # too late for an ordinary answer
        talk.begun.result()
    except BaseException:
        talk.cancel()
        raise


def held(talk: Lasting, route: Route) -> Callable[[Stream], None]:
    """What starts the answer: from then on `talk` is told when to leave."""
    abandoned = asyncio.get_running_loop().call_later(ABANDONED_S, talk.cancel)

    def start(stream: Stream) -> None:
        abandoned.cancel()
        book, resource = route.watches, route.resource
        assert book is not None
        assert resource is not None
        talk.connected(stream)
        if not stream.closed:
            book.hold(talk.leave, resource)
            stream.on_close(lambda: book.release(talk.leave))

    return start
