"""Makes the audit of a server from its options: the policy of the file, and the sinks. See also: ``filters.audit``."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Sequence
from pathlib import Path

from oarlock.client.clock import TimerClock
from oarlock.client.http_transport import HTTPTransport
from oarlock.client.login.kubeconfig import ClientConfigError, load_kubeconfig
from oarlock.client.transport import ClientRequest, Transport, TransportError
from oarlock.meta.dataclass import dataclass
from oarlock.net.backoff import Backoff
from oarlock.net.url import parse_url
from oarlock.policy.audit.event import AuditEvent
from oarlock.policy.audit.policy import AuditPolicy, policy_of
from oarlock.server.audit.sink import AuditCounts, AuditError, AuditSink, Failures, ServerAudit, SinkModes, Truncation
from oarlock.server.audit.sinks import (
    BUFFER_BYTES,
    MEGABYTE,
    Batching,
    EventBuffer,
    LogSettings,
    LogSink,
    Rotation,
    Throttle,
)
from oarlock.server.config import ServerConfig
from oarlock.server.files.strict_reader import decoded_file
from oarlock.server.options.groups.audit import SinkOptions

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


WEBHOOK_SENDERS = 8


def audit_of(config: ServerConfig, clock: TimerClock) -> ServerAudit | None:
    """The audit that `config` asks for, None if it asks for none. Needs a running event loop. Raises `AuditError`."""
    if config.audit_policy_file is None:
        return None
    policy = _policy(config.audit_policy_file)
    counts = AuditCounts()
    failures = Failures(counts, clock)
    sinks: list[AuditSink] = []
    if config.audit_log_path is not None:
        sinks.append(_log_sink(config, config.audit_log_path, clock, failures))
    if config.audit_webhook_config_file is not None:
        sinks.append(_webhook_sink(config, config.audit_webhook_config_file, clock, failures))
    return ServerAudit(policy, tuple(sinks), counts)


def _policy(path: Path) -> AuditPolicy:
    try:
        file = decoded_file(path)
        if file.repeated_keys:
            raise ValueError(file.repeated_keys[0])
        return policy_of(file.tree)
    except ValueError as error:
        raise AuditError(f"--audit-policy-file={path}: {error}") from None


def _log_sink(config: ServerConfig, path: Path, clock: TimerClock, failures: Failures) -> AuditSink:
    rotation = Rotation(
        config.audit_log_maxsize * MEGABYTE,
        config.audit_log_maxbackup,
        config.audit_log_maxage,
        config.audit_log_compress,
    )
    given = config.sink_options("log")
    settings = LogSettings(
        None if path.name == "-" else path,
        rotation,
        given.mode,
        _batching(given, senders=1),
        config.audit_log_format == "legacy",
        _truncation(given),
    )
    try:
        return LogSink(settings, clock, failures)
    except OSError as error:
        raise AuditError(f"--audit-log-path={path}: {error.strerror}") from None


def _webhook_sink(config: ServerConfig, path: Path, clock: TimerClock, failures: Failures) -> AuditSink:
    try:
        target = load_kubeconfig(path)
        transport = HTTPTransport(target)
    except (ClientConfigError, TransportError) as error:
        raise AuditError(f"--audit-webhook-config-file={path}: {error}") from None
    given = config.sink_options("webhook")
    settings = WebhookSettings(
        target.server,
        given.mode,
        _batching(given, senders=WEBHOOK_SENDERS),
        config.audit_webhook_initial_backoff_s,
        _truncation(given),
    )
    return WebhookSink(settings, transport, clock, failures)


def _batching(given: SinkOptions, *, senders: int) -> Batching:
    if given.mode != SinkModes.BATCH:  # requests wait for single events
        return Batching(given.batch_buffer_size, given.batch_max_size, senders=senders)
    throttle = None
    if given.batch_throttle_enable:
        throttle = Throttle(given.batch_throttle_qps, given.batch_throttle_burst)
    max_bytes = given.truncate_max_batch_size if given.truncate_enabled else BUFFER_BYTES
    return Batching(given.batch_buffer_size, given.batch_max_size, given.batch_max_wait_s, max_bytes, throttle, senders)


def _truncation(given: SinkOptions) -> Truncation | None:
    return Truncation(given.truncate_max_event_size, given.truncate_max_batch_size) if given.truncate_enabled else None
