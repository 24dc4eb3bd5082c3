"""``events.k8s.io``: the same events as in the core group, with other names for their fields.

Source: Kubernetes API reference, Event v1; KEP-383. See also: ``core.objects``.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Self

from oarlock.apps.kinds.core import objects as core
from oarlock.apps.kinds.core.objects import EventFields, EventSource, ObjectReference, event_columns
from oarlock.apps.kinds.meta import Text
from oarlock.schema.types.markers import Format, MicroTime, NullIfAbsent, OmitEmpty
from oarlock.schema.types.resources import Spoke
from oarlock.schema.types.shapes import Model


class EventSeries(Model):
    """How often it was seen again, and when last."""

    count: Annotated[int, Format("int32")] = 0
    last_observed_time: Annotated[MicroTime | None, NullIfAbsent] = None


class Event(
    Spoke[core.Event],
    group="events.k8s.io",
    version="v1",
    selectable=[
        ".regarding.kind",
        ".regarding.namespace",
        ".regarding.name",
        ".regarding.uid",
        ".regarding.apiVersion",
        ".regarding.resourceVersion",
        ".regarding.fieldPath",
        ".reason",
        ".reportingController",
        ".type",
    ],
    columns=event_columns(
        EventFields(
            "regarding",
            "note",
            "deprecatedSource",
            "deprecatedFirstTimestamp",
            "deprecatedLastTimestamp",
            "deprecatedCount",
        )
    ),
):
    """Something that happened to an object."""

    event_time: Annotated[MicroTime | None, NullIfAbsent] = None
    series: EventSeries | None = None
    reporting_controller: Text = ""
    reporting_instance: Text = ""
    action: Text = ""
    reason: Text = ""
    regarding: ObjectReference = ObjectReference()
    related: ObjectReference | None = None
    note: Text = ""
    type: Text = ""
    deprecated_source: EventSource = EventSource()
    deprecated_first_timestamp: Annotated[datetime | None, NullIfAbsent] = None
    deprecated_last_timestamp: Annotated[datetime | None, NullIfAbsent] = None
    deprecated_count: Annotated[int, OmitEmpty, Format("int32")] = 0

    def to_hub(self) -> core.Event:
        series = self.series
        return core.Event(
            metadata=self.metadata,
            involved_object=self.regarding,
            reason=self.reason,
            message=self.note,
            source=self.deprecated_source,
            first_timestamp=self.deprecated_first_timestamp,
            last_timestamp=self.deprecated_last_timestamp,
            count=self.deprecated_count,
            type=self.type,
            event_time=self.event_time,
            series=core.EventSeries(count=series.count, last_observed_time=series.last_observed_time)
            if series
            else None,
            action=self.action,
            related=self.related,
            reporting_component=self.reporting_controller,
            reporting_instance=self.reporting_instance,
        )

    @classmethod
    def from_hub(cls, hub: core.Event) -> Self:
        series = hub.series
        return cls(
            metadata=hub.metadata,
            regarding=hub.involved_object,
            reason=hub.reason,
            note=hub.message,
            deprecated_source=hub.source,
            deprecated_first_timestamp=hub.first_timestamp,
            deprecated_last_timestamp=hub.last_timestamp,
            deprecated_count=hub.count,
            type=hub.type,
            event_time=hub.event_time,
            series=EventSeries(count=series.count, last_observed_time=series.last_observed_time) if series else None,
            action=hub.action,
            related=hub.related,
            reporting_controller=hub.reporting_component,
            reporting_instance=hub.reporting_instance,
        )
