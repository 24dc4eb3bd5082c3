"""`AuthenticationCounts`: what is counted of authentication, of one process or several.

See also: `families`, which prints it. Source: k8s.io/apiserver ``endpoints/filters/metrics``,
``authentication/token/cache``, ``plugin/pkg/authenticator/token/oidc``.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import field, replace
from typing import Literal, TypeVar

from oarlock.meta.dataclass import dataclass
from oarlock.server.metrics.reload_counts import ReloadCounts

__all__ = [
    "ATTEMPT_BOUNDS_S",
    "DELEGATED_BOUNDS_S",
    "ISSUER_BOUNDS_S",
    "AttemptResult",
    "AuthenticationCounts",
    "Times",
    "TimesBy",
]

AttemptResult = Literal["success", "failure", "error"]
"""Somebody is known; nobody was named; a credential is wrong."""

ATTEMPT_BOUNDS_S = tuple(0.001 * 2**n for n in range(15))
ISSUER_BOUNDS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
DELEGATED_BOUNDS_S = (0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0)
"""Upper bounds of the buckets, in seconds; one more bucket has the rest."""

K = TypeVar("K")
_KNOWN_NAMES = frozenset({"admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default"})


@dataclass(slots=True)
class Times:
    """A histogram of durations, and their sum, in seconds."""

    buckets: list[int]
    sum_s: float = 0.0

    def add(self, seconds: float, bounds: tuple[float, ...]) -> None:
        self.buckets[bisect_left(bounds, seconds)] += 1
        self.sum_s += seconds

    def plus(self, other: Times) -> Times:
        return Times([a + b for a, b in zip(self.buckets, other.buckets, strict=True)], self.sum_s + other.sum_s)


TimesBy = dict[tuple[str, ...], Times]


@dataclass(slots=True)
class AuthenticationCounts:
    """The series of a histogram are by the values of its labels; names of users are never among them.

    `attempts` are by outcome, `users` by what kind of name somebody has, `issuers` by result and digest of the issuer's
    URL, `delegated` by the code of a cluster's answer. `remembered` counts tokens that were, and that weren't.
    `at_once` are successes in no time, because the user was known from memory; a copy has them among `attempts`.
    """

    attempts: dict[str, Times] = field(default_factory=dict)
    at_once: int = 0
    users: dict[str, int] = field(default_factory=lambda: dict.fromkeys((*_KNOWN_NAMES, "email_id", "other"), 0))
    remembered: dict[str, int] = field(default_factory=lambda: {"hit": 0, "miss": 0})
    issuers: TimesBy = field(default_factory=dict)
    delegated: TimesBy = field(default_factory=dict)
    reloads: ReloadCounts | None = None

    def attempt(self, outcome: AttemptResult, seconds: float, name: str = "") -> None:
        """A request was authenticated, as `name`, or wasn't; 0 seconds are for who was known from memory."""
        if seconds == 0.0 and outcome == "success":
            self.at_once += 1
        else:
            _of(self.attempts, outcome).add(seconds, ATTEMPT_BOUNDS_S)
        if name:
            kind = name if name in _KNOWN_NAMES else "email_id" if "@" in name else "other"
            self.users[kind] += 1

    def issued(self, issuer: str, accepted: bool, seconds: float) -> None:
        """A token of `issuer` was verified."""
        digest = f"sha256:{hashlib.sha256(issuer.encode()).hexdigest()}"
        _add(self.issuers, ("success" if accepted else "failure", digest), seconds, ISSUER_BOUNDS_S)

    def asked(self, code: str, seconds: float) -> None:
        """A cluster was asked about a token."""
        _add(self.delegated, (code,), seconds, DELEGATED_BOUNDS_S)

    def copy(self) -> AuthenticationCounts:
        total = self.total([self])
        total.reloads = None if self.reloads is None else replace(self.reloads)
        return total

    @classmethod
    def total(cls, every: Iterable[AuthenticationCounts]) -> AuthenticationCounts:
        """The sum of all, without reloads."""
        total = cls()
        for process in every:
            _plus(total.attempts, process.attempts)
            if process.at_once:
                _of(total.attempts, "success").buckets[0] += process.at_once
            _plus(total.issuers, process.issuers)
            _plus(total.delegated, process.delegated)
            for sums, counts in ((total.users, process.users), (total.remembered, process.remembered)):
                for label, count in counts.items():
                    sums[label] = sums.get(label, 0) + count
        return total


def _of(attempts: dict[str, Times], outcome: str) -> Times:
    times = attempts.get(outcome)
    if times is None:
        times = attempts[outcome] = Times([0] * (len(ATTEMPT_BOUNDS_S) + 1))
    return times


def _plus(total: dict[K, Times], series: dict[K, Times]) -> None:
    for label, times in series.items():
        total[label] = times.plus(total[label]) if label in total else Times(times.buckets.copy(), times.sum_s)


def _add(series: TimesBy, labels: tuple[str, ...], seconds: float, bounds: tuple[float, ...]) -> None:
    times = series.get(labels)
    if times is None:
        times = series[labels] = Times([0] * (len(bounds) + 1))
    times.add(seconds, bounds)
