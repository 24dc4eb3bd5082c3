"""`AccessCounts`: what is counted of decisions. Source: k8s.io/apiserver ``endpoints/filters``, ``authorization``.

Must not know: how the numbers are printed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from oarlock.meta.metrics import Histogram, MetricFamily, histogram_of

__all__ = ["DURATION_BOUNDS_S", "AccessCounts", "AuthorizerLabels"]

DURATION_BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class AuthorizerLabels(NamedTuple):
    """What an authorizer is called in metrics: the name comes from the configuration."""

    type: str
    name: str


class AccessCounts:
    """The numbers of one server. Labels come from its configuration or a fixed list, never from a client."""

    def __init__(self) -> None:
        self.attempts: Counter[str] = Counter()
        """Requests by result: ``allowed``, ``denied``, ``no-opinion``, ``error``."""
        self.decisions: Counter[tuple[AuthorizerLabels, str]] = Counter()
        """What authorizers decided, ``allowed`` or ``denied``; having no opinion is no decision."""
        self.calls: dict[tuple[str, str], Histogram] = {}
        """Questions to other services, by their name and result."""
        self.open_failures: Counter[tuple[str, str]] = Counter()
        """Those without an answer that were left to the next authorizer, by name and result."""
        self.condition_errors: Counter[str] = Counter()
        self.exclusions: Counter[str] = Counter()
        """Requests that a service wasn't asked about because of its conditions."""

    def called(self, name: str, result: str, seconds: float) -> None:
        """A service was asked, and this came of it."""
        times = self.calls.get((name, result))
        if times is None:
            times = self.calls[name, result] = Histogram(DURATION_BOUNDS_S)
        times.add(seconds)

    def families(self) -> Iterator[MetricFamily]:
        """What has been counted, as metrics."""
        about = "Requests by the result of authorization."
        attempts = {(result,): count for result, count in self.attempts.items()}
        yield MetricFamily("authorization_attempts_total", about, attempts, ("result",), "counter")
        decisions = {(*labels, decision): count for (labels, decision), count in self.decisions.items()}
        name, by = "apiserver_authorization_decisions_total", ("type", "name", "decision")
        yield MetricFamily(name, "Decisions of an authorizer.", decisions, by, "counter")
        webhook, asked = "apiserver_authorization_webhook", ("name", "result")
        calls = {labels: times.count for labels, times in self.calls.items()}
        yield MetricFamily(f"{webhook}_evaluations_total", "Questions to another service.", calls, asked, "counter")
        about = "Questions without an answer that were left to the next authorizer."
        yield MetricFamily(f"{webhook}_evaluations_fail_open_total", about, dict(self.open_failures), asked, "counter")
        for name, about, counts in (
            ("evaluation_errors", "Match conditions that couldn't be evaluated.", self.condition_errors),
            ("exclusions", "Requests that match conditions kept from an authorizer.", self.exclusions),
        ):
            by_name = {("Webhook", authorizer): count for authorizer, count in counts.items()}
            name = f"apiserver_authorization_match_condition_{name}_total"
            yield MetricFamily(name, about, by_name, ("type", "name"), "counter")
        about = "How long another service took, in seconds."
        yield histogram_of(f"{webhook}_duration_seconds", about, asked, self.calls, DURATION_BOUNDS_S)
