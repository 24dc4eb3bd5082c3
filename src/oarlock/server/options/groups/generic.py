"""Options of every server: processes, limits of requests, shutdown."""

from __future__ import annotations

from oarlock.meta.dataclass import dataclass
from oarlock.server.options.option import OptionGroup, option
from oarlock.server.options.types import BooleanType, DurationType, IntegerType, SizeType

__all__ = ["GenericOptions"]

_MIB = 1024 * 1024
MAX_WORKERS = 64


@dataclass(frozen=True, kw_only=True, repr=False)
class GenericOptions(OptionGroup):
    title = "Generic"

    workers: int = option(
        1,
        IntegerType(minimum=1, maximum=MAX_WORKERS),
        "Serve with this many processes on one port and one store; limits are for each of them.",
    )
    request_timeout_s: float = option(
        60.0, DurationType(positive=True), "How long a request may take, watches left out; ?timeout= may ask for less."
    )
    max_read_only_in_flight: int = option(
        400,
        IntegerType(minimum=1),
        "How many reading requests are carried out at a time, watches left out; beyond it: 429. With priority and"
        " fairness, the two limits together are the seats of all priority levels.",
        flag="max-requests-inflight",
    )
    max_mutating_in_flight: int = option(
        200,
        IntegerType(minimum=1),
        "How many writing requests are carried out at a time; beyond it: 429.",
        flag="max-mutating-requests-inflight",
    )
    enable_priority_and_fairness: bool | None = option(
        None,
        BooleanType(),
        "Let requests wait in queues by priority level and flow instead of refusing them; unless given,"
        " where FlowSchemas are served.",
    )
    max_request_bytes: int = option(3 * _MIB, SizeType(), "Refuse larger bodies with 413.")
    max_unsent_bytes: int = option(
        256 * _MIB,
        SizeType(),
        "Keep this much for clients that don't read, all together; beyond it: 429, and the slowest are cut.",
    )
    shutdown_delay_s: float = option(
        0.0,
        DurationType(),
        "Go on serving for this long after /readyz has begun to fail.",
        flag="shutdown-delay-duration",
    )
