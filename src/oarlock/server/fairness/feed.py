"""`FairnessFeed`: keeps a `Fairness` configured by the FlowSchemas and PriorityLevelConfigurations in the watch cache.

All of them are read again when some have changed, once in a turn of the event loop: they are few, and a schema means
nothing without its level. Must not know: what they mean. See also: ``policy.fairness``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from oarlock.endpoints.http import Response
from oarlock.meta.context import Clock
from oarlock.meta.options_parse import parse_query
from oarlock.meta.times import rfc3339_micro
from oarlock.policy.fairness.engine import Fairness
from oarlock.policy.fairness.level import PriorityLevel, Ticket
from oarlock.registry.stored.resource import StoredResource
from oarlock.storage.backend import Unavailable
from oarlock.storage.cache.entry import CacheEvent, Subscription, TooOld

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


log = logging.getLogger("oarlock.fairness")
GROUP = "flowcontrol.apiserver.k8s.io"
KINDS = ("prioritylevelconfigurations", "flowschemas")
_VERSION = "v1"


class FairnessFeed:
    """Reads `KINDS` into `fairness`, and follows them. While nothing is stored, the built-in objects count."""

    def __init__(self, fairness: Fairness) -> None:
        self._fairness = fairness
        self._resources: tuple[StoredResource, ...] = ()
        self._subscriptions: list[Subscription] = []
        self._reading: asyncio.Handle | None = None
        self._is_behind = False

    def attach(self, resources: Mapping[tuple[str, str], Any]) -> None:
        """Follow these, unless they are followed already."""
        all_of = [resources.get((GROUP, plural)) for plural in KINDS]
        found = tuple(resource for resource in all_of if isinstance(resource, StoredResource))
        if found != self._resources:
            self._resources = found if len(found) == len(KINDS) else ()
            self._begin()

    def renew(self) -> None:
        """Begin again if the cache has lost its place. Called every few seconds."""
        if self._is_behind:
            self._begin()

    def _begin(self) -> None:
        for subscription in self._subscriptions:
            subscription.close()
        self._subscriptions.clear()
        try:
            for resource in self._resources:
                self._subscriptions.append(resource.cache.subscribe(resource.cache.rev, self._changed, self._closed))
        except (Unavailable, TooOld):
            self._is_behind = True
            return
        self._is_behind = False
        self._read()

    def _closed(self, error: Exception | None) -> None:
        self._is_behind = error is not None

    def _changed(self, events: Sequence[CacheEvent]) -> None:
        if self._reading is None:
            self._reading = asyncio.get_running_loop().call_soon(self._read)

    def _read(self) -> None:
        self._reading = None
        if self._resources:
            levels, schemas = map(_trees, self._resources)
            if levels or schemas:
                self._fairness.configure(levels, schemas)


def _trees(resource: StoredResource) -> list[Mapping[str, Any]]:
    """The objects of a resource; one that can't be read counts as absent."""
    trees: list[Mapping[str, Any]] = []
    for chunk in resource.cache.snapshot().range(*resource.range("")):
        for entry in chunk:
            try:
                tree = None if entry.broken else resource.tree_now(entry, _VERSION)
            except Exception as error:
                tree = None
                log.error("%s is unreadable and is ignored: %r", entry.key, error)
            if tree is not None:
                trees.append(tree)
    return trees


_ROOT = "/debug/api_priority_and_fairness"
_DETAILS = "includeRequestDetails"


class FairnessPages:
    """Answers `paths`; authorization has let the user read them."""

    paths = (f"{_ROOT}/dump_priority_levels", f"{_ROOT}/dump_queues", f"{_ROOT}/dump_requests")

    def __init__(self, fairness: Fairness, clock: Clock) -> None:
        self._fairness = fairness
        self._clock = clock

    def respond(self, path: str, query: str = "") -> Response | None:
        """The answer, or None for a path that isn't in `paths`."""
        if path not in self.paths:
            return None
        if path.endswith("levels"):
            text = dump_levels(self._fairness)
        elif path.endswith("queues"):
            text = dump_queues(self._fairness)
        else:
            details = any(key == _DETAILS and value for key, value in parse_query(query))
            text = dump_requests(self._fairness, self._clock.monotonic() - self._clock.now(), details=details)
        headers = [("content-type", "text/plain; charset=utf-8"), ("x-content-type-options", "nosniff")]
        return Response(200, headers, text.encode("utf-8", "replace"))
