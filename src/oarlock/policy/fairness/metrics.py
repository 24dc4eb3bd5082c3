"""The metrics of priority and fairness, ``apiserver_flowcontrol_*``. Must not know: how they are printed.

Labels come from stored objects, so there are as many series as schemas. Source: k8s.io/apiserver
``util/flowcontrol/metrics``. See also: `counts`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from oarlock.meta.metrics import Buckets, MetricFamily, histogram_of
from oarlock.policy.fairness.counts import LENGTH_BOUNDS, SEAT_BOUNDS, WAIT_BOUNDS_S
from oarlock.policy.fairness.engine import Fairness
from oarlock.policy.fairness.level import PriorityLevel

_PREFIX = "apiserver_flowcontrol_"
_LEVEL = ("priority_level",)
_FLOW = ("priority_level", "flow_schema")

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
    "request_wait_duration_seconds": (
        (*_FLOW, "execute"),
        WAIT_BOUNDS_S,
        "How long requests waited in queues, in seconds.",
    ),
    "request_execution_seconds": ((*_FLOW, "type"), WAIT_BOUNDS_S, "How long requests had their seats, in seconds."),
    "work_estimated_seats": (_FLOW, SEAT_BOUNDS, "Seats that requests were estimated to take."),
    "request_queue_length_after_enqueue": (
        _FLOW,
        LENGTH_BOUNDS,
        "The length of a queue when a request had joined it.",
    ),
}

_ByMetric = dict[str, dict[tuple[str, ...], float]]
"""Numbers by the name of a metric and the values of its labels."""


def fairness_families(fairness: Fairness) -> Iterator[MetricFamily]:
    """The metrics now."""
    numbers: _ByMetric = defaultdict(dict)
    histograms: dict[str, dict[tuple[str, ...], Buckets]] = defaultdict(dict)
    for name, level in fairness.levels.items():
        _seats(numbers, name, level)
        _requests(numbers, name, level)
        for schema, counts in level.counts.items():
            numbers["dispatched"][name, schema] = counts.dispatched + counts.at_once
            for reason, count in counts.refused.items():
                numbers["rejected"][name, schema, reason] = count
            for (metric, *further), buckets in counts.histograms().items():
                histograms[metric][(name, schema, *further)] = buckets
    about = "Requests that were carried out."
    yield MetricFamily(f"{_PREFIX}dispatched_requests_total", about, numbers["dispatched"], _FLOW, "counter")
    about, labels = "Requests that were refused.", (*_FLOW, "reason")
    yield MetricFamily(f"{_PREFIX}rejected_requests_total", about, numbers["rejected"], labels, "counter")
    for metric, (by, about) in _GAUGES.items():
        yield MetricFamily(_PREFIX + metric, about, numbers[metric], by)
    for metric, (by, bounds, about) in _HISTOGRAMS.items():
        yield histogram_of(_PREFIX + metric, about, by, histograms[metric], bounds)


def _seats(numbers: _ByMetric, name: str, level: PriorityLevel) -> None:
    limits, demand = level.limits, level.demand.figures
    for metric, seats in (
        ("nominal_limit_seats", limits.nominal),
        ("lower_limit_seats", limits.minimum),
        ("upper_limit_seats", limits.maximum),
        ("current_limit_seats", level.limit),
        ("demand_seats_high_watermark", demand.most),
        ("demand_seats_average", demand.average),
        ("demand_seats_stdev", demand.deviation),
        ("demand_seats_smoothed", demand.smoothed),
        ("target_seats", level.target),
    ):
        numbers[metric][(name,)] = seats


def _requests(numbers: _ByMetric, name: str, level: PriorityLevel) -> None:
    for schema in level.counts:
        for state in ("executing", "inqueue"):
            numbers[f"current_{state}_requests"][name, schema] = 0
            numbers[f"current_{state}_seats"][name, schema] = 0
    for ticket in level.tickets:
        state, schema = "executing" if ticket.has_begun else "inqueue", ticket.flow.schema.name
        for what, amount in (("requests", 1), ("seats", ticket.work.most)):
            series = numbers[f"current_{state}_{what}"]
            series[name, schema] = series.get((name, schema), 0) + amount
