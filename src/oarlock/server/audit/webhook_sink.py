"""`WebhookSink`: events sent to a service, as an ``EventList`` in a POST.

Whatever goes wrong, a batch is sent again, five times in all, later each time; then it is dropped.
Source: k8s.io/apiserver ``plugin/pkg/audit/webhook``, ``util/webhook``.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Sequence

from oarlock.client.clock import TimerClock
from oarlock.client.login.config import ClientConfigError
from oarlock.client.transport import ClientRequest, Transport, TransportError
from oarlock.meta.dataclass import dataclass
from oarlock.net.backoff import Backoff
from oarlock.net.url import parse_url
from oarlock.policy.audit.event import AuditEvent
from oarlock.server.audit.buffer import Batching, EventBuffer
from oarlock.server.audit.sink import AuditSink, Failures, SinkModes, Truncation

PLUGIN = "webhook"
ATTEMPTS = 5
FACTOR = 1.5
JITTER = 0.2
TIMEOUT_S = 30.0
_HEAD = b'{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":['
_TYPE = b'"kind":"Event","apiVersion":"audit.k8s.io/v1",'
_HEADERS = (("content-type", "application/json"), ("accept", "application/json"), ("user-agent", "oarlock-audit"))


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """How events are sent, to the path in `url`."""

    url: str
    mode: str
    batching: Batching
    initial_backoff_s: float = 10.0
    truncation: Truncation | None = None


class WebhookSink(AuditSink):
    """Sends events over `transport`."""

    def __init__(self, settings: WebhookSettings, transport: Transport, clock: TimerClock, failures: Failures) -> None:
        super().__init__(
            settings.truncation, failures, prompt=settings.mode == SinkModes.BATCH and settings.truncation is None
        )
        self._settings = settings
        self._transport = transport
        self._clock = clock
        self._path = "" if parse_url(settings.url).path.strip("/") else "/"
        self._buffer: EventBuffer | None = None
        if settings.mode == SinkModes.BATCH:
            self._buffer = EventBuffer(self._send, settings.batching, clock, failures)

    def _write(self, event: AuditEvent) -> Awaitable[bool] | bool:
        if self._buffer is None:
            return self._send_one(event.line)
        self._buffer.put(event.line)
        return True

    async def _send_one(self, line: bytes) -> bool:
        return await self._send([line]) or self._settings.mode != SinkModes.STRICT

    async def _send(self, lines: Sequence[bytes]) -> bool:
        body = _HEAD + b",".join([line.replace(_TYPE, b"", 1) for line in lines]) + b"]}\n"
        request = ClientRequest("POST", self._path, headers=_HEADERS, body=body, timeout_s=TIMEOUT_S)
        pauses = Backoff(self._settings.initial_backoff_s, math.inf, FACTOR, JITTER).pauses()
        for attempts_left in range(ATTEMPTS - 1, -1, -1):
            problem = await self._post(request)
            if not problem:
                return True
            if attempts_left:
                await self._clock.sleep(pauses.take())
        self._failures.report(PLUGIN, len(lines), problem)
        return False

    async def _post(self, request: ClientRequest) -> str:
        """What went wrong, ``""`` if nothing did."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                answer = await self._transport.send(request)
                await answer.close()
        except (TransportError, ClientConfigError) as error:
            return str(error)
        except TimeoutError:
            return f"no answer within {TIMEOUT_S:g} s"
        return "" if 200 <= answer.status < 300 else f"{self._settings.url} answered {answer.status}"

    async def close(self, timeout_s: float) -> None:
        if self._buffer is not None:
            await self._buffer.close(timeout_s)
        await self._transport.close()
