"""The cells of printer columns: converts values of an object to a table column's type.

Must not know: table documents, who asks. See also: `jsonpath`, which finds the values.
Source: CustomResourceDefinition additionalPrinterColumns; kubectl's age columns.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from oarlock.meta.times import TimeError, human_duration, parse_rfc3339
from oarlock.schema.cel.gate import computed
from oarlock.schema.definition import Column, Schema
from oarlock.schema.jsonpath import PathError, compile_path

NEVER = "0001-01-01T00:00:00Z"
"""What stands for a time that isn't set where a time is shown as it is: Go's zero time."""


def cell(values: list[Any], column_type: str, now: float) -> Any:
    """The cell for the values a path found: the first value in the column's type, or None when it has another type.

    `now` is in seconds since the epoch; a date is shown as the time that has passed since.
    """
    if not values:
        return None
    value = values[0]
    match column_type:
        case "string":
            return _text(value)
        case "integer":
            return int(value) if type(value) in (int, float) and abs(value) < 2**63 else None
        case "number":
            return value if type(value) in (int, float) else None
        case "boolean":
            return value if type(value) is bool else None
        case "date" | "age":
            return _age(value, now) if type(value) is str else None
    return None


def _text(value: Any) -> str:
    if type(value) is str:
        return value
    if value is None:
        return "<nil>"
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is float and value.is_integer() and abs(value) < 2**63:
        return str(int(value))
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _time(values: list[Any]) -> str:
    return values[0] if values and type(values[0]) is str and values[0] else NEVER


def _age(value: str, now: float) -> str:
    if not value:
        return "<unknown>"
    try:
        return human_duration(now - parse_rfc3339(value))
    except TimeError:
        return "<invalid>"


def compile_cell(column: Column, schema: Schema | None = None) -> Callable[[Any, float], Any]:
    """A function ``(tree, now) → cell`` for `column`; a malformed path shows nothing.

    An expression needs the `schema` of the object.
    """
    kind = column.type
    if column.expression:
        compute = computed(column.expression, schema)
        if kind in ("date", "age"):
            return lambda tree, now: _age(compute(tree) or "", now)
        return lambda tree, now: compute(tree)
    try:
        find = compile_path(column.json_path)
    except PathError:
        return lambda tree, now: None
    if kind == "date" and not column.relative:
        return lambda tree, now: _time(find(tree))
    return lambda tree, now: cell(find(tree), kind, now)
