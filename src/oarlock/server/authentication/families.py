"""The numbers of authentication under Kubernetes' names. See also: `counts`; ``server.exposition``, which asks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric, UnknownMetricFamily

from oarlock.server.authentication.counts import (
    ATTEMPT_BOUNDS_S,
    DELEGATED_BOUNDS_S,
    ISSUER_BOUNDS_S,
    AuthenticationCounts,
    Times,
    TimesBy,
)

__all__ = ["authentication_families"]


def authentication_families(counts: AuthenticationCounts) -> Iterator[Metric]:
    # Kubernetes calls these two so, without the suffix that a counter gets here.
    attempts = UnknownMetricFamily(
        "authentication_attempts", "Requests by what authentication found.", labels=["result"]
    )
    for outcome, times in counts.attempts.items():
        attempts.add_metric([outcome], sum(times.buckets))
    yield attempts
    yield _histogram(
        "authentication_duration_seconds",
        {(outcome,): times for outcome, times in counts.attempts.items()},
        ["result"],
        ATTEMPT_BOUNDS_S,
    )
    users = UnknownMetricFamily("authenticated_user_requests", "Requests by kind of user name.", labels=["username"])
    for kind, count in counts.users.items():
        if count:
            users.add_metric([kind], count)
    yield users
    cache = CounterMetricFamily(
        "authentication_token_cache_request_total", "Tokens that were remembered or not.", labels=["status"]
    )
    for status, count in counts.remembered.items():
        cache.add_metric([status], count)
    yield cache
    labels = ["result", "jwt_issuer_hash"]
    name = "apiserver_authentication_jwt_authenticator_latency_seconds"
    yield _histogram(name, counts.issuers, labels, ISSUER_BOUNDS_S)
    asked = CounterMetricFamily(
        "apiserver_delegated_authn_request_total", "Questions to a cluster about tokens, by code.", labels=["code"]
    )
    for (code,), times in counts.delegated.items():
        asked.add_metric([code], sum(times.buckets))
    yield asked
    name = "apiserver_delegated_authn_request_duration_seconds"
    yield _histogram(name, counts.delegated, ["code"], DELEGATED_BOUNDS_S)


def _histogram(name: str, series: TimesBy, labels: Sequence[str], bounds: tuple[float, ...]) -> Metric:
    family = HistogramMetricFamily(name, "How long it took, in seconds.", labels=labels)
    for values, times in series.items():
        family.add_metric(list(values), _cumulative(times, bounds), times.sum_s)
    return family


def _cumulative(times: Times, bounds: tuple[float, ...]) -> list[tuple[str, float]]:
    below = 0
    buckets: list[tuple[str, float]] = []
    for bound, count in zip([*map(str, bounds), "+Inf"], times.buckets, strict=True):
        below += count
        buckets.append((bound, below))
    return buckets
