"""``/metrics`` and ``/metrics/slis``: numbers are copied on the event loop and printed in a thread.

`exposition`, and prometheus_client, are imported by the first request, in that thread: it would be a tenth of the
server's start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from oarlock.endpoints.http import Response
from oarlock.meta.metrics import Collector, MetricFamily
from oarlock.server.metrics.families import Verdicts, verdict_families
from oarlock.server.metrics.processes import WorkerProcess
from oarlock.server.pages.health import Health

__all__ = ["MetricsPage", "WorkersMetrics", "write_metrics", "write_verdicts"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class WorkersMetrics(Protocol):
    """The numbers of all processes of a server that has several."""

    def attach(self, families: Callable[[], tuple[MetricFamily, ...]], verdicts: Callable[[], Verdicts]) -> None:
        """Told where the numbers of this process come from. Called once, in its event loop."""
        ...

    async def numbers(self) -> bytes:
        """The text of ``/metrics``."""
        ...

    async def verdicts(self) -> bytes:
        """The text of ``/metrics/slis``."""
        ...


class MetricsPage:
    """Answers `paths` with what `collectors` tell, in their order. With `workers`, for all processes."""

    paths = ("/metrics", "/metrics/slis")

    def __init__(self, collectors: Sequence[Collector], health: Health, workers: WorkersMetrics | None = None) -> None:
        self._collectors = collectors
        self._health = health
        self._workers = workers
        if workers is not None:
            workers.attach(self._families, self._verdicts)

    async def respond(self, path: str) -> Response | None:
        """The answer, or None for a path that isn't in `paths`."""
        if path not in self.paths:
            return None
        body = await (self._page(path) if self._workers is None else self._page_of_all(path, self._workers))
        return Response(200, [("content-type", CONTENT_TYPE)], body)

    async def _page(self, path: str) -> bytes:
        loop = asyncio.get_running_loop()
        if path == "/metrics":
            return await loop.run_in_executor(None, write_metrics, self._families())
        return await loop.run_in_executor(None, write_verdicts, self._verdicts())

    async def _page_of_all(self, path: str, workers: WorkersMetrics) -> bytes:
        return await (workers.numbers() if path == "/metrics" else workers.verdicts())

    def _families(self) -> tuple[MetricFamily, ...]:
        return tuple(family for collect in self._collectors for family in collect())

    def _verdicts(self) -> Verdicts:
        results = self._health.results.items()
        return {
            check: (result.last, result.succeeded, result.failed)
            for check, result in results
            if result.last is not None
        }


def write_metrics(families: Sequence[MetricFamily], workers: Sequence[WorkerProcess] = ()) -> bytes:
    """The text of ``/metrics``, for a server of one process or of `workers`. To be called in a thread."""
    from oarlock.server.metrics import exposition  # noqa: PLC0415 (imported by the first request)

    return exposition.metrics_page(families, workers)


def write_verdicts(verdicts: Verdicts) -> bytes:
    """The text of ``/metrics/slis``. To be called in a thread."""
    from oarlock.server.metrics import exposition  # noqa: PLC0415 (imported by the first request)

    return exposition.metrics_text(verdict_families(verdicts))
