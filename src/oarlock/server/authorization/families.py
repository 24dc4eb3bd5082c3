"""The metrics of authorization for the page of metrics. Must not know: how anything is counted.

Source: k8s.io/apiserver ``endpoints/filters/metrics``, ``authorization/metrics``.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

from oarlock.policy.authz.counts import DURATION_BOUNDS_S
from oarlock.server.metrics.series import SeriesNumbers

__all__ = ["access_families"]

_WEBHOOK, _CONDITION = "apiserver_authorization_webhook", "apiserver_authorization_match_condition"
_COUNTERS = {
    "authorization_attempts_total": (["result"], "Requests by the result of authorization."),
    "apiserver_authorization_decisions_total": (["type", "name", "decision"], "Decisions of an authorizer."),
    f"{_WEBHOOK}_evaluations_total": (["name", "result"], "Questions to another service."),
    f"{_WEBHOOK}_evaluations_fail_open_total": (
        ["name", "result"],
        "Questions without an answer that were left to the next authorizer.",
    ),
    f"{_CONDITION}_evaluation_errors_total": (["type", "name"], "Match conditions that couldn't be evaluated."),
    f"{_CONDITION}_exclusions_total": (["type", "name"], "Requests that match conditions kept from an authorizer."),
}
_DURATION = f"{_WEBHOOK}_duration_seconds"
_BOUNDS = [*(f"{bound:g}" for bound in DURATION_BOUNDS_S), "+Inf"]


def access_families(numbers: SeriesNumbers) -> Iterator[Metric]:
    """All families of metrics."""
    for name, (labels, about) in _COUNTERS.items():
        counter = CounterMetricFamily(name, about, labels=labels)
        for series, count in numbers.counters.items():
            if series[0] == name:
                counter.add_metric(list(series[1:]), count)
        yield counter
    histogram = HistogramMetricFamily(
        _DURATION, "How long another service took, in seconds.", labels=["name", "result"]
    )
    for (_, *values), (buckets, amount) in numbers.histograms.items():
        below = [sum(buckets[: at + 1]) for at in range(len(buckets))]
        histogram.add_metric(values, list(zip(_BOUNDS, below, strict=True)), amount)
    yield histogram
