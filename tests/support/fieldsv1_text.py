"""FieldsV1 as text, as it is in stored objects."""

from __future__ import annotations

from oarlock.codec import json
from oarlock.codec.errors import DecodeError
from oarlock.patch.apply import fieldsets
from oarlock.patch.apply.fieldsets import FieldsV1
from oarlock.patch.errors import FieldsError

__all__ = ["from_json", "to_json"]


def from_json(data: bytes) -> FieldsV1:
    """The set that FieldsV1 bytes describe. Raises FieldsError."""
    try:
        tree = json.decode(data)
    except DecodeError as error:
        raise FieldsError(str(error)) from None
    return fieldsets.decode(tree)


def to_json(fields: FieldsV1) -> bytes:
    """The bytes of the set in an object that is stored."""
    return json.encode_canonical(fieldsets.written(fields))
