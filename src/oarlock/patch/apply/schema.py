"""The merge types of values: which lists are sets or maps, what is atomic, and which fields are undeclared.

A `ValueType` may be a scalar, a list and a map at once (a value without a schema is all three); the value decides
which applies. `type_of` makes types from structural schemas. Types may be recursive.
Must not know: values, sets. See also: `merge`, which finds the path element of a list item.
Source: x-kubernetes-list-type, -list-map-keys, -map-type, -preserve-unknown-fields, -int-or-string (KEP-555).
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, Final, Literal

from oarlock.meta.dataclass import dataclass
from oarlock.schema.structural.nodes import MISSING, Node

ScalarType = Literal["string", "numeric", "boolean", "untyped"]

ABSENT: Final = MISSING
"""There is no such value, as opposed to null."""


@dataclass(slots=True, eq=False)
class MapType:
    """An object.

    `fields` are the declared fields; `element` is the type of other fields, None when there may be none.
    """

    fields: dict[str, ValueType] = field(default_factory=dict)
    element: ValueType | None = None
    atomic: bool = False

    def child(self, name: str) -> ValueType:
        """The type of a field. An undeclared one has the deduced type, because stored objects may have such fields."""
        return self.fields.get(name) or self.element or DEDUCED


@dataclass(slots=True, eq=False)
class ListType:
    """A list: atomic, else a map when it has `keys`, else a set. `defaults` are the defaults of absent key fields."""

    element: ValueType
    atomic: bool = True
    keys: tuple[str, ...] = ()
    defaults: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class ValueType:
    """The type of a value.

    `exact` guarantees that booleans and numbers can't be mistaken for each other, so values of this type
    may be compared with ``==``, for which ``True`` is ``1``.
    """

    scalar: ScalarType | None = None
    list: ListType | None = None
    map: MapType | None = None
    exact: bool = False


def atom(type_: ValueType, value: Any) -> MapType | ListType | None:
    """The form of a type that applies to this value: a map, a list, or None for a scalar.

    For null, and for values of no allowed form, it is the first form the type has: map, scalar, list.
    """
    kind = type(value)
    if kind is dict:
        if type_.map is not None:
            return type_.map
    elif kind is list:
        if type_.list is not None:
            return type_.list
    elif value is not None and value is not ABSENT and type_.scalar is not None:
        return None
    if type_.map is not None:
        return type_.map
    return None if type_.scalar is not None else type_.list


# The deduced type, for values without a schema: objects are granular, lists atomic ---------------------------------


def _deduced() -> ValueType:
    inside = ValueType(scalar="untyped")
    inside.list = ListType(inside)
    inside.map = MapType(element=inside, atomic=True)
    result = ValueType(scalar="untyped", list=ListType(inside))
    result.map = MapType(element=result)
    return result


DEDUCED: Final = _deduced()
"""The type of a value without schema, and of undeclared fields that are kept."""

# From structural schemas ------------------------------------------------------------------------------------------

_SCALARS: dict[str, ScalarType] = {"string": "string", "integer": "numeric", "number": "numeric", "boolean": "boolean"}


def object_type(node: Node) -> ValueType:
    """The type of a whole object: its schema and the standard metadata."""
    result = type_of(node)
    if result.map is None:
        result.map = MapType(element=DEDUCED)
    _add_object_fields(result.map)
    return result


def _add_object_fields(form: MapType) -> None:
    form.fields.update(apiVersion=_scalar("string"), kind=_scalar("string"), metadata=OBJECT_META)


def type_of(node: Node) -> ValueType:
    """The type of a structural schema."""
    if node.int_or_string:
        return _scalar("untyped")
    if node.type in _SCALARS:
        return _scalar(_SCALARS[node.type])
    if node.type == "array":
        items = _list_of(node)
        return ValueType(list=items, exact=items.element.exact)
    if node.type == "object" or node.properties or isinstance(node.additional, Node):
        form = _map_of(node)
        if node.embedded:
            _add_object_fields(form)
        return ValueType(map=form, exact=_is_exact(form))
    return DEDUCED


def _scalar(scalar: ScalarType) -> ValueType:
    return ValueType(scalar, exact=True)


def _is_exact(form: MapType) -> bool:
    return (form.element is None or form.element.exact) and all(child.exact for child in form.fields.values())


def _map_of(node: Node) -> MapType:
    result = MapType(atomic=node.map_type == "atomic")
    result.fields = {name: type_of(child) for name, child in node.properties.items()}
    if isinstance(node.additional, Node):
        result.element = type_of(node.additional)
    elif node.additional or node.preserve:
        result.element = DEDUCED
    return result


def _list_of(node: Node) -> ListType:
    element = DEDUCED if node.items is None else type_of(node.items)
    if node.list_type == "set":
        return ListType(element, atomic=False)
    if node.list_type != "map" or node.items is None:
        return ListType(element)
    properties = node.items.properties
    defaults = {
        key: properties[key].default
        for key in node.list_keys
        if key in properties and properties[key].default is not MISSING and properties[key].default is not None
    }
    return ListType(element, atomic=False, keys=node.list_keys, defaults=defaults)


# Common to all objects ----------------------------------------------------------------------------------------------


def _object_meta() -> ValueType:
    text, flag, number = _scalar("string"), _scalar("boolean"), _scalar("numeric")
    texts = ValueType(map=MapType(element=text), exact=True)
    names = ("name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "clusterName")
    reference = MapType(atomic=True, fields=dict.fromkeys(("apiVersion", "kind", "name", "uid"), text))
    reference.fields.update(dict.fromkeys(("controller", "blockOwnerDeletion"), flag))
    references = ListType(ValueType(map=reference, exact=True), atomic=False, keys=("uid",))
    form = MapType(
        {
            **dict.fromkeys(names, text),
            **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), _scalar("untyped")),
            **dict.fromkeys(("generation", "deletionGracePeriodSeconds"), number),
            **dict.fromkeys(("labels", "annotations"), texts),
            "finalizers": ValueType(list=ListType(text, atomic=False), exact=True),
            "ownerReferences": ValueType(list=references, exact=True),
            "managedFields": ValueType(list=ListType(DEDUCED), exact=True),
            "initializers": DEDUCED,
        }
    )
    return ValueType(map=form, exact=True)


OBJECT_META: Final = _object_meta()
"""The type of ObjectMeta. Finalizers are a set, owner references a map by uid, each of them atomic."""
