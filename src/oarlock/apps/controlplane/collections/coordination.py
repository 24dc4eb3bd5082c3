"""What the server does with events and leases beyond storing them.

The group ``events.k8s.io`` is stricter than the core one.
Source: Kubernetes' validation of Lease, and of Event, legacy and new; KEP-383.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from oarlock.apps.kinds.common.trees import go_value
from oarlock.apps.kinds.coordination import Lease
from oarlock.apps.kinds.core.objects import Event
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Invalid, Required
from oarlock.meta.names import qualified_name
from oarlock.meta.times import rfc3339, rfc3339_micro
from oarlock.registry.hooks.collection import StoredCollection
from oarlock.schema.types.views import builtins_of

NEW_GROUP = "events.k8s.io"
_TYPES = ("Normal", "Warning")
_LEAST_REPEATED = 2
_LONGEST = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}
_SAME = (
    ("involved_object", "involvedObject"),
    ("reason", "reason"),
    ("message", "message"),
    ("source", "source"),
    ("first_timestamp", "firstTimestamp"),
    ("last_timestamp", "lastTimestamp"),
    ("count", "count"),
    ("reason", "reason"),
    ("type", "type"),
    ("event_time", "eventTime"),
    ("action", "action"),
    ("related", "related"),
    ("reporting_component", "reportingController"),
    ("reporting_instance", "reportingInstance"),
)
"""What stays as it is in the new group, in the order and with the repetition of Kubernetes."""


class EventCollection(StoredCollection[Event]):
    """Events are in the namespace of what they are about."""

    def validate(self, new: Event, old: Event | None, ctx: Context) -> Iterator[FieldError]:
        of_new_group = ctx.target.group == NEW_GROUP
        if old is None or not of_new_group:
            yield from _legacy(new, "reportingController" if of_new_group else "reportingComponent")
        if not of_new_group:
            return
        if old is None:
            yield from _new(new)
        else:
            yield from _changes(new, old)


def _legacy(event: Event, controller: str) -> Iterator[FieldError]:
    """What is asked of events of both groups. `controller` is how the group calls who reports."""
    about, namespace = event.involved_object.namespace, event.metadata.namespace
    elsewhere = (about or "default") != namespace if event.event_time is None else not about and namespace != "default"
    if elsewhere:
        yield Invalid("involvedObject.namespace", about, "does not match event.namespace")
    if event.event_time is None:
        return
    if not event.reporting_component:
        yield Required(controller)
    for complaint in qualified_name(event.reporting_component):
        yield Invalid(controller, event.reporting_component, complaint)
    yield from _filled(event)


def _new(event: Event) -> Iterator[FieldError]:
    series = event.series
    if series is not None:
        if series.count < _LEAST_REPEATED:
            yield Invalid("series.count", "", f"should be at least {_LEAST_REPEATED}")
        if series.last_observed_time is None:
            yield Required("series.lastObservedTime")
    if event.event_time is None:
        yield Required("eventTime")
    if event.type not in _TYPES:
        yield Invalid("type", "", f"has invalid value: {event.type}")
    if event.event_time is not None:
        yield from _unset(event)


def _filled(event: Event) -> Iterator[FieldError]:
    values = {
        "reportingInstance": event.reporting_instance,
        "action": event.action,
        "reason": event.reason,
        "message": event.message,
    }
    for name, value in values.items():
        if not value and name != "message":
            yield Required(name)
        if len(value) > _LONGEST[name]:
            yield Invalid(name, "", f"can have at most {_LONGEST[name]} characters")


def _unset(event: Event) -> Iterator[FieldError]:
    for name, value in (
        ("firstTimestamp", event.first_timestamp),
        ("lastTimestamp", event.last_timestamp),
        ("count", event.count),
        ("source", event.source.component or event.source.host),
    ):
        if value:
            yield Invalid(name, "", "needs to be unset")


def _changes(new: Event, old: Event) -> Iterator[FieldError]:
    for name, wire in _SAME:
        value = getattr(new, name)
        if value != getattr(old, name):
            yield Invalid(wire, _shown(name, value), "field is immutable")


def _shown(name: str, value: Any) -> Any:
    """A value as Go has it."""
    if isinstance(value, datetime):
        return rfc3339_micro(value.timestamp()) if name == "event_time" else rfc3339(value.timestamp())
    if value is None or name not in _OBJECTS:
        return value
    return go_value(_OBJECTS[name], builtins_of(value))


_OBJECTS = {"involved_object": "ObjectReference", "related": "ObjectReference", "source": "EventSource"}


class LeaseCollection(StoredCollection[Lease]):
    """Leases last for some time, and count upwards."""

    def validate(self, new: Lease, old: Lease | None, ctx: Context) -> Iterator[FieldError]:
        spec = new.spec
        if spec.lease_duration_seconds is not None and spec.lease_duration_seconds <= 0:
            yield Invalid("spec.leaseDurationSeconds", spec.lease_duration_seconds, "must be greater than 0")
        if spec.lease_transitions is not None and spec.lease_transitions < 0:
            yield Invalid("spec.leaseTransitions", spec.lease_transitions, "must be greater than or equal to 0")
