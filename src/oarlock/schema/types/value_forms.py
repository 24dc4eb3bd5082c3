"""Reads and writes values of Python's standard types as JSON: one `ValueForm` for each kind of hint.

Does what msgspec can't do in one step: it finds every error, with its path, and each form has its
schema. Must not know: dataclasses. See also: `foreign_dataclass`, which parses hints and combines forms.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import enum
import pathlib
import uuid
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeAlias, Union

import msgspec

from oarlock.meta.dataclass import dataclass
from oarlock.meta.fielderrors import FieldError, Invalid, NotSupported, Undecodable, WrongType
from oarlock.meta.go import gobase64
from oarlock.meta.json_trees import copy_json
from oarlock.schema.foreign.trees import in_order
from oarlock.schema.types.markers import JSON, IntOrString, ListSet, MaxItems, MinItems
from oarlock.schema.types.views import ViewError, builtins_of, view
from oarlock.schema.validation.findings import MapKey, Where, render

Errors: TypeAlias = list[FieldError]
Read: TypeAlias = Callable[[Any, Where, Errors], Any]
Write: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class ValueForm:
    """`hint` is for the schema. `read` appends errors to a list; if there are any, its result is undefined.

    `null`: None is a valid value.
    """

    hint: Any
    read: Read
    write: Write
    null: bool = False


def _wrong(where: Where, errors: Errors, expected: str, value: Any) -> None:
    kind = type(value)
    # a text at the place of anything but a time and its like may be a secret
    shown = expected.startswith(_NUMBERS) if kind in (int, float) else expected.startswith(_SPELLED) and kind is str
    errors.append(WrongType(render(where), expected, value, shown=shown))


_NUMBERS = ("an integer", "a number")
_SPELLED = ("a time", "a date", "a duration", "a UUID", "a decimal")


def _same(value: Any) -> Any:
    return value


def _read_anything(value: Any, where: Where, errors: Errors) -> Any:
    return copy_json(value)


def _write_anything(value: Any) -> Any:
    return msgspec.to_builtins(value, enc_hook=str)


ANYTHING = ValueForm(JSON, _read_anything, _write_anything, null=True)


def _read_int_or_string(value: Any, where: Where, errors: Errors) -> Any:
    if type(value) not in (int, str):
        _wrong(where, errors, "an integer or a string", value)
    return value


INT_OR_STRING = ValueForm(IntOrString, _read_int_or_string, _same)


def _moment(value: dt.datetime) -> str:
    """A time without a zone is taken as UTC, as everywhere on the wire."""
    moment = value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value
    text = moment.isoformat()
    return f"{text[:-6]}Z" if text.endswith("+00:00") else text


def _number(value: float) -> float | int:
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _bytes(value: bytes) -> str:
    return base64.b64encode(value).decode()


_LEAVES: dict[Any, tuple[Any, str, Write]] = {
    # what stands in the schema, what is expected, how it is written
    bool: (bool, "true or false", _same),
    int: (int, "an integer", _same),
    float: (float, "a number", _number),
    str: (str, "a string", _same),
    bytes: (bytes, "base64", _bytes),
    dt.datetime: (dt.datetime, 'a time such as "2006-01-02T15:04:05Z"', _moment),
    dt.date: (dt.date, 'a date such as "2006-01-02"', dt.date.isoformat),
    dt.time: (dt.time, 'a time such as "15:04:05"', dt.time.isoformat),
    dt.timedelta: (dt.timedelta, 'a duration such as "PT1H30M"', msgspec.to_builtins),
    uuid.UUID: (uuid.UUID, "a UUID", str),
    decimal.Decimal: (decimal.Decimal, 'a decimal number such as "1.50"', str),
}


def leaf_form(kind: Any) -> ValueForm | None:
    """The form of a scalar type; None for other types."""
    if kind in _LEAVES:
        hint, expected, write = _LEAVES[kind]
        return ValueForm(hint, _reader(kind, expected), write)
    if isinstance(kind, type) and issubclass(kind, pathlib.PurePath):
        return ValueForm(str, _converted(str, "a string", kind), str)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return choice_form(kind, [member.value for member in kind], lambda member: member.value)
    return None


def _reader(kind: Any, expected: str) -> Read:
    def read(value: Any, where: Where, errors: Errors) -> Any:
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError:
            if kind is bytes and type(value) is str:
                errors.append(Undecodable(render(where), gobase64.complaint(value), value))
                return None
            return _wrong(where, errors, expected, value)

    return read


def _converted(kind: Any, expected: str, make: Callable[[Any], Any]) -> Read:
    read = _reader(kind, expected)

    def read_and_make(value: Any, where: Where, errors: Errors) -> Any:
        before = len(errors)
        converted = read(value, where, errors)
        return make(converted) if len(errors) == before else None

    return read_and_make


def choice_form(hint: Any, values: Sequence[Any], write: Write = _same) -> ValueForm:
    """The form of an enumeration of values."""

    def read(value: Any, where: Where, errors: Errors) -> Any:
        try:
            return msgspec.convert(value, hint)
        except msgspec.ValidationError:
            errors.append(NotSupported(render(where), value, [str(allowed) for allowed in values]))

    return ValueForm(hint, read, write)


def optional_form(inner: ValueForm) -> ValueForm:
    """The value, or null."""

    def read(value: Any, where: Where, errors: Errors) -> Any:
        return None if value is None else inner.read(value, where, errors)

    def write(value: Any) -> Any:
        return None if value is None else inner.write(value)

    return ValueForm(Union[inner.hint, None], read, write, null=True)  # noqa: UP007  (made at run time)


def _items(value: Any, where: Where, errors: Errors, read: Read) -> list[Any]:
    if type(value) is not list:
        _wrong(where, errors, "an array", value)
        return []
    return [read(item, (where, i), errors) for i, item in enumerate(value)]


def list_form(inner: ValueForm, hint: Any = None, make: Callable[[Any], Any] = list) -> ValueForm:
    """An array of any length, as a list or what `make` makes of one."""

    def read(value: Any, where: Where, errors: Errors) -> Any:
        return make(_items(value, where, errors, inner.read))

    def write(value: Any) -> Any:
        return [inner.write(item) for item in value]

    return ValueForm(list[inner.hint] if hint is None else hint, read, write)  # type: ignore[name-defined]


def set_form(inner: ValueForm, make: Callable[[Any], Any]) -> ValueForm:
    """A set of scalars, written in sorted order."""
    listed = list_form(inner, Annotated[list[inner.hint], ListSet], list)  # type: ignore[name-defined]

    def read(value: Any, where: Where, errors: Errors) -> Any:
        before = len(errors)
        items = listed.read(value, where, errors)
        return make(items) if len(errors) == before else None

    def write(value: Any) -> Any:
        return sorted(listed.write(value), key=in_order)

    return ValueForm(listed.hint, read, write)


def tuple_form(each: Sequence[ValueForm]) -> ValueForm:
    """An array of fixed length, with a type for each item."""
    count = len(each)
    item_type = each[0].hint if all(form.hint == each[0].hint for form in each) else JSON
    hint: Any = Annotated[list[item_type], MinItems(count), MaxItems(count)]  # type: ignore[valid-type]

    def read(value: Any, where: Where, errors: Errors) -> Any:
        if type(value) is not list:
            return _wrong(where, errors, "an array", value)
        if len(value) != count:
            errors.append(Invalid(render(where), "array", f"must have {count} items"))
            return None
        return tuple(
            form.read(item, (where, i), errors) for i, (form, item) in enumerate(zip(each, value, strict=True))
        )

    def write(value: Any) -> Any:
        return [form.write(item) for form, item in zip(each, value, strict=True)]

    return ValueForm(hint, read, write)


def dict_form(inner: ValueForm) -> ValueForm:
    """An object with any keys."""

    def read(value: Any, where: Where, errors: Errors) -> Any:
        if type(value) is not dict:
            return _wrong(where, errors, "an object", value)
        return {key: inner.read(item, (where, MapKey(key)), errors) for key, item in value.items()}

    def write(value: Any) -> Any:
        return {key: inner.write(item) for key, item in value.items()}

    return ValueForm(dict[str, inner.hint], read, write)  # type: ignore[name-defined]


def struct_form(cls: Any) -> ValueForm:
    """A Model of ours, such as `ObjectMeta`."""

    def read(value: Any, where: Where, errors: Errors) -> Any:
        try:
            return view(value, cls)
        except ViewError as error:
            head = render(where)
            for mistake in error.errors:
                errors.append(
                    Invalid(f"{head}.{mistake.path}" if mistake.path else head, mistake.value, mistake.detail)
                )

    return ValueForm(cls, read, builtins_of)
