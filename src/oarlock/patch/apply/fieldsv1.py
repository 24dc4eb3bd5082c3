"""FieldsV1 text and trees to sets of fields, and back.

A set already has the shape of FieldsV1 (`fieldsets`), so decoding is checking and making elements canonical, and
encoding is sorting. Must not know: managers. Next: `schema`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from oarlock.codec import json
from oarlock.codec.errors import DecodeError
from oarlock.patch.apply.elements import canonical
from oarlock.patch.apply.errors import FieldsError
from oarlock.patch.apply.fieldsets import LEAF, SELF, Fields, insert, ordered

__all__ = ["decode", "from_json", "in_order", "to_json", "written"]

_encode = msgspec.json.Encoder().encode
_decode_tree = msgspec.json.Decoder().decode


def from_json(data: bytes) -> Fields:
    """The set that FieldsV1 bytes describe; ``null`` is the empty one. Raises FieldsError."""
    try:
        tree = json.decode(data)
    except DecodeError as error:
        raise FieldsError(str(error)) from None
    return decode(tree)


def decode(tree: Any) -> Fields:
    """The set that a decoded FieldsV1 describes. Raises FieldsError.

    Elements of unknown kinds are dropped: a later release may know them, this one couldn't keep their meaning.
    """
    fields = _decode({} if tree is None else tree)
    if SELF in fields:
        fields = {element: node for element, node in fields.items() if element != SELF}
    return fields


def _decode(tree: Any) -> Fields:
    if type(tree) is not dict:
        raise FieldsError(f"expected an object, got {json.encode(tree)[:100].decode(errors='replace')}")
    result: Fields = {}
    for given, below in tree.items():
        if given == SELF:
            result[SELF] = LEAF
            continue
        element = given if given[:2] == "f:" else canonical(given)
        if element is None:
            continue
        node = LEAF if below is None or below == {} else _decode(below)
        if element in result:
            insert(result, (element,), node)
        else:
            result[element] = node
    return LEAF if len(result) == 1 and SELF in result else result


def in_order(fields: Fields) -> Fields:
    """The same set with every level in the order in which FieldsV1 is written."""
    result: Fields = {SELF: LEAF} if SELF in fields else {}
    for element in ordered(fields):
        node = fields[element]
        result[element] = in_order(node) if node else {}
    return result


def written(fields: Fields) -> Fields:
    """A copy of the set for a tree that anybody may change, made fast. It is in order once the object is encoded."""
    copy: Fields = _decode_tree(_encode(fields))
    return copy


def to_json(fields: Fields) -> bytes:
    """FieldsV1 bytes: compact, in order."""
    return json.encode(in_order(fields))
