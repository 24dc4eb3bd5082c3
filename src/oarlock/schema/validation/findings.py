"""The violations that validation has found: field errors with their places, up to a limit.

The texts are those of Kubernetes, including ``<nil>`` where an error names no field. Runs only when something is
invalid, so it isn't on the fast path. See also: `validation`, `listtypes` and `embedded`, which use it.
Source: kube-openapi's validation errors, and their conversion to field errors in apiextensions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import Struct

from oarlock.meta.fielderrors import FieldError, Invalid, NotSupported, Required, TooLong, TooMany, TypeInvalid
from oarlock.meta.go.gotext import quote, show


class MapKey(str):
    """A key of a map, rendered ``[key]``."""

    __slots__ = ()


PathStep: TypeAlias = str | int
Where: TypeAlias = "tuple[Where, PathStep] | None"


def steps(where: Where) -> list[PathStep]:
    """The steps from the root."""
    path: list[PathStep] = []
    while where is not None:
        where, step = where
        path.append(step)
    path.reverse()
    return path


_LONGEST = 1024
"""Characters of a path that are shown: a client names its keys, and may be told of a thousand errors below one."""


def render(where: Where) -> str:
    """``spec.containers[0].labels[app]``; empty for the root. A path of more than 1,024 characters is cut."""
    text = ""
    for step in steps(where):
        step_text = step if type(step) is int else str(step)[: _LONGEST + 1]
        if type(step) is str:
            text += f".{step_text}" if text else str(step_text)
        else:
            text += f"[{step_text}]"
        if len(text) > _LONGEST:
            return text[:_LONGEST] + "..."
    return text


MAX_ERRORS = 1000
"""A body of many small mistakes is answered after so many; each costs more to word than to make."""


class Enough(Exception):
    """Raised after `MAX_ERRORS` findings to end the validation."""


def json_type(value: Any) -> str:
    """The JSON type of a value in messages; an integer beyond 64 bits is a number."""
    if type(value) is int:
        return "integer" if -(2**63) <= value < 2**63 else "number"
    return _JSON_TYPES[type(value)]


_JSON_TYPES = {str: "string", bool: "boolean", float: "number", dict: "object", list: "array", type(None): "null"}


class ValidationFindings(Struct, eq=False):
    """Errors with their places, in the order in which they were found."""

    errors: list[FieldError] = []
    places: list[Where] = []

    def __bool__(self) -> bool:
        return bool(self.errors)

    def add(self, where: Where, error: FieldError) -> None:
        self.errors.append(error)
        self.places.append(where)
        if len(self.errors) >= MAX_ERRORS:
            raise Enough

    def extend(self, other: ValidationFindings) -> None:
        for where, error in zip(other.places, other.errors, strict=True):
            if error not in self.errors[-50:]:
                self.add(where, error)

    def wrong_type(self, where: Where, expected: str, actual: str) -> None:
        path = render(where)
        self.add(
            where, TypeInvalid(_shown(path), actual, f"{path} in body must be of type {expected}: {quote(actual)}")
        )

    def wrong_format(self, where: Where, name: str, value: str) -> None:
        path = render(where)
        self.add(where, TypeInvalid(_shown(path), value, f"{path} in body must be of type {name}: {quote(value)}"))

    def invalid(self, where: Where, value: Any, rule: str) -> None:
        """``path: Invalid value: …: path in body <rule>``."""
        path = render(where)
        self.add(where, Invalid(_shown(path), value, f"{path} in body {rule}"))

    def composite(self, where: Where, text: str) -> None:
        """An error that names no field; `text` has a ``{}`` for the path."""
        self.add(where, Invalid("<nil>", "", text.format(quote(render(where)))))

    def out_of_range(self, where: Where, of_type: str) -> None:
        self.add(where, Invalid("<nil>", "", f"Checked value must be of type {of_type} in {render(where)}"))

    def unsupported(self, where: Where, value: Any, supported: list[Any]) -> None:
        names = [item if isinstance(item, str) else show(item) for item in supported]
        self.add(where, NotSupported(_shown(render(where)), value, names))

    def forbidden_property(self, where: Where, key: str) -> None:
        path = render(where)
        self.add((where, key), Invalid(_shown(path), key, f"{path}.{key} in body is a forbidden property"))

    def required(self, where: Where) -> None:
        self.add(where, Required(render(where)))

    def too_long(self, where: Where, limit: int) -> None:
        self.add(where, TooLong(_shown(render(where)), limit))

    def too_many(self, where: Where, actual: int, limit: int) -> None:
        self.add(where, TooMany(_shown(render(where)), actual, limit))


def _shown(path: str) -> str:
    return path or "<nil>"


Check: TypeAlias = Callable[[Any, Where, ValidationFindings], None]
"""Adds to the findings what is wrong with a value at a place."""
