"""When a request is sent again: the server said so (429, 503 with ``Retry-After``), or never received it.

Source: client-go ``rest/with_retry.go``, RFC 9110 §10.2.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from oarlock.client.transport import ClientRequest, ClientResponse, Transport, TransportError
from oarlock.meta.dataclass import dataclass
from oarlock.net.backoff import Backoff

__all__ = ["RetryPolicy", "send"]

_READS = frozenset(("GET", "HEAD"))


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a request is sent again, and how long it waits at most in between, in seconds."""

    retries: int = 10
    longest_wait_s: float = 30.0
    first_wait_s: float = 0.1
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    @property
    def backoff(self) -> Backoff:
        """The waits without jitter."""
        first_s = max(self.first_wait_s, 1e-6)
        return Backoff(first_s, max(first_s, self.longest_wait_s))


async def send(transport: Transport, request: ClientRequest, policy: RetryPolicy) -> ClientResponse:
    """Send a request, again if that is safe. Raises TransportError; any answer is returned, an error too.

    A write that the server may have received isn't repeated: it may have been done.
    """
    pauses = policy.backoff.pauses()
    for retries_left in range(policy.retries, -1, -1):
        try:
            answer = await transport.send(request)
        except TransportError as error:
            if not retries_left or (error.sent and request.method not in _READS):
                raise
            await policy.sleep(pauses.take())
        else:
            seconds = answer.headers.get("retry-after", "")
            if answer.status not in (429, 503) or not (seconds.isascii() and seconds.isdigit()) or not retries_left:
                return answer
            await answer.close()
            await policy.sleep(min(float(seconds[:9]) or pauses.take(), policy.longest_wait_s))
    raise AssertionError("the last attempt returns or raises")
