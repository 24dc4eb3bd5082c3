"""`WorkerProcess`: a process of a server that has several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from oarlock.meta.dataclass import dataclass
from oarlock.meta.metrics import MetricFamily


@dataclass(frozen=True, slots=True)
class WorkerProcess:
    """A process of a server that has several, as ``/metrics`` shows it.

    `collections` are Python's ``gc.get_stats()`` by generation, empty for a process that serves nothing.
    """

    name: str
    pid: int
    restarts: int = 0
    collections: tuple[dict[str, int], ...] = ()


def process_families(workers: Sequence[WorkerProcess]) -> Iterator[MetricFamily]:
    """Metrics of processes beside those that the system tells."""
    for name, key, about in (
        ("python_gc_objects_collected", "collected", "Objects collected during gc"),
        ("python_gc_objects_uncollectable", "uncollectable", "Uncollectable objects found during GC"),
        ("python_gc_collections", "collections", "Number of times this generation was collected"),
    ):
        counts = {
            (str(generation), worker.name): numbers[key]
            for worker in workers
            for generation, numbers in enumerate(worker.collections)
        }
        yield MetricFamily(f"{name}_total", about, counts, ("generation", "worker"), "counter")
    restarts = {(worker.name,): worker.restarts for worker in workers if worker.collections}
    name, about = "oarlock_worker_restarts_total", "How often the process of a worker was replaced."
    yield MetricFamily(name, about, restarts, ("worker",), "counter")
