"""Options of audit: what is recorded of requests, and where."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Literal

from oarlock.meta.dataclass import dataclass
from oarlock.server.options.option import OptionGroup, Problem, option
from oarlock.server.options.types import BooleanType, DurationType, FractionType, IntegerType, PathType, StringType

AUDIT_MODES = ("batch", "blocking", "blocking-strict")
AUDIT_FORMATS = ("json", "legacy")
_VERSION = "audit.k8s.io/v1"

# What the options of both sinks are for.
_ONE_VERSION = "The version of events. There is only one."
_MODE = (
    "How events are written. batch: requests don't wait, and events are dropped when the buffer is full. blocking: "
    "requests wait until their event is written. blocking-strict: requests also fail if the event of their receipt "
    "can't be written."
)
_BUFFER = "How many events the buffer holds at most, with at most 64 MiB. For batch mode."
_BATCH = "How many events are written at a time. For batch mode."
_WAIT = "How long a batch waits for more events. For batch mode."
_THROTTLED = "Limit the rate of batches. For batch mode."
_RATE = "The average number of batches per second. For batch mode."
_BURST = "The number of batches that may be written at once after a pause. For batch mode."
_TRUNCATED = "Remove the objects from events that are too large, and drop events that are still too large."
_EVENT_SIZE = "The size above which an event is too large."
_BATCH_SIZE = "The largest size of a batch, if events are truncated."


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """What the log and the webhook have in common, as ``--audit-log-`` and ``--audit-webhook-``. Sizes are in bytes."""

    mode: str
    version: str
    batch_buffer_size: int
    batch_max_size: int
    batch_max_wait_s: float
    batch_throttle_enable: bool
    batch_throttle_qps: float
    batch_throttle_burst: int
    truncate_enabled: bool
    truncate_max_event_size: int
    truncate_max_batch_size: int


@dataclass(frozen=True, kw_only=True, repr=False)
class AuditOptions(OptionGroup):
    title = "Audit"

    audit_policy_file: Path | None = option(
        None,
        PathType(),
        "Record requests as this policy says (audit.k8s.io/v1 Policy, YAML or JSON). Needs --audit-log-path or "
        "--audit-webhook-config-file.",
    )
    audit_log_path: Path | None = option(
        None, PathType(), "Append events to this file, one per line. - is standard output."
    )
    audit_log_maxage: int = option(
        366, IntegerType("DAYS"), "Remove rotated files after this number of days. 0 keeps them."
    )
    audit_log_maxbackup: int = option(100, IntegerType(), "The number of rotated files to keep. 0 keeps all.")
    audit_log_maxsize: int = option(
        100, IntegerType("MEGABYTES"), "Rotate the file before it is larger. 0 never rotates it."
    )
    audit_log_compress: bool = option(False, BooleanType(), "Compress rotated files with gzip.")
    audit_log_format: str = option(
        "json", StringType("FORMAT"), "The format: json, or legacy, which is text without objects."
    )
    audit_log_version: str = option(_VERSION, StringType("VERSION"), _ONE_VERSION)

    audit_log_mode: str = option("blocking", StringType("MODE"), _MODE)
    audit_log_batch_buffer_size: int = option(10_000, IntegerType(minimum=1), _BUFFER)
    audit_log_batch_max_size: int = option(400, IntegerType(minimum=1), _BATCH)
    audit_log_batch_max_wait_s: float = option(0.0, DurationType(), _WAIT)
    audit_log_batch_throttle_enable: bool = option(False, BooleanType(), _THROTTLED)
    audit_log_batch_throttle_qps: float = option(0.0, FractionType(), _RATE)
    audit_log_batch_throttle_burst: int = option(1, IntegerType(minimum=1), _BURST)
    audit_log_truncate_enabled: bool = option(False, BooleanType(), _TRUNCATED)
    audit_log_truncate_max_event_size: int = option(102_400, IntegerType("BYTES", minimum=1), _EVENT_SIZE)
    audit_log_truncate_max_batch_size: int = option(10_485_760, IntegerType("BYTES", minimum=1), _BATCH_SIZE)

    audit_webhook_config_file: Path | None = option(
        None, PathType(), "Send events to the server of this kubeconfig, as an EventList in a POST."
    )
    audit_webhook_initial_backoff_s: float = option(
        10.0, DurationType(positive=True), "How long to wait before the first retry. Later retries wait longer."
    )
    audit_webhook_version: str = option(_VERSION, StringType("VERSION"), _ONE_VERSION)

    audit_webhook_mode: str = option("batch", StringType("MODE"), _MODE)
    audit_webhook_batch_buffer_size: int = option(10_000, IntegerType(minimum=1), _BUFFER)
    audit_webhook_batch_max_size: int = option(400, IntegerType(minimum=1), _BATCH)
    audit_webhook_batch_max_wait_s: float = option(30.0, DurationType(), _WAIT)
    audit_webhook_batch_throttle_enable: bool = option(True, BooleanType(), _THROTTLED)
    audit_webhook_batch_throttle_qps: float = option(10.0, FractionType(), _RATE)
    audit_webhook_batch_throttle_burst: int = option(15, IntegerType(minimum=1), _BURST)
    audit_webhook_truncate_enabled: bool = option(False, BooleanType(), _TRUNCATED)
    audit_webhook_truncate_max_event_size: int = option(102_400, IntegerType("BYTES", minimum=1), _EVENT_SIZE)
    audit_webhook_truncate_max_batch_size: int = option(10_485_760, IntegerType("BYTES", minimum=1), _BATCH_SIZE)

    def check(self) -> Iterator[Problem]:
        sinks = {"audit_log_path": self.audit_log_path, "audit_webhook_config_file": self.audit_webhook_config_file}
        given = [name for name, value in sinks.items() if value is not None]
        if self.audit_policy_file is None:
            for name in given:
                yield Problem(name, "records nothing without a policy: set `audit_policy_file`, too")
            return
        if not given:
            yield Problem("audit_policy_file", "has no sink: set `audit_log_path` or `audit_webhook_config_file`, too")
        if self.audit_log_format not in AUDIT_FORMATS:
            yield Problem("audit_log_format", f"must be one of {', '.join(AUDIT_FORMATS)}")
        if self.audit_log_path is not None:
            yield from _check_sink("log", self.sink_options("log"))
        if self.audit_webhook_config_file is not None:
            yield from _check_sink("webhook", self.sink_options("webhook"))

    def sink_options(self, sink: Literal["log", "webhook"]) -> SinkOptions:
        """The options of the audit log, or of the audit webhook."""
        given = {field.name: getattr(self, f"audit_{sink}_{field.name}") for field in fields(SinkOptions)}
        return SinkOptions(**given)


def _check_sink(sink: str, given: SinkOptions) -> Iterator[Problem]:
    if given.mode not in AUDIT_MODES:
        yield Problem(f"audit_{sink}_mode", f"must be one of {', '.join(AUDIT_MODES)}")
    if given.version != _VERSION:
        yield Problem(f"audit_{sink}_version", f"must be {_VERSION}")
    if given.batch_throttle_enable and not given.batch_throttle_qps:
        yield Problem(f"audit_{sink}_batch_throttle_qps", "must be more than 0, or nothing would be sent")
    if given.truncate_max_batch_size < given.truncate_max_event_size:
        field = f"audit_{sink}_truncate_max_batch_size"
        yield Problem(field, f"must be at least `audit_{sink}_truncate_max_event_size`")
