"""Numbers, times and values as text, the way Go writes them.

See also: `library.text`, whose ``format`` writes all of them. Source: Go's strconv and time;
cel-go's string formatting.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from oarlock.schema.cel.problems import EvalError
from oarlock.schema.cel.values import Duration, Timestamp, TypeValue, from_key, type_name

_SUPERSCRIPT = str.maketrans("0123456789-+", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺")


def _special(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "+Inf" if value > 0 else "-Inf"


def double_text(value: float) -> str:
    """Go's ``%g`` with the shortest representation."""
    if not math.isfinite(value):
        return _special(value)
    if not value:
        return "-0" if math.copysign(1, value) < 0 else "0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    point = len(text) + exponent
    head = "-" if sign else ""
    if not -4 <= point - 1 < 6:
        fraction = f".{text[1:]}" if len(text) > 1 else ""
        power = point - 1
        return f"{head}{text[0]}{fraction}e{'-' if power < 0 else '+'}{abs(power):02d}"
    if point <= 0:
        return f"{head}0.{'0' * -point}{text}"
    if point >= len(text):
        return head + text + "0" * (point - len(text))
    return f"{head}{text[:point]}.{text[point:]}"


def duration_text(value: Duration) -> str:
    """Seconds, with as many decimals as there are."""
    whole, rest = divmod(abs(value.ns), 10**9)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{'-' if value.ns < 0 else ''}{whole}{fraction}s"


def timestamp_text(value: Timestamp) -> str:
    """RFC 3339 with as many decimals as needed, in its original zone."""
    seconds, rest = divmod(value.ns, 10**9)
    zone = timezone(timedelta(minutes=value.offset)) if value.offset else UTC
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    text = moment.astimezone(zone).isoformat()
    head, tail = text[:19], text[19:].replace("+00:00", "Z")
    return head + (f".{rest:09d}".rstrip("0") if rest else "") + tail


def superscript(text: str) -> str:
    return text.translate(_SUPERSCRIPT)


def plain(value: Any) -> str:
    """A value as ``%s`` shows it."""
    kind = type(value)
    if kind is str:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, int):
        return str(int(value))
    if kind is float:
        return double_text(value)
    if kind is bytes:
        return str(value.decode("utf-8", "replace"))
    if kind is Timestamp:
        return timestamp_text(value)
    if kind is Duration:
        return duration_text(value)
    if kind is TypeValue:
        return str(value.name)
    if isinstance(value, list):
        return f"[{', '.join(map(plain, value))}]"
    if isinstance(value, dict):
        entries = sorted((plain(from_key(key)), plain(item)) for key, item in value.items())
        return "{" + ", ".join(f"{key}: {item}" for key, item in entries) + "}"
    raise EvalError(
        f"error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, "
        f"maps, lists, types, durations, and timestamps, was given {type_name(value)}"
    )
