"""Makes the audit of a server from its options: the policy of the file, and the sinks. See also: ``filters.audit``."""

from __future__ import annotations

from pathlib import Path

from oarlock.client.clock import TimerClock
from oarlock.client.http_transport import HTTPTransport
from oarlock.client.login.config import ClientConfigError
from oarlock.client.login.kubeconfig import load_kubeconfig
from oarlock.client.transport import TransportError
from oarlock.policy.audit.policy import AuditPolicy
from oarlock.policy.audit.policy_file import policy_of
from oarlock.server.audit.buffer import BUFFER_BYTES, Batching, Throttle
from oarlock.server.audit.log_sink import MEGABYTE, LogSettings, LogSink, Rotation
from oarlock.server.audit.sink import AuditCounts, AuditError, AuditSink, Failures, ServerAudit, SinkModes, Truncation
from oarlock.server.audit.webhook_sink import WebhookSettings, WebhookSink
from oarlock.server.config import ServerConfig
from oarlock.server.files.strict_reader import decoded_file
from oarlock.server.options.groups.audit import SinkOptions

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
    given = config.log_sink_options
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
    given = config.webhook_sink_options
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
        return Batching(given.buffer_size, given.max_size, senders=senders)
    throttle = Throttle(given.throttle_qps, given.throttle_burst) if given.throttle_enable else None
    max_bytes = given.max_batch_size if given.truncate_enabled else BUFFER_BYTES
    return Batching(given.buffer_size, given.max_size, given.max_wait_s, max_bytes, throttle, senders)


def _truncation(given: SinkOptions) -> Truncation | None:
    return Truncation(given.max_event_size, given.max_batch_size) if given.truncate_enabled else None
