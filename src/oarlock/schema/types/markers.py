"""Markers for type hints, written in ``Annotated``: constraints, list semantics and names.

    replicas: Annotated[int, Ge(0), Le(100), Doc("How many.")] = 1

Markers are plain values; `reflect` reads constraints by attribute, so those of ``annotated_types`` work
too. They aren't checked when an object is built or viewed: the schema made of them is validated once,
for every request that writes an object. See also: `reflect`.
Source of the keys: OpenAPI v3 and the structural schemas of CustomResourceDefinitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from oarlock.meta.dataclass import dataclass

Number = int | float

AS_JSON = "x-oarlock-as-json"
"""The key of a schema that says what `AsJSON` does."""


@dataclass(frozen=True, slots=True)
class Marker:
    """A marker without a value of its own, such as `Atomic`."""

    marker: str


@dataclass(frozen=True, slots=True)
class Ge:
    """At least this number."""

    ge: Number


@dataclass(frozen=True, slots=True)
class Gt:
    """More than this number."""

    gt: Number


@dataclass(frozen=True, slots=True)
class Le:
    """At most this number."""

    le: Number


@dataclass(frozen=True, slots=True)
class Lt:
    """Less than this number."""

    lt: Number


@dataclass(frozen=True, slots=True)
class MultipleOf:
    """A multiple of this number."""

    multiple_of: Number


@dataclass(frozen=True, slots=True)
class MinLength:
    """A string of at least this number of characters."""

    min_length: int


@dataclass(frozen=True, slots=True)
class MaxLength:
    """A string of at most this number of characters."""

    max_length: int


@dataclass(frozen=True, slots=True)
class Pattern:
    """A string in which this RE2 expression is found; it is not anchored."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Format:
    """The ``format`` of a string or number: ``ipv4``, ``uri``, ``int32``, …; ``""`` for none."""

    format: str


@dataclass(frozen=True, slots=True)
class MinItems:
    """A list of at least this number of items."""

    min_items: int


@dataclass(frozen=True, slots=True)
class MaxItems:
    """A list of at most this number of items."""

    max_items: int


@dataclass(frozen=True, slots=True)
class MinProperties:
    """A dict with at least this number of keys."""

    min_properties: int


@dataclass(frozen=True, slots=True)
class MaxProperties:
    """A dict with at most this number of keys."""

    max_properties: int


@dataclass(frozen=True, slots=True, init=False)
class ListMap:
    """A list of models with these fields as its keys: ``ListMap("name")``. Apply merges the items by their keys.

    The names are those on the wire.
    """

    keys: tuple[str, ...]

    def __init__(self, *keys: str) -> None:
        object.__setattr__(self, "keys", keys)


@dataclass(frozen=True, slots=True)
class PatchMerge:
    """A list that strategic merge patches merge: models by this field, or scalars by value without one.

    The field is a name on the wire. A `ListMap` of one key needs no marker: it is merged by that key.
    Source: API conventions, ``patchStrategy:"merge" patchMergeKey:"…"``.
    """

    key: str = ""


@dataclass(frozen=True, slots=True)
class _AsJSON:
    """A field of a foreign type (`Foreign`) that is published as free JSON, whatever its hint.

    The type still reads and validates it; the value is stored as it was sent.
    """

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        # pydantic asks this of whatever stands in an Annotated
        return {AS_JSON: True}


@dataclass(frozen=True, slots=True, eq=False)
class OpenAPI:
    """Keys of the schema that have no marker: ``OpenAPI({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]})``.

    They replace those of the type hint; None removes a key. The keys type, properties and items come from the type hint
    and can't be set.
    """

    keys: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class IntOrStringMark:
    """An integer or a string."""


@dataclass(frozen=True, slots=True)
class QuantityMark:
    """A Kubernetes quantity."""


@dataclass(frozen=True, slots=True)
class MicroTimeMark:
    """A time with six digits of a second's fraction."""


@dataclass(frozen=True, slots=True)
class Name:
    """The field's name on the wire, if camelCase doesn't give it: ``Annotated[str, Name("podCIDR")]``."""

    name: str


@dataclass(frozen=True, slots=True)
class Proto:
    """The protobuf field number, 1 to 536870911, unique in its type. All fields of a type have one, or none has.

    A number must never change or be reused for another field. In a whole object ``metadata`` is field 1.
    """

    number: int


@dataclass(frozen=True, slots=True)
class Doc:
    """The field's description."""

    documentation: str


ListSet = Marker("ListSet")
"""A list of scalars without duplicates; server-side apply merges it value by value."""

Unique = ListSet
AsJSON = _AsJSON()

Atomic = Marker("Atomic")
"""A list, dict or model that server-side apply replaces as a whole."""

Preserve = Marker("Preserve")
"""Fields the schema doesn't name are kept instead of pruned."""

Embedded = Marker("Embedded")
"""A whole Kubernetes object inside this one: apiVersion, kind and metadata are checked, the rest is kept."""

Nullable = Marker("Nullable")
"""An explicit null is allowed and kept."""

NullIfAbsent = Marker("NullIfAbsent")
"""An absent value is written as null, as some fields of Kubernetes' own kinds are. The field's default is None."""

OmitEmpty = Marker("OmitEmpty")
"""The zero value (``""``, ``0``, ``False``, an empty list or dict) is treated as absent.

This is what most fields of Kubernetes' own kinds do. The field's default must be that zero value.
"""

AlsoRequired = Marker("AlsoRequired")
"""A field with a default that the schema lists as required all the same, as controller-gen does."""

PatchReplace = Marker("PatchReplace")
"""A list, dict or model that strategic merge patches replace as a whole, as they do with most lists."""

RetainKeys = Marker("RetainKeys")
"""A model (or the items of a merged list) for which clients' patches list the fields to keep, as for unions.

Source: API conventions, ``patchStrategy:"retainKeys"``.
"""

IntOrString = Annotated[int | str, IntOrStringMark()]
"""An integer or a string, as ports and percentages are."""

Quantity = Annotated[int | str, QuantityMark()]
"""An amount such as ``"100m"``, ``"1Gi"`` or ``2``."""

MicroTime = Annotated[datetime, MicroTimeMark()]
"""A time that is always written with six digits of a second's fraction, as those of leases and events."""

JSON = Annotated[Any, Preserve]
"""Anything JSON can say."""
