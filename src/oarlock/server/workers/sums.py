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
        _joined((counts.requests.codes for counts in every), _codes),
        _joined((counts.requests.durations for counts in every), _durations),
        _joined((counts.requests.open_watches for counts in every), _number),
    )
    return Numbers(
        requests=requests,
        store=_joined((counts.store for counts in every), _durations),
        store_failed=_joined((counts.store_failed for counts in every), _number),
        in_flight=_joined((counts.in_flight for counts in every), _number),
        unsent_bytes=sum(counts.unsent_bytes for counts in every),
        readers_cut=_joined((counts.readers_cut for counts in every), _number),
        objects=own.objects,
        watch_events=_joined((counts.watch_events for counts in every), _number),
        encryption=_reloads([counts.encryption for counts in every if counts.encryption is not None]),
        audit=_audit([counts.audit for counts in every if counts.audit is not None]),
        controllers=summed_numbers(controller for several in every for controller in several.controllers),
        fairness=_series([counts.fairness for counts in every if counts.fairness is not None]),
        access=_series([counts.access for counts in every if counts.access is not None]),
        admission=_series([counts.admission for counts in every if counts.admission is not None]),
        authentication=_authentication([counts.authentication for counts in every]),
    )


def summed_verdicts(every: Sequence[Verdicts]) -> Verdicts:
    """How often checks passed and failed in all processes; the last result is good if it was in each."""
    return _joined(every, lambda left, right: (left[0] and right[0], left[1] + right[1], left[2] + right[2]))


def _reloads(every: Sequence[ReloadCounts]) -> ReloadCounts | None:
    """Of all processes; the configuration in force is that of the first."""
    if not every:
        return None
    return ReloadCounts(
        succeeded=sum(counts.succeeded for counts in every),
        failed=sum(counts.failed for counts in every),
        succeeded_at=max(counts.succeeded_at for counts in every),
        failed_at=max(counts.failed_at for counts in every),
        digest=every[0].digest,
    )


def _authentication(every: Sequence[AuthenticationCounts]) -> AuthenticationCounts:
    total = AuthenticationCounts.total(every)
    total.reloads = _reloads([counts.reloads for counts in every if counts.reloads is not None])
    return total


def _audit(every: Sequence[AuditCounts]) -> AuditCounts | None:
    if not every:
        return None
    return AuditCounts(
        events=sum(counts.events for counts in every),
        levels=_joined((counts.levels for counts in every), _number),
        errors=_joined((counts.errors for counts in every), _number),
        rejected=sum(counts.rejected for counts in every),
    )


def _series(every: Sequence[SeriesNumbers]) -> SeriesNumbers | None:
    return SeriesNumbers.total(every) if every else None


def _joined(every: Iterable[Mapping[K, V]], add: Callable[[V, V], V]) -> dict[K, V]:
    total: dict[K, V] = {}
    for counts in every:
        for key, value in counts.items():
            total[key] = add(total[key], value) if key in total else value
    return total


def _number(left: int, right: int) -> int:
    return left + right


def _codes(left: dict[int, int], right: dict[int, int]) -> dict[int, int]:
    return _joined((left, right), _number)


def _durations(left: Histogram, right: Histogram) -> Histogram:
    pairs = zip(left.buckets, right.buckets, strict=True)
    return Histogram([a + b for a, b in pairs], left.sum_s + right.sum_s)
