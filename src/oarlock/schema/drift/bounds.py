"""Compares the constraints on single values: bounds, lengths, patterns, formats, choices.

Each function yields what is narrower in the newer schema, as a text; nothing if every value still fits.
See also: `compare`. Source: OpenAPI v3.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from oarlock.meta.go.gotext import show
from oarlock.schema.definition import Schema
from oarlock.schema.structural import formats
from oarlock.schema.structural.nodes import parse
from oarlock.schema.validation.findings import ValidationFindings
from oarlock.schema.validation.typing_errors import compile_fits
from oarlock.schema.validation.values import compile_check

SHOWN = 5
"""How many choices are named."""

_FLOAT32 = 3.4028235677973366e38
_SCALARS = (str, int, float, bool, type(None))


def choices_of(schema: Schema) -> list[Any] | None:
    """The values that a schema of an enumeration of scalars takes; None for another schema."""
    choices = schema.get("enum")
    if choices is None or not all(type(choice) in _SCALARS for choice in choices):
        return None
    return list(choices)


def lost_choices(choices: list[Any], old: Schema, new: Schema) -> Iterator[str]:
    """The choices of an enumeration that fit the old schema and not the new one: found by trying each."""
    lost = [choice for choice in choices if _takes(old, choice) and not _takes(new, choice)]
    if lost:
        more = f" and {len(lost) - SHOWN} more" if len(lost) > SHOWN else ""
        yield f"no longer takes {', '.join(show(value) for value in lost[:SHOWN])}{more}"


def _takes(schema: Schema, value: Any) -> bool:
    node = parse(schema)
    check, fits, findings = compile_check(node), compile_fits(node), ValidationFindings()
    if check is not None:
        check(value, None, findings)
    return not findings.errors and (fits is None or fits(value))


def narrower_texts(old: Schema, new: Schema) -> Iterator[str]:
    yield from _limits(old, new, ("minLength", "maxLength"))
    yield from _other(old, new, "pattern")
    name = new.get("format", "")
    if name and name != old.get("format") and (name == "byte" or formats.checker(name) is not None):
        yield _changed(old, new, "format")


def narrower_counts(old: Schema, new: Schema, low: str, high: str) -> Iterator[str]:
    """Bounds of the number of items, or of fields."""
    yield from _limits(old, new, (low, high))


def narrower_numbers(old: Schema, new: Schema) -> Iterator[str]:
    least, most = _of_type(old, tight=False)
    low = max((least, False), (old.get("minimum", -math.inf), bool(old.get("exclusiveMinimum"))))
    high = min((most, True), (old.get("maximum", math.inf), not old.get("exclusiveMaximum")))
    if "minimum" in new and low < (new["minimum"], bool(new.get("exclusiveMinimum"))):
        yield _changed(old, new, "minimum", exclusive=bool(new.get("exclusiveMinimum")))
    if "maximum" in new and high > (new["maximum"], not new.get("exclusiveMaximum")):
        yield _changed(old, new, "maximum", exclusive=bool(new.get("exclusiveMaximum")))
    least, most = _of_type(new, tight=True)
    if low[0] < least or high[0] > most:
        yield f"is {_kind(new)} (was {_kind(old)}), which takes fewer numbers"
    if "multipleOf" in new and new["multipleOf"] != old.get("multipleOf") and not _divides(new, old):
        yield _changed(old, new, "multipleOf")


def _of_type(schema: Schema, *, tight: bool) -> tuple[float, float]:
    """The least and the greatest number of the type. An int-or-string of a class has 32 bits, else 64."""
    if schema.get("x-kubernetes-int-or-string"):
        return (-(2**31), 2**31 - 1) if tight else (-(2**63), 2**63 - 1)
    if schema.get("type") == "integer":
        return (-(2**31), 2**31 - 1) if schema.get("format") == "int32" else (-(2**63), 2**63 - 1)
    if schema.get("format") in ("float", "float32"):
        return -_FLOAT32, _FLOAT32
    return -math.inf, math.inf


def _divides(new: Schema, old: Schema) -> bool:
    before, after = old.get("multipleOf"), new["multipleOf"]
    return type(before) is int and type(after) is int and after != 0 and before % after == 0


def _kind(schema: Schema) -> str:
    name = "int-or-string" if schema.get("x-kubernetes-int-or-string") else schema.get("type", "any type")
    return f"{name} ({schema['format']})" if schema.get("format") else name


def _limits(old: Schema, new: Schema, names: tuple[str, str]) -> Iterator[str]:
    low, high = names
    if new.get(low, 0) > old.get(low, 0):
        yield _changed(old, new, low)
    if new.get(high, math.inf) < old.get(high, math.inf):
        yield _changed(old, new, high)


def _other(old: Schema, new: Schema, key: str) -> Iterator[str]:
    if new.get(key) and new[key] != old.get(key):
        yield _changed(old, new, key)


def _changed(old: Schema, new: Schema, key: str, *, exclusive: bool = False) -> str:
    before = show(old[key]) if key in old else "none"
    return f"{key} is {show(new[key])}{', exclusive' if exclusive else ''} (was {before})"
