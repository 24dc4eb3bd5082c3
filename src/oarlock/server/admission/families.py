"""The metrics of admission for the page of metrics. Must not know: how anything is counted.

Source: k8s.io/apiserver ``admission/metrics``.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric, UnknownMetricFamily

from oarlock.policy.admission.counts import PLUGIN_BOUNDS_S, WEBHOOK_BOUNDS_S
from oarlock.policy.admission.policy_counts import POLICY_BOUNDS_S
from oarlock.server.admission.numbers import CONTROLLER, MUTATING, STEP, VALIDATING, WEBHOOK
from oarlock.server.metrics.series import SeriesNumbers

__all__ = ["admission_families"]

_CALL = ["name", "type", "operation"]
_MUTATION = ["policy", "policy_binding", "error_type"]
_VALIDATION = [*_MUTATION, "enforcement_action"]
_HISTOGRAMS = {
    STEP: (["type", "operation", "rejected"], PLUGIN_BOUNDS_S, "How long a step of admission took, in seconds."),
    CONTROLLER: ([*_CALL, "rejected"], PLUGIN_BOUNDS_S, "How long an admission plugin took, in seconds."),
    f"{WEBHOOK}_admission_duration_seconds": (
        [*_CALL, "rejected"],
        WEBHOOK_BOUNDS_S,
        "How long an admission webhook took, in seconds.",
    ),
    f"{VALIDATING}_check_duration_seconds": (
        _VALIDATION,
        POLICY_BOUNDS_S,
        "How long a validation took that wasn't fulfilled, in seconds.",
    ),
    f"{MUTATING}_check_duration_seconds": (_MUTATION, POLICY_BOUNDS_S, "How long a mutation took, in seconds."),
}
_COUNTERS = {
    f"{WEBHOOK}_request_total": ([*_CALL, "code", "rejected"], "Calls of admission webhooks."),
    f"{WEBHOOK}_rejection_count": ([*_CALL, "error_type", "rejection_code"], "Requests that a webhook kept out."),
    f"{VALIDATING}_check_total": (_VALIDATION, "Validations of policies that weren't fulfilled, by what was done."),
    f"{MUTATING}_check_total": (_MUTATION, "Mutations of policies."),
    f"{WEBHOOK}_fail_open_count": (["name", "type"], "Calls that failed and were left out."),
}


def admission_families(numbers: SeriesNumbers) -> Iterator[Metric]:
    """All families of metrics."""
    for name, (labels, bounds_s, about) in _HISTOGRAMS.items():
        histogram = HistogramMetricFamily(name, about, labels=labels)
        bounds = [*(f"{bound:g}" for bound in bounds_s), "+Inf"]
        for (found, *values), (buckets, amount) in numbers.histograms.items():
            if found == name:
                below = [sum(buckets[: at + 1]) for at in range(len(buckets))]
                histogram.add_metric(values, list(zip(bounds, below, strict=True)), amount)
        yield histogram
    for name, (labels, about) in _COUNTERS.items():
        counter = _counter(name, about, labels)
        for (found, *values), count in numbers.counters.items():
            if found == name:
                counter.add_metric(values, count)
        yield counter


def _counter(name: str, about: str, labels: list[str]) -> CounterMetricFamily | UnknownMetricFamily:
    """A counter with this very name: the client library adds ``_total`` to what it knows as a counter."""
    if name.endswith("_total"):
        return CounterMetricFamily(name, about, labels=labels)
    return UnknownMetricFamily(name, about, labels=labels)
