"""The numbers of several processes as those of one server.

What is counted is summed. Of what is measured, requests in progress, unsent bytes and open watches are summed; stored
objects are the same in every process, so they are this process's. Must not know: where the numbers come from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from oarlock.controllers.metrics import ended_numbers, summed_numbers
from oarlock.server.audit.counts import AuditCounts
from oarlock.server.authentication.counts import AuthenticationCounts
from oarlock.server.metrics.counts import Histogram, Numbers, RequestSnapshot, Verdicts
from oarlock.server.metrics.reload_counts import ReloadCounts
from oarlock.server.metrics.series import SeriesNumbers

__all__ = ["counters_of", "summed", "summed_verdicts"]

K = TypeVar("K")
V = TypeVar("V")


def counters_of(numbers: Numbers) -> Numbers:
    """What a process has counted, without what was measured: for one that has ended."""
    requests = numbers.requests
    closed = dict.fromkeys(requests.open_watches, 0)
    snapshot = RequestSnapshot(requests.codes, requests.durations, closed)
    in_flight = dict.fromkeys(numbers.in_flight, 0)
    cut, events = numbers.readers_cut, numbers.watch_events
    rest = numbers.encryption, numbers.audit, ended_numbers(numbers.controllers)
    fairness = None if numbers.fairness is None else numbers.fairness.counted()
    ended = Numbers(snapshot, numbers.store, numbers.store_failed, in_flight, 0, cut, {}, events, *rest, fairness)
    return replace(ended, authentication=numbers.authentication, access=numbers.access, admission=numbers.admission)


def summed(own: Numbers, others: Sequence[Numbers]) -> Numbers:
    """The numbers of this process and `others`."""
    every = (own, *others)
    requests = RequestSnapshot(
        _joined((one.requests.codes for one in every), _codes),
        _joined((one.requests.durations for one in every), _durations),
        _joined((one.requests.open_watches for one in every), _number),
    )
    return Numbers(
        requests=requests,
        store=_joined((one.store for one in every), _durations),
        store_failed=_joined((one.store_failed for one in every), _number),
        in_flight=_joined((one.in_flight for one in every), _number),
        unsent_bytes=sum(one.unsent_bytes for one in every),
        readers_cut=_joined((one.readers_cut for one in every), _number),
        objects=own.objects,
        watch_events=_joined((one.watch_events for one in every), _number),
        encryption=_reloads([one.encryption for one in every if one.encryption is not None]),
        audit=_audit([one.audit for one in every if one.audit is not None]),
        controllers=summed_numbers(one for several in every for one in several.controllers),
        fairness=_series([one.fairness for one in every if one.fairness is not None]),
        access=_series([one.access for one in every if one.access is not None]),
        admission=_series([one.admission for one in every if one.admission is not None]),
        authentication=_authentication([one.authentication for one in every]),
    )


def summed_verdicts(every: Sequence[Verdicts]) -> Verdicts:
    """How often checks passed and failed in all processes; the last result is good if it was in each."""
    return _joined(every, lambda one, other: (one[0] and other[0], one[1] + other[1], one[2] + other[2]))


def _reloads(every: Sequence[ReloadCounts]) -> ReloadCounts | None:
    """Of all processes; the configuration in force is that of the first."""
    if not every:
        return None
    return ReloadCounts(
        succeeded=sum(one.succeeded for one in every),
        failed=sum(one.failed for one in every),
        succeeded_at=max(one.succeeded_at for one in every),
        failed_at=max(one.failed_at for one in every),
        digest=every[0].digest,
    )


def _authentication(every: Sequence[AuthenticationCounts]) -> AuthenticationCounts:
    total = AuthenticationCounts.total(every)
    total.reloads = _reloads([one.reloads for one in every if one.reloads is not None])
    return total


def _audit(every: Sequence[AuditCounts]) -> AuditCounts | None:
    if not every:
        return None
    return AuditCounts(
        events=sum(one.events for one in every),
        levels=_joined((one.levels for one in every), _number),
        errors=_joined((one.errors for one in every), _number),
        rejected=sum(one.rejected for one in every),
    )


def _series(every: Sequence[SeriesNumbers]) -> SeriesNumbers | None:
    return SeriesNumbers.total(every) if every else None


def _joined(every: Iterable[Mapping[K, V]], add: Callable[[V, V], V]) -> dict[K, V]:
    total: dict[K, V] = {}
    for one in every:
        for key, value in one.items():
            total[key] = add(total[key], value) if key in total else value
    return total


def _number(one: int, other: int) -> int:
    return one + other


def _codes(one: dict[int, int], other: dict[int, int]) -> dict[int, int]:
    return _joined((one, other), _number)


def _durations(one: Histogram, other: Histogram) -> Histogram:
    pairs = zip(one.buckets, other.buckets, strict=True)
    return Histogram([a + b for a, b in pairs], one.sum_s + other.sum_s)
