"""Converts FieldsV1 text and trees to sets of fields, and back.

A set already has the shape of FieldsV1 (`fieldsets`), so decoding means validation and canonical elements, and
encoding means sorting. Must not know: managers. See also: `schema`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from oarlock.codec import json
from oarlock.patch.apply.elements import canonical
from oarlock.patch.apply.errors import FieldsError
from oarlock.patch.apply.fieldsets import LEAF, SELF, FieldsV1, insert

__all__ = ["decode", "written"]

_encode = msgspec.json.Encoder().encode
_decode_tree = msgspec.json.Decoder().decode


def decode(tree: Any) -> FieldsV1:
    """The set in a decoded FieldsV1. Raises FieldsError.

    Elements of unknown kinds are dropped, as their meaning isn't known.
    """
    fields = _decode({} if tree is None else tree)
    if SELF in fields:
        fields = {element: node for element, node in fields.items() if element != SELF}
    return fields


def _decode(tree: Any) -> FieldsV1:
    if type(tree) is not dict:
        raise FieldsError(f"expected an object, got {json.encode(tree)[:100].decode(errors='replace')}")
    result: FieldsV1 = {}
    for path_element, below in tree.items():
        if path_element == SELF:
            result[SELF] = LEAF
            continue
        element = path_element if path_element[:2] == "f:" else canonical(path_element)
        if element is None:
            continue
        node = LEAF if below is None or below == {} else _decode(below)
        if element in result:
            insert(result, (element,), node)
        else:
            result[element] = node
    return LEAF if len(result) == 1 and SELF in result else result


def written(fields: FieldsV1) -> FieldsV1:
    """A fast copy of the set for a tree that may be changed. It is sorted when the object is encoded."""
    copy: FieldsV1 = _decode_tree(_encode(fields))
    return copy
