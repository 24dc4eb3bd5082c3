"""`EventRecorder`: reports what a controller did, as ``kubectl describe`` and ``kubectl events`` show it.

    self.events.normal(database, "Created", "The database is ready")
    self.events.warning(database, "NoSpace", "The disk is full")

It never waits and never fails: events are sent in the background, to events.k8s.io/v1 where that is served, else to
the core group, else to the log. What can't be sent in time, or is too much, is left out.

`EventCorrelator` makes one event with a count of many alike: about 25 of an object at once, then one in five minutes;
from the tenth different note of a kind on, without ten minutes between them, notes become one.
Source: client-go ``tools/events`` and ``tools/record``, in behaviour; sizes and times are client-go's.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Hashable
from dataclasses import field, replace
from typing import Any

from oarlock.client.client import Client
from oarlock.client.clock import TimerClock
from oarlock.client.keywords import RetryPolicy
from oarlock.client.kinds import ResourceRef
from oarlock.client.transport import TransportError
from oarlock.controllers.keys import metadata_tree
from oarlock.controllers.running.work_queue import RetryBucket
from oarlock.meta.context import Clock
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import NotFound, StatusError
from oarlock.meta.json_trees import Tree
from oarlock.meta.memo import RecentlyUsed
from oarlock.meta.times import rfc3339, rfc3339_micro
from oarlock.schema.types.resources import declared

MAX_REMEMBERED = 4_096
"""How many objects, kinds of events and series are remembered."""

BURST = 25
REFILL_S = 300.0
SIMILAR = 10
SIMILAR_S = 600.0
SERIES_S = 360.0
"""After so long without another of its kind, an event begins a new series."""

MAX_NOTE_BYTES = 1_024
"""How long a note may be."""

COMBINED = "(combined from similar events): "


@dataclass(frozen=True, slots=True)
class EventFacts:
    """What happened, to what. `regarding` and `related` are references to objects, as trees."""

    type: str
    reason: str
    action: str
    note: str
    controller: str
    regarding: dict[str, Any]
    related: dict[str, Any] | None = None

    def about(self) -> Hashable:
        """Which object it is about, as seen by which controller."""
        regarding = self.regarding
        return (
            self.controller,
            regarding.get("kind"),
            regarding.get("namespace"),
            regarding.get("name"),
            regarding.get("uid"),
        )

    def similar(self) -> Hashable:
        """What is the same for events that differ in their notes only."""
        return (self.about(), self.type, self.reason, self.action)


@dataclass(slots=True)
class RepeatedEvent:
    """Events that are reported as one. `name` is that of the event on the server, empty until there is one."""

    facts: EventFacts
    first_epoch_s: float
    last_epoch_s: float
    last_s: float
    count: int = 1
    name: str = ""


@dataclass(slots=True)
class _Notes:
    """The notes of similar events, and when the last of them came."""

    last_s: float
    notes: set[str] = field(default_factory=set)


class EventCorrelator:
    """Remembers what was told."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buckets: RecentlyUsed[Hashable, RetryBucket] = RecentlyUsed(MAX_REMEMBERED)
        self._notes: RecentlyUsed[Hashable, _Notes] = RecentlyUsed(MAX_REMEMBERED)
        self._series: RecentlyUsed[Hashable, RepeatedEvent] = RecentlyUsed(MAX_REMEMBERED)

    def admit(self, facts: EventFacts) -> bool:
        """Whether it may be told: not too many of one object."""
        about = facts.about()
        bucket = self._buckets.get(about)
        if bucket is None:
            bucket = RetryBucket(self._clock, per_s=1 / REFILL_S, burst=BURST)
            self._buckets.put(about, bucket)
        return bucket.take()

    def correlate(self, facts: EventFacts) -> RepeatedEvent:
        """The series that it belongs to, counted in it; one with a count of 1 is new."""
        now, epoch = self._clock.monotonic(), self._clock.now()
        note = facts.note
        if self._differ_too_much(facts, now):
            note = COMBINED
            combined = (COMBINED + facts.note).encode()[:MAX_NOTE_BYTES].decode(errors="ignore")
            facts = replace(facts, note=combined)
        key = (facts.similar(), note)
        series = self._series.get(key)
        if series is None or now - series.last_s > SERIES_S:
            series = RepeatedEvent(facts, epoch, epoch, now)
            self._series.put(key, series)
            return series
        series.count += 1
        series.last_s, series.last_epoch_s, series.facts = now, epoch, facts
        return series

    def _differ_too_much(self, facts: EventFacts, now: float) -> bool:
        """Whether there were too many different notes of its kind, so that all others are told as one."""
        similar = facts.similar()
        notes = self._notes.get(similar)
        if notes is None or now - notes.last_s > SIMILAR_S:
            notes = _Notes(now)
            self._notes.put(similar, notes)
        notes.last_s = now
        if facts.note in notes.notes:
            return False
        if len(notes.notes) >= SIMILAR - 1:
            return True
        notes.notes.add(facts.note)
        return False


log = logging.getLogger("oarlock.controllers.events")

MAX_WAITING = 1_000
"""How many events wait to be sent."""

MAX_WORD_LENGTH = 128
TRIES = 12
RETRY_S = 10.0
REQUEST_S = 10.0

CORE_KIND = "v1/Event"
KINDS = ("events.k8s.io/v1/Event", CORE_KIND)
"""The first that is served is used."""

LOOK_AGAIN_S = 600.0
"""How long the answer counts that the server has no events."""

FLUSH_S = 2.0
"""How long sending may go on at the end, in seconds."""


class EventRecorder:
    """Records the events of one controller. Recording never waits and never fails.

    An event with an empty `action` is created in the core group, whose events have none, as kube-controller-manager's
    are.
    """

    def __init__(self, sender: EventSender, controller: str) -> None:
        self._sender = sender
        self._controller = controller

    def named(self, controller: str) -> EventRecorder:
        """A recorder whose events name another controller."""
        return EventRecorder(self._sender, controller)

    def normal(self, obj: Any, reason: str, note: str, *, action: str = "Reconcile", related: Any = None) -> None:
        """Record an event of type Normal. `reason` is one word, such as ``Created``; `note` is text for people."""
        self._record("Normal", obj, reason, note, action, related)

    def warning(self, obj: Any, reason: str, note: str, *, action: str = "Reconcile", related: Any = None) -> None:
        """Record an event of type Warning."""
        self._record("Warning", obj, reason, note, action, related)

    def _record(self, kind: str, obj: Any, reason: str, note: str, action: str, related: Any) -> None:
        try:
            self._sender.offer(
                EventFacts(
                    kind,
                    _word(reason, "Unknown"),
                    str(action)[:MAX_WORD_LENGTH],
                    _cut(str(note)),
                    self._controller,
                    _reference(obj),
                    None if related is None else _reference(related),
                )
            )
        except Exception:
            log.exception("an event of %s was left out", self._controller)


class EventSender:
    """Sends the events of all controllers of a group, between `start` and `stop`. `dropped` counts those not sent."""

    def __init__(self, client: Client, clock: TimerClock) -> None:
        self.dropped = 0
        self._client = client.using(timeout_s=REQUEST_S, retries=RetryPolicy(retries=0))
        self._clock = clock
        self._correlator = EventCorrelator(clock)
        self._waiting: deque[EventFacts] = deque()
        self._offered = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._task: asyncio.Task[None] | None = None
        self._kind = ""
        self._asked_at = float("-inf")
        self._instance = f"{socket.gethostname()}"[:MAX_WORD_LENGTH]
        self._last_name = 0

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="events")

    async def stop(self) -> None:
        """Send what waits, for a moment; leave out the rest."""
        if self._task is None:
            return
        flushing = asyncio.ensure_future(self._idle.wait())
        await asyncio.wait((flushing, self._task), timeout=FLUSH_S, return_when=asyncio.FIRST_COMPLETED)
        for task in (flushing, self._task):
            task.cancel()
        await asyncio.wait((flushing, self._task))

    def offer(self, facts: EventFacts) -> None:
        """Send an event soon, unless there are too many."""
        if len(self._waiting) >= MAX_WAITING or not self._correlator.admit(facts):
            self.dropped += 1
            return
        self._waiting.append(facts)
        self._idle.clear()
        self._offered.set()

    async def idle(self) -> None:
        """Wait until nothing waits to be sent."""
        await self._idle.wait()

    async def _run(self) -> None:
        while True:
            while self._waiting:
                series = self._correlator.correlate(self._waiting.popleft())
                try:
                    await self._send(series)
                except Exception:
                    log.exception("an event was left out")
            self._idle.set()
            self._offered.clear()
            await self._offered.wait()

    async def _send(self, series: RepeatedEvent) -> None:
        for _ in range(TRIES):
            try:
                ref = await self._find_resource(series.facts)
                if ref is None:
                    _log(series.facts)
                else:
                    await self._write(ref, series)
            except TransportError as error:
                log.info("an event can't be sent yet: %s", error)
            except StatusError as error:
                if error.code not in (429, 500, 503, 504):
                    self.dropped += 1
                    log.info("an event was refused: %s", error)
                    return
            else:
                return
            await self._clock.sleep(RETRY_S)
        self.dropped += 1

    async def _find_resource(self, facts: EventFacts) -> ResourceRef | None:
        """Where an event goes; None where the server has none."""
        if not facts.action:
            try:
                return await self._client.ref(CORE_KIND)
            except NotFound:
                return None
        now = self._clock.monotonic()
        if not self._kind and now - self._asked_at < LOOK_AGAIN_S:
            return None
        for kind in (self._kind,) if self._kind else KINDS:
            try:
                ref = await self._client.ref(kind)
            except NotFound:
                continue
            self._kind = kind
            return ref
        self._kind, self._asked_at = "", now
        return None

    async def _write(self, ref: ResourceRef, series: RepeatedEvent) -> None:
        """Create an event, or count on in the one that there is."""
        namespace = series.facts.regarding.get("namespace") or "default"
        modern = "/" in ref.api_version
        if series.name:
            patch = _series_patch(series) if modern else _count_patch(series)
            headers = {"content-type": "application/merge-patch+json"}
            try:
                await self._client.request("PATCH", ref.object(series.name, namespace), patch, headers=headers)
                return
            except NotFound:
                pass  # it has expired
        name = self._new_name(series)
        tree = self._modern(series) if modern else self._core(series)
        head = {"apiVersion": ref.api_version, "kind": "Event", "metadata": {"name": name, "namespace": namespace}}
        await self._client.request("POST", ref.collection(namespace), {**head, **tree})
        series.name = name

    def _new_name(self, series: RepeatedEvent) -> str:
        """As client-go's: the object's name, and a time that no other event of this process has."""
        self._last_name = max(self._last_name + 1, int(self._clock.now() * 1e9))
        return f"{series.facts.regarding.get('name', '')[:230]}.{self._last_name:x}"

    def _modern(self, series: RepeatedEvent) -> Tree:
        facts = series.facts
        tree: Tree = {
            "eventTime": rfc3339_micro(series.first_epoch_s),
            "reportingController": facts.controller,
            "reportingInstance": self._instance,
            "type": facts.type,
            "reason": facts.reason,
            "action": facts.action,
            "note": facts.note,
            "regarding": facts.regarding,
        }
        if facts.related is not None:
            tree["related"] = facts.related
        if series.count > 1:
            tree |= _series_patch(series)
        return tree

    def _core(self, series: RepeatedEvent) -> Tree:
        facts = series.facts
        tree: Tree = {
            "involvedObject": facts.regarding,
            "type": facts.type,
            "reason": facts.reason,
            "message": facts.note,
            "source": {"component": facts.controller},
            "firstTimestamp": rfc3339(series.first_epoch_s),
            "lastTimestamp": rfc3339(series.last_epoch_s),
            "count": series.count,
            "reportingComponent": facts.controller,
            "reportingInstance": self._instance,
        }
        return tree


def _series_patch(series: RepeatedEvent) -> Tree:
    return {"series": {"count": series.count, "lastObservedTime": rfc3339_micro(series.last_epoch_s)}}


def _count_patch(series: RepeatedEvent) -> Tree:
    last = rfc3339(series.last_epoch_s)
    return {"count": series.count, "lastTimestamp": last, "message": series.facts.note}


def _reference(obj: Any) -> dict[str, Any]:
    """An ObjectReference."""
    if isinstance(obj, dict):
        api_version, kind = obj.get("apiVersion", ""), obj.get("kind", "")
    else:
        declaration = declared(type(obj))
        api_version, kind = declaration.gvk.api_version, declaration.kind
    metadata = metadata_tree(obj)
    names = {name: metadata.get(name) for name in ("namespace", "name", "uid", "resourceVersion")}
    return {"apiVersion": api_version, "kind": kind, **{name: value for name, value in names.items() if value}}


def _word(text: str, default: str) -> str:
    return str(text)[:MAX_WORD_LENGTH] or default


def _cut(text: str) -> str:
    """At most so many bytes, of whole characters."""
    data = text.encode(errors="replace")
    return text if len(data) <= MAX_NOTE_BYTES else data[:MAX_NOTE_BYTES].decode(errors="ignore")


def _log(facts: EventFacts) -> None:
    level = logging.WARNING if facts.type == "Warning" else logging.INFO
    regarding = facts.regarding
    name = "/".join(filter(None, (regarding.get("namespace"), regarding.get("name"))))
    log.log(level, "%s %s: %s: %s", regarding.get("kind"), name, facts.reason, facts.note)
