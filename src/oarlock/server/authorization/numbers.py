"""The numbers of authorization, as ``/metrics`` shows them. See also: `families`, which prints them."""

from __future__ import annotations

from oarlock.policy.authz.counts import AccessCounts
from oarlock.server.metrics.series import SeriesNumbers

__all__ = ["access_numbers"]

_TYPE = "Webhook"


def access_numbers(counts: AccessCounts) -> SeriesNumbers:
    """A copy of the numbers."""
    numbers = SeriesNumbers()
    counters = numbers.counters
    for result, count in counts.attempts.items():
        counters[("authorization_attempts_total", result)] = count
    for (labels, decision), count in counts.decisions.items():
        counters[("apiserver_authorization_decisions_total", *labels, decision)] = count
    webhook = "apiserver_authorization_webhook"
    for (name, result), times in counts.calls.items():
        counters[(f"{webhook}_evaluations_total", name, result)] = sum(times.buckets)
        numbers.histograms[(f"{webhook}_duration_seconds", name, result)] = times.buckets.copy(), times.sum
    for (name, result), count in counts.open_failures.items():
        counters[(f"{webhook}_evaluations_fail_open_total", name, result)] = count
    conditions = "apiserver_authorization_match_condition"
    for name, count in counts.condition_errors.items():
        counters[(f"{conditions}_evaluation_errors_total", _TYPE, name)] = count
    for name, count in counts.exclusions.items():
        counters[(f"{conditions}_exclusions_total", _TYPE, name)] = count
    return numbers
