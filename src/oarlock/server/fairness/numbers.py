"""The numbers of priority and fairness, as ``/metrics`` shows them: ``apiserver_flowcontrol_*``.

A series is the name of a metric without that prefix, then the values of its labels. They come from stored objects, so
there are as many as schemas. See also: `families`, which prints them. Source: k8s.io/apiserver
``util/flowcontrol/metrics``.
"""

from __future__ import annotations

from oarlock.meta.samples import Samples
from oarlock.policy.fairness.counts import LENGTH_BOUNDS, SEAT_BOUNDS, WAIT_BOUNDS_S, FlowCounts
from oarlock.policy.fairness.engine import Fairness
from oarlock.policy.fairness.level import PriorityLevel
from oarlock.server.metrics.series import Series, SeriesNumbers

__all__ = ["BOUNDS", "fairness_numbers"]

BOUNDS = {
    "request_wait_duration_seconds": WAIT_BOUNDS_S,
    "request_execution_seconds": WAIT_BOUNDS_S,
    "work_estimated_seats": SEAT_BOUNDS,
    "request_queue_length_after_enqueue": LENGTH_BOUNDS,
}
"""The upper bounds of the buckets of each histogram."""


def fairness_numbers(fairness: Fairness) -> SeriesNumbers:
    """The numbers now."""
    numbers = SeriesNumbers()
    for name, level in fairness.levels.items():
        _seats(numbers, name, level)
        _requests(numbers, name, level)
        for schema, counts in level.counts.items():
            _counted(numbers, (name, schema), counts.copy())
    return numbers


def _seats(numbers: SeriesNumbers, name: str, level: PriorityLevel) -> None:
    limits, demand = level.limits, level.demand.figures
    numbers.gauges.update(
        {
            ("nominal_limit_seats", name): limits.nominal,
            ("lower_limit_seats", name): limits.minimum,
            ("upper_limit_seats", name): limits.maximum,
            ("current_limit_seats", name): level.limit,
            ("demand_seats_high_watermark", name): demand.most,
            ("demand_seats_average", name): demand.average,
            ("demand_seats_stdev", name): demand.deviation,
            ("demand_seats_smoothed", name): demand.smoothed,
            ("target_seats", name): level.target,
        }
    )


def _requests(numbers: SeriesNumbers, name: str, level: PriorityLevel) -> None:
    for schema in level.counts:
        for state in ("executing", "inqueue"):
            numbers.gauges[(f"current_{state}_requests", name, schema)] = 0
            numbers.gauges[(f"current_{state}_seats", name, schema)] = 0
    for ticket in level.tickets:
        state = "executing" if ticket.has_begun else "inqueue"
        schema = ticket.flow.schema.name
        for what, amount in (("requests", 1), ("seats", ticket.work.most)):
            series = (f"current_{state}_{what}", name, schema)
            numbers.gauges[series] = numbers.gauges.get(series, 0) + amount


def _counted(numbers: SeriesNumbers, labels: tuple[str, str], counts: FlowCounts) -> None:
    numbers.counters[("dispatched_requests_total", *labels)] = counts.dispatched
    for reason, count in counts.refused.items():
        numbers.counters[("rejected_requests_total", *labels, reason)] = count
    histograms: dict[Series, Samples] = {
        ("request_wait_duration_seconds", *labels, "true"): counts.waited,
        ("request_wait_duration_seconds", *labels, "false"): counts.given_up,
        ("request_execution_seconds", *labels, "regular"): counts.executed,
        ("request_execution_seconds", *labels, "watch"): counts.watched,
        ("work_estimated_seats", *labels): counts.seats,
        ("request_queue_length_after_enqueue", *labels): counts.lengths,
    }
    for series, samples in histograms.items():
        if any(samples.buckets):
            numbers.histograms[series] = samples.buckets, samples.sum
