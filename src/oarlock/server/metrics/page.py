"""``/metrics`` and ``/metrics/slis``: numbers are copied on the event loop and printed in a thread.

`exposition`, and prometheus_client, are imported by the first request, in that thread: it would be a tenth of the
server's start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from oarlock.controllers.metrics import ControllerNumbers
from oarlock.endpoints.http import Response
from oarlock.endpoints.unsent import Unsent
from oarlock.meta.dataclass import dataclass
from oarlock.policy.admission.counts import AdmissionCounts
from oarlock.policy.authz.counts import AccessCounts
from oarlock.server.admission.numbers import admission_numbers
from oarlock.server.audit.counts import AuditCounts
from oarlock.server.authentication.counts import AuthenticationCounts
from oarlock.server.authorization.numbers import access_numbers
from oarlock.server.fairness.numbers import fairness_numbers
from oarlock.server.filters.fairness import FairnessFilter
from oarlock.server.filters.max_in_flight import MaxInFlight
from oarlock.server.metrics.counts import (
    ByGroupVersion,
    ByResource,
    Numbers,
    RequestMetrics,
    StoreMetrics,
    Verdicts,
    WorkerProcess,
)
from oarlock.server.metrics.reload_counts import ReloadCounts
from oarlock.server.pages.health import Health

__all__ = ["MetricsPage", "Sources", "WorkersMetrics", "write_page"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of the numbers.

    `objects` counts stored objects by (group, resource), `watch_events` the sent events by (group, version, resource).
    `encryption` counts how often its file was read again; None if it isn't. `controllers` are those of this process.
    """

    requests: RequestMetrics
    store: StoreMetrics
    in_flight: MaxInFlight | FairnessFilter
    unsent: Unsent
    objects: Callable[[], ByResource]
    watch_events: Callable[[], ByGroupVersion]
    encryption: ReloadCounts | None = None
    audit: AuditCounts | None = None
    access: AccessCounts | None = None
    controllers: Callable[[], Sequence[ControllerNumbers]] = tuple
    authentication: Callable[[], AuthenticationCounts] = AuthenticationCounts
    admission: AdmissionCounts | None = None


class WorkersMetrics(Protocol):
    """The numbers of all processes of a server that has several."""

    def attach(self, numbers: Callable[[], Numbers], verdicts: Callable[[], Verdicts]) -> None:
        """Told where the numbers of this process come from. Called once, in its event loop."""
        ...

    async def numbers(self) -> bytes:
        """The text of ``/metrics``."""
        ...

    async def verdicts(self) -> bytes:
        """The text of ``/metrics/slis``."""
        ...


class MetricsPage:
    """Answers `paths`. With `workers`, for all processes."""

    paths = ("/metrics", "/metrics/slis")

    def __init__(self, sources: Sources, health: Health, workers: WorkersMetrics | None = None) -> None:
        self._sources = sources
        self._health = health
        self._workers = workers
        if workers is not None:
            workers.attach(self._numbers, self._verdicts)

    async def respond(self, path: str) -> Response | None:
        """The answer, or None for a path that isn't in `paths`."""
        if path not in self.paths:
            return None
        body = await (self._page(path) if self._workers is None else self._page_of_all(path, self._workers))
        return Response(200, [("content-type", CONTENT_TYPE)], body)

    async def _page(self, path: str) -> bytes:
        page = self._numbers() if path == "/metrics" else self._verdicts()
        return await asyncio.get_running_loop().run_in_executor(None, write_page, page)

    async def _page_of_all(self, path: str, workers: WorkersMetrics) -> bytes:
        return await (workers.numbers() if path == "/metrics" else workers.verdicts())

    def _numbers(self) -> Numbers:
        sources = self._sources
        durations, failed = sources.store.snapshot()
        in_flight = {"readOnly": sources.in_flight.read_only, "mutating": sources.in_flight.mutating}
        return Numbers(
            sources.requests.snapshot(),
            durations,
            failed,
            in_flight,
            sources.unsent.size,
            dict(sources.unsent.cut),
            dict(sources.objects()),
            dict(sources.watch_events()),
            None if sources.encryption is None else replace(sources.encryption),
            None if sources.audit is None else sources.audit.copy(),
            tuple(sources.controllers()),
            fairness_numbers(sources.in_flight.fairness) if isinstance(sources.in_flight, FairnessFilter) else None,
            sources.authentication(),
            None if sources.access is None else access_numbers(sources.access),
            None if sources.admission is None else admission_numbers(sources.admission),
        )

    def _verdicts(self) -> Verdicts:
        results = self._health.results.items()
        return {
            labels: (result.last, result.succeeded, result.failed)
            for labels, result in results
            if result.last is not None
        }


def write_page(page: Numbers | Verdicts, workers: Sequence[WorkerProcess] = ()) -> bytes:
    """The text of a page, for a server of one process or of `workers`. To be called in a thread."""
    from oarlock.server.metrics import exposition  # noqa: PLC0415 (imported by the first request)

    return exposition.write(page, workers)
