"""``apiserver_flowcontrol_*`` for the page of metrics. Must not know: how anything is counted."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from oarlock.server.fairness.numbers import BOUNDS
from oarlock.server.metrics.series import SeriesNumbers

__all__ = ["fairness_families"]

_PREFIX = "apiserver_flowcontrol_"
_LEVEL = ["priority_level"]
_FLOW = ["priority_level", "flow_schema"]

_COUNTERS = {
    "dispatched_requests_total": (_FLOW, "Requests that were carried out."),
    "rejected_requests_total": ([*_FLOW, "reason"], "Requests that were refused."),
}
_GAUGES = {
    "current_inqueue_requests": (_FLOW, "Requests that wait in queues."),
    "current_inqueue_seats": (_FLOW, "Seats that waiting requests will take."),
    "current_executing_requests": (_FLOW, "Requests that are carried out."),
    "current_executing_seats": (_FLOW, "Seats of the requests that are carried out."),
    "nominal_limit_seats": (_LEVEL, "Seats by the level's shares."),
    "lower_limit_seats": (_LEVEL, "Seats that the level keeps when it lends all it may."),
    "upper_limit_seats": (_LEVEL, "Seats that the level has when it borrows all it may."),
    "current_limit_seats": (_LEVEL, "Seats that the level has at present."),
    "demand_seats_high_watermark": (_LEVEL, "The most seats that could have been used in the last ten seconds."),
    "demand_seats_average": (_LEVEL, "The average of that."),
    "demand_seats_stdev": (_LEVEL, "The standard deviation of that."),
    "demand_seats_smoothed": (_LEVEL, "The demand, smoothed over minutes."),
    "target_seats": (_LEVEL, "Seats that the level should have."),
}
_HISTOGRAMS = {
    "request_wait_duration_seconds": ([*_FLOW, "execute"], "How long requests waited in queues, in seconds."),
    "request_execution_seconds": ([*_FLOW, "type"], "How long requests had their seats, in seconds."),
    "work_estimated_seats": (_FLOW, "Seats that requests were estimated to take."),
    "request_queue_length_after_enqueue": (_FLOW, "The length of a queue when a request had joined it."),
}


def fairness_families(numbers: SeriesNumbers) -> Iterator[Metric]:
    """All families of metrics."""
    for name, (labels, about) in _COUNTERS.items():
        counter = CounterMetricFamily(_PREFIX + name, about, labels=labels)
        for series, count in numbers.counters.items():
            if series[0] == name:
                counter.add_metric(list(series[1:]), count)
        yield counter
    for name, (labels, about) in _GAUGES.items():
        gauge = GaugeMetricFamily(_PREFIX + name, about, labels=labels)
        for series, value in numbers.gauges.items():
            if series[0] == name:
                gauge.add_metric(list(series[1:]), value)
        yield gauge
    for name, (labels, about) in _HISTOGRAMS.items():
        histogram = HistogramMetricFamily(_PREFIX + name, about, labels=labels)
        bounds = [*(f"{bound:g}" for bound in BOUNDS[name]), "+Inf"]
        for series, (buckets, amount) in numbers.histograms.items():
            if series[0] == name:
                histogram.add_metric(list(series[1:]), _cumulative(bounds, buckets), amount)
        yield histogram


def _cumulative(bounds: list[str], buckets: list[int]) -> list[tuple[str, float]]:
    below = 0
    summed: list[tuple[str, float]] = []
    for bound, count in zip(bounds, buckets, strict=True):
        below += count
        summed.append((bound, below))
    return summed
