"""Field errors: what is wrong with one field of an object, with Kubernetes' wording and types.

A `FieldError` has the path of a field (``spec.containers[0].name``, ``metadata.labels[a/b]``), the type of the error
and the value. Validation yields them; `errors.InvalidObject` collects them into one 422 response. Knows no HTTP.
Source: the API conventions on field errors (k8s.io/apimachinery ``field.Error``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from oarlock.meta.go.gotext import quote, show

__all__ = [
    "Duplicate",
    "FieldError",
    "Forbidden",
    "Invalid",
    "NotFoundValue",
    "NotSupported",
    "Required",
    "TooFew",
    "TooLong",
    "TooMany",
    "TooShort",
    "TypeInvalid",
    "Undecodable",
    "WrongType",
]


class FieldError(Exception):
    """An error in one field. Use the subclasses; `body` is the message without the path: `head`, value and detail.

    Yield it to report several errors, or raise it to report only this one.
    """

    __slots__ = ("detail", "path", "value")
    reason: str = "FieldValueInvalid"
    head: str
    shows_value = True

    def __init__(self, path: str, value: Any = None, detail: str = "") -> None:
        super().__init__(path)
        self.path = path
        self.value = value
        self.detail = detail

    @property
    def body(self) -> str:
        head = f"{self.head}: {show(self.value)}" if self.shows_value else self.head
        return f"{head}: {self.detail}" if self.detail else head

    @property
    def message(self) -> str:
        return f"{self.path}: {self.body}"

    def cause(self) -> dict[str, str]:
        """The entry of ``details.causes`` for this error."""
        return {"reason": self.reason, "message": self.body, "field": self.path}

    def __str__(self) -> str:
        return self.message

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.message!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _bare, (type(self),), {"path": self.path, "value": self.value, "detail": self.detail}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FieldError) and (self.reason, self.message) == (other.reason, other.message)

    def __hash__(self) -> int:
        return hash((self.reason, self.message))


def _bare(kind: type[FieldError]) -> FieldError:
    """An empty instance for unpickling, because the constructors of the subclasses differ."""
    return kind.__new__(kind)


class Invalid(FieldError):
    """The value is not allowed: ``spec.a: Invalid value: "x": must be …``."""

    __slots__ = ()
    head = "Invalid value"


class TypeInvalid(Invalid):
    """The JSON type of the value is not the one in the schema."""

    __slots__ = ()
    reason = "FieldValueTypeInvalid"


class WrongType(TypeInvalid):
    """The value can't be decoded: ``spec.a: expected an integer, got a string``.

    `expected` names the JSON type in words. Of the value only the type is shown, as it may be a password at the wrong
    place, but a value of a number's or a time's field is `shown`, cut after 64 characters. `restoring` is what Go says
    when it copies such a value from one type into another; empty if that isn't known.
    """

    __slots__ = ("restoring",)

    def __init__(self, path: str, expected: str, value: Any, *, shown: bool = False, restoring: str = "") -> None:
        super().__init__(path, value, f"expected {expected}, got {_in_json(value, shown)}")
        self.restoring = restoring

    def __reduce__(self) -> tuple[Any, ...]:
        make, arguments, state = super().__reduce__()
        return make, arguments, {**state, "restoring": self.restoring}

    @property
    def body(self) -> str:
        return self.detail


class Undecodable(TypeInvalid):
    """The value has the right JSON type, but what it stands for can't be read: base64, quantities.

    `why` is the whole message of Go's decoder, which names neither the field nor the value.
    """

    __slots__ = ()

    def __init__(self, path: str, why: str, value: Any) -> None:
        super().__init__(path, value, why)

    @property
    def body(self) -> str:
        return self.detail


_SHOWN_CHARS = 64


def _in_json(value: Any, shown: bool) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    if isinstance(value, bool) or value is None:
        return show(value)
    if isinstance(value, str):
        return quote(_cut(value)) if shown else "a string"
    return _cut(show(value)) if shown else "a number"


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…"


class Required(FieldError):
    """A required value is missing."""

    __slots__ = ()
    reason = "FieldValueRequired"
    head = "Required value"
    shows_value = False

    def __init__(self, path: str, detail: str = "") -> None:
        super().__init__(path, "", detail)


class Forbidden(FieldError):
    """The field may not be set, or may not have this value."""

    __slots__ = ()
    reason = "FieldValueForbidden"
    head = "Forbidden"
    shows_value = False

    def __init__(self, path: str, detail: str = "") -> None:
        super().__init__(path, "", detail)


class Duplicate(FieldError):
    """The value must be unique in its list."""

    __slots__ = ()
    reason = "FieldValueDuplicate"
    head = "Duplicate value"


class NotFoundValue(FieldError):
    """The value refers to something that doesn't exist."""

    __slots__ = ()
    reason = "FieldValueNotFound"
    head = "Not found"


class NotSupported(FieldError):
    """The value isn't one of the supported values."""

    __slots__ = ()
    reason = "FieldValueNotSupported"
    head = "Unsupported value"

    def __init__(self, path: str, value: Any, supported: Iterable[str] = ()) -> None:
        names = ", ".join(quote(name) if isinstance(name, str) else show(name) for name in supported)
        super().__init__(path, value, f"supported values: {names}" if names else "")


class TooLong(FieldError):
    """The value is longer than `limit`, counted in `unit`."""

    __slots__ = ()
    reason = "FieldValueTooLong"
    head = "Too long"
    shows_value = False

    def __init__(self, path: str, limit: int, unit: str = "bytes") -> None:
        super().__init__(path, "", f"may not be more than {limit} {unit}")


class TooShort(FieldError):
    """The value is shorter than the minimum."""

    __slots__ = ()
    reason = "FieldValueTooShort"
    head = "Too short"
    shows_value = False


class TooMany(FieldError):
    """The list or map has more entries than `limit`."""

    __slots__ = ()
    reason = "FieldValueTooMany"
    head = "Too many"

    def __init__(self, path: str, actual: int, limit: int) -> None:
        super().__init__(path, actual, f"must have at most {limit} item{'' if limit == 1 else 's'}")


class TooFew(FieldError):
    """The list or map has fewer entries than the minimum."""

    __slots__ = ()
    reason = "FieldValueTooFew"
    head = "Too few"
    shows_value = False
