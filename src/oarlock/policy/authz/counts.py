"""`AccessCounts`: what is counted of decisions. Source: k8s.io/apiserver ``endpoints/filters``, ``authorization``.

Must not know: how the numbers are shown.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from oarlock.meta.samples import Samples

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
        self.calls: dict[tuple[str, str], Samples] = {}
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
            times = self.calls[name, result] = Samples(DURATION_BOUNDS_S)
        times.add(seconds)
