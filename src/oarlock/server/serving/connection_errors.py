"""Rate-limited logging of connection errors, most of which any client can cause at will.

See also: `listener`, whose connections these are.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

__all__ = ["ConnectionErrors", "ThrottledLog"]

log = logging.getLogger("oarlock.serving")

EVERY_S = 10.0


class ThrottledLog:
    """Lines of one kind: the first at once, then one in `EVERY_S` seconds, with the number of lines left out."""

    __slots__ = ("_level", "_monotonic", "_next", "_unwritten")

    def __init__(self, level: int, monotonic: Callable[[], float]) -> None:
        self._level = level
        self._monotonic = monotonic
        self._next = float("-inf")
        self._unwritten = 0

    def write(self, text: str, *args: object) -> None:
        """Log ``text % args``, or count it."""
        now = self._monotonic()
        if now < self._next:
            self._unwritten += 1
            return
        if self._unwritten:
            text, args = (
                f"{text} (and %d more in the last %.0f s)",
                (*args, self._unwritten, now - self._next + EVERY_S),
            )
        log.log(self._level, text, *args)
        self._next = now + EVERY_S
        self._unwritten = 0


class ConnectionErrors:
    """The event loop's exception handler for errors that transports report of broken connections.

    asyncio logs them with a traceback (and can't format the report of an aborted handshake, whose exception is a
    class). For a server they are normal. Everything else is passed to the previous handler.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, lines: ThrottledLog) -> None:
        self._loop = loop
        self._lines = lines
        self._before = loop.get_exception_handler()
        loop.set_exception_handler(self)

    def restore(self) -> None:
        if self._loop.get_exception_handler() is self:
            self._loop.set_exception_handler(self._before)

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        kind = error if isinstance(error, type) else type(error)
        if "transport" in context and issubclass(kind, OSError):  # ssl.SSLError is one
            detail = kind.__name__ if isinstance(error, type) else error
            self._lines.write("%s: %s: %s", _peer(context["transport"]), context.get("message", ""), detail)
        elif self._before is not None:
            self._before(loop, context)
        else:
            loop.default_exception_handler(context)


def _peer(transport: Any) -> str:
    name = transport.get_extra_info("peername")
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) and len(name) >= 2 else "a connection"
