"""The fields of dataclasses and of attrs classes, in one form.

attrs is never imported: a class that it made brings it along. Must not know: hints, schemas.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from typing import Any

from oarlock.meta.dataclass import dataclass

MISSING = dataclasses.MISSING


@dataclass(frozen=True, slots=True)
class RecordField:
    """A field: its attribute, its argument, and how its default is made, `MISSING` for what there is not."""

    name: str
    argument: str
    default: Any
    default_factory: Callable[[], Any] | Any


def is_attrs(cls: Any) -> bool:
    """Whether attrs made this class."""
    return isinstance(cls, type) and "__attrs_attrs__" in vars(cls)


def is_record(cls: Any) -> bool:
    """Whether it is a dataclass or an attrs class."""
    return isinstance(cls, type) and (dataclasses.is_dataclass(cls) or is_attrs(cls))


def record_fields(cls: Any) -> Sequence[RecordField]:
    """The fields that are given when an object is made; the class makes the others itself."""
    if is_attrs(cls):
        return [_of_attrs(attribute) for attribute in cls.__attrs_attrs__ if attribute.init]
    return [
        RecordField(field.name, field.name, field.default, field.default_factory)
        for field in dataclasses.fields(cls)
        if field.init
    ]


def _of_attrs(attribute: Any) -> RecordField:
    attrs: Any = sys.modules["attr"]
    default: Any = attribute.default
    factory: Any = MISSING
    if default is attrs.NOTHING:
        default = MISSING
    elif isinstance(default, attrs.Factory):
        factory = _needs_the_object if default.takes_self else default.factory
        default = MISSING
    return RecordField(attribute.name, attribute.alias, default, factory)


def _needs_the_object() -> Any:
    raise AssertionError("such a default is made by the class itself")
