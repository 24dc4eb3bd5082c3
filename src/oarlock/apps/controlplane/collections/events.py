"""What the server does with events beyond storing them. The group ``events.k8s.io`` is stricter than the core one.

Source: Kubernetes' validation of Event, legacy and new; KEP-383.
"""

from __future__ import annotations

from collections.abc import Iterator

from oarlock.apps.kinds.core.objects import Event
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Invalid, Required
from oarlock.meta.names import qualified_name
from oarlock.registry.hooks.collection import StoredCollection
from oarlock.schema.types.views import builtins_of

__all__ = ["EventCollection"]

NEW_GROUP = "events.k8s.io"
_TYPES = ("Normal", "Warning")
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
        about = new.involved_object.namespace
        namespace = new.metadata.namespace
        if (about or "default") != namespace:
            yield Invalid("involvedObject.namespace", about, "does not match event.namespace")
        if ctx.target.group != NEW_GROUP:
            return
        if old is None:
            yield from _new(new)
        else:
            yield from _changes(new, old)


def _new(event: Event) -> Iterator[FieldError]:
    if event.event_time is None:
        yield Required("eventTime")
    controller = event.reporting_component
    if event.event_time is not None:
        if not controller:
            yield Required("reportingController")
        for complaint in qualified_name(controller) if controller else ():
            yield Invalid("reportingController", controller, complaint)
        yield from _filled(event)
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
            shown = builtins_of(value) if name in ("involved_object", "related", "source") and value else value
            yield Invalid(wire, shown, "field is immutable")
