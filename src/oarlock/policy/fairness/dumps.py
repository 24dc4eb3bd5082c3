"""The state of all levels, queues and requests as tables, for an administrator who looks for who waits and why.

A table has a header and its cells are padded, as kubectl's documentation shows them. Source: "API Priority and
Fairness", Debug endpoints; k8s.io/apiserver ``util/flowcontrol/apf_controller_debug``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from oarlock.meta.times import rfc3339_micro
from oarlock.policy.fairness.engine import Fairness
from oarlock.policy.fairness.level import PriorityLevel, Ticket

_LEVEL_COLUMNS = (
    *("PriorityLevelName", "ActiveQueues", "IsIdle", "IsQuiescing", "WaitingRequests", "ExecutingRequests"),
    *("DispatchedRequests", "RejectedRequests", "TimedoutRequests", "CancelledRequests"),
)
_QUEUE_COLUMNS = (
    *("PriorityLevelName", "Index", "PendingRequests", "ExecutingRequests", "SeatsInUse", "NextDispatchR"),
    *("InitialSeatsSum", "MaxSeatsSum", "TotalWorkSum"),
)
_REQUEST_COLUMNS = (
    *("PriorityLevelName", "FlowSchemaName", "QueueIndex", "RequestIndexInQueue", "FlowDistingsher", "ArriveTime"),
    *("InitialSeats", "FinalSeats", "AdditionalLatency", "StartTime"),
)
_DETAIL_COLUMNS = ("UserName", "Verb", "APIPath", "Namespace", "Name", "APIVersion", "Resource", "SubResource")

DumpRow = Sequence[object]


def dump_levels(fairness: Fairness) -> str:
    """A row for each level."""
    return _table(_LEVEL_COLUMNS, (_level_row(fairness.levels[name]) for name in sorted(fairness.levels)))


def dump_queues(fairness: Fairness) -> str:
    """A row for each queue that has requests; all others are empty."""
    return _table(_QUEUE_COLUMNS, (row for level in fairness.levels.values() for row in _queue_rows(level)))


def dump_requests(fairness: Fairness, epoch_s: float, *, details: bool = False) -> str:
    """A row for each request that waits, then for each that is carried out; with `details`, what each is about.

    `epoch_s` is what the monotonic clock showed at the epoch: negative, in seconds.
    """

    def shown(monotonic_s: float) -> str:
        return rfc3339_micro(monotonic_s - epoch_s)

    columns = (*_REQUEST_COLUMNS, *_DETAIL_COLUMNS) if details else _REQUEST_COLUMNS
    rows = (row for level in fairness.levels.values() for row in _request_rows(level, shown))
    return _table(columns, (row[: len(columns)] for row in rows))


def _level_row(level: PriorityLevel) -> DumpRow:
    counts = level.counts.values()
    refused: dict[str, int] = {}
    for count in counts:
        for reason, number in count.refused.items():
            refused[reason] = refused.get(reason, 0) + number
    active = sum(bool(line.waiting) for line in level.lines.values())
    states = (_word(level.is_idle), _word(level.is_leaving), level.waiting, level.executing)
    ends = (sum(refused.values()), refused.get("time-out", 0), refused.get("cancelled", 0))
    return (level.settings.name, active, *states, sum(count.dispatched + count.at_once for count in counts), *ends)


def _queue_rows(level: PriorityLevel) -> Iterator[DumpRow]:
    for index, line in sorted(level.lines.items()):
        if line.waiting or line.executing or line.seats:
            works = [ticket.work for ticket in line.waiting]
            sums = (sum(work.seats for work in works), sum(work.most for work in works), f"{line.waiting_work:.8f}ss")
            yield (
                *(level.settings.name, index, len(line.waiting), line.executing, line.seats, f"{line.start_r:.8f}ss"),
                *sums,
            )


def _request_rows(level: PriorityLevel, shown: Callable[[float], str]) -> Iterator[DumpRow]:
    for index, line in sorted(level.lines.items()):
        for place, ticket in enumerate(line.waiting):
            yield _request_row(ticket, index, place, shown)
    for ticket in sorted((ticket for ticket in level.tickets if ticket.has_begun), key=lambda ticket: ticket.began):
        yield _request_row(ticket, ticket.line.index if ticket.line is not None else -1, -1, shown)


def _request_row(ticket: Ticket, index: int, place: int, shown: Callable[[float], str]) -> DumpRow:
    flow, work = ticket.flow, ticket.work
    began = shown(ticket.began) if ticket.has_begun else "0001-01-01T00:00:00Z"
    head = (flow.level.settings.name, flow.schema.name, index, place, flow.distinguisher, shown(ticket.arrived))
    return (*head, work.seats, work.final_seats, f"{work.final_s:g}s", began, *_details(ticket))


def _details(ticket: Ticket) -> DumpRow:
    if ticket.about is None:
        return ("",) * len(_DETAIL_COLUMNS)
    user, target = ticket.about.user, ticket.about.target
    version = f"{target.group}/{target.version}" if target.group else target.version
    of_object = (target.namespace, target.name, version, target.resource, target.subresource)
    return (user.name, target.verb, ticket.about.request.path, *of_object)


def _word(truth: bool) -> str:
    return "true" if truth else "false"


def _table(columns: Sequence[str], rows: Iterator[DumpRow]) -> str:
    """Cells are padded to the widest of their column, and end with a comma but for the last."""
    lines = [columns, *(tuple(map(_cell, row)) for row in rows)]
    widths = [max(8, *(len(line[at]) + 2 for line in lines)) for at in range(len(columns) - 1)]
    texts = []
    for line in lines:
        padded = (f"{cell},".ljust(width) for cell, width in zip(line, widths, strict=False))
        texts.append("".join(padded) + line[-1] + "\n")
    return "".join(texts)


def _cell(value: object) -> str:
    """A cell on one line: a name may have been chosen by a client."""
    return "".join(character if character.isprintable() else "?" for character in str(value))
