"""The numbers of admission, as ``/metrics`` shows them. See also: `families`, which prints them."""

from __future__ import annotations

from oarlock.policy.admission.counts import AdmissionCounts
from oarlock.server.metrics.series import SeriesNumbers

__all__ = ["CONTROLLER", "MUTATING", "STEP", "VALIDATING", "WEBHOOK", "admission_numbers"]

WEBHOOK = "apiserver_admission_webhook"
VALIDATING = "apiserver_validating_admission_policy"
MUTATING = "apiserver_mutating_admission_policy"
STEP = "apiserver_admission_step_admission_duration_seconds"
CONTROLLER = "apiserver_admission_controller_admission_duration_seconds"


def admission_numbers(counts: AdmissionCounts) -> SeriesNumbers:
    """A copy of the numbers."""
    numbers = SeriesNumbers()
    for labels, times in counts.plugins.items():
        series = (CONTROLLER, *labels) if labels.name else (STEP, *labels[1:])
        numbers.histograms[series] = times.buckets.copy(), times.sum
    for labels, times in counts.webhooks.items():
        numbers.histograms[(f"{WEBHOOK}_admission_duration_seconds", *labels)] = times.buckets.copy(), times.sum
    for check, times in counts.policies.checks.items():
        name, labelled = (VALIDATING, check) if check.action else (MUTATING, check[:-1])
        numbers.histograms[(f"{name}_check_duration_seconds", *labelled)] = times.buckets.copy(), times.sum
        numbers.counters[(f"{name}_check_total", *labelled)] = sum(times.buckets)
    for (call, code, rejected), count in counts.requests.items():
        numbers.counters[(f"{WEBHOOK}_request_total", *call, code, rejected)] = count
    for (call, error, code), count in counts.rejections.items():
        numbers.counters[(f"{WEBHOOK}_rejection_count", *call, error, code)] = count
    for (name, step), count in counts.open_failures.items():
        numbers.counters[(f"{WEBHOOK}_fail_open_count", name, step)] = count
    return numbers
