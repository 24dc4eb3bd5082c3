"""`AuthenticationCounts`: what is counted of authentication.

Source: k8s.io/apiserver ``endpoints/filters/metrics``,
``authentication/token/cache``, ``plugin/pkg/authenticator/token/oidc``.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import field
from typing import Literal

from oarlock.meta.dataclass import dataclass
from oarlock.meta.metrics import Histogram, MetricFamily, histogram_of, histograms
from oarlock.server.files.reloaded import ReloadCounts

AttemptResult = Literal["success", "failure", "error"]
"""Somebody is known; nobody was named; a credential is wrong."""

ATTEMPT_BOUNDS_S = tuple(0.001 * 2**n for n in range(15))
ISSUER_BOUNDS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
DELEGATED_BOUNDS_S = (0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0)
"""Upper bounds of the buckets, in seconds; one more bucket has the rest."""

_KNOWN_NAMES = frozenset({"admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default"})


@dataclass(slots=True)
class AuthenticationCounts:
    """The series of a histogram are by the values of its labels; names of users are never among them.

    `attempts` are by outcome, `users` by what kind of name somebody has, `issuers` by result and digest of the issuer's
    URL, `delegated` by the code of a cluster's answer. `remembered` counts tokens that were, and that weren't.
    `at_once` are successes in no time, because the user was known from memory; shown among `attempts`.
    """

    attempts: defaultdict[tuple[str, ...], Histogram] = field(default_factory=lambda: histograms(ATTEMPT_BOUNDS_S))
    at_once: int = 0
    users: dict[str, int] = field(default_factory=lambda: dict.fromkeys((*_KNOWN_NAMES, "email_id", "other"), 0))
    remembered: dict[str, int] = field(default_factory=lambda: {"hit": 0, "miss": 0})
    issuers: defaultdict[tuple[str, ...], Histogram] = field(default_factory=lambda: histograms(ISSUER_BOUNDS_S))
    delegated: defaultdict[tuple[str, ...], Histogram] = field(default_factory=lambda: histograms(DELEGATED_BOUNDS_S))
    reloads: ReloadCounts | None = None

    def attempt(self, outcome: AttemptResult, seconds: float, name: str = "") -> None:
        """A request was authenticated, as `name`, or wasn't; 0 seconds are for who was known from memory."""
        if seconds == 0.0 and outcome == "success":
            self.at_once += 1
        else:
            self.attempts[outcome,].add(seconds)
        if name:
            kind = name if name in _KNOWN_NAMES else "email_id" if "@" in name else "other"
            self.users[kind] += 1

    def issued(self, issuer: str, accepted: bool, seconds: float) -> None:
        """A token of `issuer` was verified."""
        digest = f"sha256:{hashlib.sha256(issuer.encode()).hexdigest()}"
        self.issuers["success" if accepted else "failure", digest].add(seconds)

    def delegate(self, code: str, seconds: float) -> None:
        """A token was reviewed by a cluster."""
        self.delegated[code,].add(seconds)

    def families(self) -> Iterator[MetricFamily]:
        """What has been counted, as metrics."""
        attempts = {outcome: times.numbers() for outcome, times in self.attempts.items()}
        if self.at_once:
            known = self.attempts.get(("success",)) or Histogram(ATTEMPT_BOUNDS_S)
            attempts["success",] = known.numbers(0.0, self.at_once)
        # Kubernetes calls these two so, without the suffix that a counter has.
        counts = {outcome: sum(buckets) for outcome, (buckets, _) in attempts.items()}
        about = "Requests by what authentication found."
        yield MetricFamily("authentication_attempts", about, counts, ("result",), "untyped")
        took = "How long it took, in seconds."
        yield histogram_of("authentication_duration_seconds", took, ("result",), attempts, _printed(ATTEMPT_BOUNDS_S))
        users = {(kind,): count for kind, count in self.users.items() if count}
        about = "Requests by kind of user name."
        yield MetricFamily("authenticated_user_requests", about, users, ("username",), "untyped")
        remembered = {(status,): count for status, count in self.remembered.items()}
        name, about = "authentication_token_cache_request_total", "Tokens that were remembered or not."
        yield MetricFamily(name, about, remembered, ("status",), "counter")
        name, labels = "apiserver_authentication_jwt_authenticator_latency_seconds", ("result", "jwt_issuer_hash")
        yield histogram_of(name, took, labels, self.issuers, _printed(ISSUER_BOUNDS_S))
        reviews = {code: times.count for code, times in self.delegated.items()}
        name, about = "apiserver_delegated_authn_request", "Reviews of tokens by a cluster, by code."
        yield MetricFamily(f"{name}_total", about, reviews, ("code",), "counter")
        bounds = _printed(DELEGATED_BOUNDS_S)
        yield histogram_of(f"{name}_duration_seconds", took, ("code",), self.delegated, bounds)
        if self.reloads is not None:
            yield from self.reloads.families("authentication")


def _printed(bounds: tuple[float, ...]) -> tuple[str, ...]:
    return tuple(map(str, bounds))
