"""The core group, ``/api/v1``: namespaces, configuration, secrets, service accounts, events.

Source: Kubernetes API reference, v1. See also: `events`, the newer group of the same events.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from oarlock.apps.kinds.common.columns import AGE
from oarlock.apps.kinds.meta import Text
from oarlock.meta.dataclass import dataclass
from oarlock.schema.definition import Column
from oarlock.schema.types.markers import (
    Atomic,
    Doc,
    Format,
    ListMap,
    MicroTime,
    Name,
    NullIfAbsent,
    OmitEmpty,
    PatchMerge,
)
from oarlock.schema.types.resources import Resource
from oarlock.schema.types.shapes import Model


class ObjectReference(Model):
    """Names an object, or a part of one."""

    kind: Text = ""
    namespace: Text = ""
    name: Text = ""
    uid: Text = ""
    api_version: Text = ""
    resource_version: Text = ""
    field_path: Annotated[str, OmitEmpty, Doc("A part of the object, such as spec.containers{name}.")] = ""


class LocalObjectReference(Model):
    """Names an object in the same namespace."""

    name: Text = ""


# Namespaces ---------------------------------------------------------------------------------------


NAME_LABEL = "kubernetes.io/metadata.name"
"""The label that every namespace has: its name."""


class NamespaceSpec(Model):
    """What must happen before a namespace can go."""

    finalizers: Annotated[list[str], OmitEmpty, Atomic, Doc("Who must have finished before it is removed.")] = []


class NamespaceCondition(Model):
    """How far the deletion of a namespace is."""

    type: str
    status: str
    last_transition_time: Annotated[datetime | None, NullIfAbsent] = None
    reason: Text = ""
    message: Text = ""


class NamespaceStatus(Model):
    """Whether a namespace is in use."""

    phase: Text = ""
    conditions: Annotated[list[NamespaceCondition], OmitEmpty, ListMap("type"), PatchMerge("type")] = []


class Namespace(
    Resource,
    group="",
    version="v1",
    scope="Cluster",
    short_names=["ns"],
    name_rule="dns-label",
    generation=False,
    unconditional_update=True,
    delete_collection=False,
    finalizers_at=".spec.finalizers",
    status_subresource=True,
    selectable=[".status.phase"],
    columns=[Column("Status", ".status.phase", description="The status of the namespace"), AGE],
):
    """A scope for names."""

    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus | None = None

    def default(self) -> None:
        if self.metadata.name:
            self.metadata.labels = {**self.metadata.labels, NAME_LABEL: self.metadata.name}


# Configuration ------------------------------------------------------------------------------------

_DATA = (
    "Data contains the configuration data. Each key must consist of alphanumeric characters, '-', '_' or '.'. Values "
    "with non-UTF-8 byte sequences must use the BinaryData field. The keys stored in Data must not overlap with the "
    "keys in the BinaryData field, this is enforced during validation process."
)
_SECRET_TYPE = (
    "Used to facilitate programmatic handling of secret data. More info: "
    "https://kubernetes.io/docs/concepts/configuration/secret/#secret-types"
)
_SECRET_DATA = (
    "Data contains the secret data. Each key must consist of alphanumeric characters, '-', '_' or '.'. The serialized "
    "form of the secret data is a base64 encoded string, representing the arbitrary (possibly non-string) data value "
    "here. Described in https://tools.ietf.org/html/rfc4648#section-4"
)


class ConfigMap(
    Resource,
    group="",
    version="v1",
    short_names=["cm"],
    generation=False,
    unconditional_update=True,
    columns=[
        Column(
            "Data", expression="size(self.?data.orValue({})) + size(self.?binaryData.orValue({}))", description=_DATA
        ),
        AGE,
    ],
):
    """Configuration for programs, as texts and bytes by key."""

    immutable: bool | None = None
    data: Annotated[dict[str, str], OmitEmpty, Doc(_DATA)] = {}
    binary_data: Annotated[dict[str, bytes], OmitEmpty] = {}


class Secret(
    Resource,
    group="",
    version="v1",
    generation=False,
    unconditional_update=True,
    selectable=[".type"],
    columns=[
        Column("Type", ".type", description=_SECRET_TYPE),
        Column("Data", expression="size(self.?data.orValue({}))", description=_SECRET_DATA),
        AGE,
    ],
):
    """Data that not everybody who reads configuration may see."""

    immutable: bool | None = None
    data: Annotated[dict[str, bytes], OmitEmpty, Doc(_SECRET_DATA)] = {}
    string_data: Annotated[dict[str, str], OmitEmpty, Doc("Texts that are written into data, and never shown.")] = {}
    type: Annotated[str, Doc(_SECRET_TYPE)] = "Opaque"

    def default(self) -> None:
        if self.string_data:
            self.data = {**self.data, **{key: text.encode() for key, text in self.string_data.items()}}
            self.string_data = {}
        self.type = self.type or "Opaque"


class ServiceAccount(
    Resource,
    group="",
    version="v1",
    short_names=["sa"],
    generation=False,
    unconditional_update=True,
    delete_returns="object",
    columns=[AGE],
):
    """An identity for programs."""

    secrets: Annotated[list[ObjectReference], OmitEmpty, PatchMerge("name"), Atomic] = []
    image_pull_secrets: Annotated[list[LocalObjectReference], OmitEmpty, Atomic] = []
    automount_service_account_token: bool | None = None

    def default(self) -> None:
        self.secrets = [ObjectReference(name=secret.name) for secret in self.secrets]


# Events -------------------------------------------------------------------------------------------


_REASON = (
    "This should be a short, machine understandable string that gives the reason for the transition into the object's "
    "current status."
)
_MESSAGE = "A human-readable description of the status of this operation."
_EVENT_TYPE = "Type of this event (Normal, Warning), new types could be added in the future"
_LAST_SEEN = "The time at which the most recent occurrence of this event was recorded."
_FIRST_SEEN = "The time at which the event was first recorded. (Time of server receipt is in TypeMeta.)"
_SOURCE = "The component reporting this event. Should be a short machine understandable string."
_PART = "A part of the object that this event is about, such as spec.containers{name}."


class EventSource(Model):
    """Who saw it."""

    component: Text = ""
    host: Text = ""


class EventSeries(Model):
    """How often it was seen again, and when last."""

    count: Annotated[int, OmitEmpty, Format("int32")] = 0
    last_observed_time: Annotated[MicroTime | None, NullIfAbsent] = None


_OBJECT = "self.{0}.?kind.orValue('').lowerAscii() + (has(self.{0}.name) ? '/' + self.{0}.name : '')"
_SEEN = "(self.{0} != null ? string(self.{0}) : {1})"
_FIRST = _SEEN.format("{first}", _SEEN.format("eventTime", "''"))
_LAST = (
    "has(self.series) && self.series.lastObservedTime != null ? string(self.series.lastObservedTime) : "
    + _SEEN.format("{last}", _FIRST)
)


@dataclass(frozen=True, slots=True)
class EventFields:
    """How one of the groups of events calls what columns show."""

    about: str
    message: str
    source: str
    first: str
    last: str
    count: str


def event_columns(names: EventFields) -> list[Column]:
    """The columns of events, for the names that a group gives to their fields."""
    times = {"first": names.first, "last": names.last}
    source = f"self.{names.source}"
    count = f"has(self.series) ? self.series.count : has(self.{names.count}) ? self.{names.count} : 1"
    return [
        Column("Last Seen", type="age", expression=_LAST.format(**times), description=_LAST_SEEN),
        Column("Type", ".type", description=_EVENT_TYPE),
        Column("Reason", ".reason", description=_REASON),
        Column("Object", expression=_OBJECT.format(names.about), description="The object that this event is about."),
        Column("Subobject", expression=f"self.{names.about}.?fieldPath.orValue('')", description=_PART, priority=1),
        Column("Source", expression=f"{source}.?component.orValue('')", description=_SOURCE, priority=1),
        Column("Message", f".{names.message}", description=_MESSAGE),
        Column("First Seen", type="age", expression=_FIRST.format(**times), description=_FIRST_SEEN, priority=1),
        Column("Count", expression=count, description="The number of times this event has occurred.", priority=1),
        Column("Name", ".metadata.name", format="name", priority=1),
    ]


class Event(
    Resource,
    group="",
    version="v1",
    short_names=["ev"],
    name_rule="path-segment",
    generation=False,
    unconditional_update=True,
    create_on_update=True,
    ttl_s=3600,
    selectable=[
        ".involvedObject.kind",
        ".involvedObject.namespace",
        ".involvedObject.name",
        ".involvedObject.uid",
        ".involvedObject.apiVersion",
        ".involvedObject.resourceVersion",
        ".involvedObject.fieldPath",
        ".reason",
        ".reportingComponent",
        ".type",
    ],
    columns=event_columns(
        EventFields("involvedObject", "message", "source", "firstTimestamp", "lastTimestamp", "count")
    ),
):
    """Something that happened to an object."""

    involved_object: Annotated[ObjectReference, Doc("The object that this event is about.")] = ObjectReference()
    reason: Annotated[
        str,
        OmitEmpty,
        Doc(_REASON),
    ] = ""
    message: Annotated[str, OmitEmpty, Doc(_MESSAGE)] = ""
    source: EventSource = EventSource()
    first_timestamp: Annotated[datetime | None, NullIfAbsent] = None
    last_timestamp: Annotated[datetime | None, NullIfAbsent] = None
    count: Annotated[int, OmitEmpty, Format("int32")] = 0
    type: Annotated[str, OmitEmpty, Doc("Normal or Warning; more may come.")] = ""
    event_time: Annotated[MicroTime | None, NullIfAbsent] = None
    series: EventSeries | None = None
    action: Text = ""
    related: ObjectReference | None = None
    reporting_component: Annotated[str, Name("reportingComponent")] = ""
    reporting_instance: str = ""
