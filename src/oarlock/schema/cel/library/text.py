"""Functions on strings, with ``format`` and regular expressions; numbers, times and values as text, as Go writes them.

Positions count code points. What would build more text than `MAX_TEXT` is refused before it is built.
See also: `costs`. Source: Go's strconv and time; cel-go strings extension version 2; Kubernetes' regex and jsonpatch
libraries.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from oarlock.schema.cel.library.costs import Regex, regex_of
from oarlock.schema.cel.problems import EvalError, OverBudget
from oarlock.schema.cel.values import Duration, Timestamp, TypeValue, UInt, from_key, no_overload, type_name
from oarlock.schema.structural.patterns import PatternError

_SUPERSCRIPT = str.maketrans("0123456789-+", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺")


def double_text(value: float) -> str:
    """Go's ``%g`` with the shortest representation."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
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


MAX_TEXT = 10_000_000
"""Characters of a text that a function builds."""

_LOWER = {code: code + 32 for code in range(65, 91)}
_UPPER = {code: code - 32 for code in range(97, 123)}
# what Go's unicode.IsSpace says, which isn't all that Python strips
_SPACE = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"


def _fits(length: int) -> None:
    if length > MAX_TEXT:
        raise OverBudget("operation cancelled: actual cost limit exceeded")


def _checked(text: Any, *parts: Any) -> None:
    if type(text) is not str or any(type(part) is not str for part in parts):
        raise no_overload()


def _whole(*numbers: Any) -> None:
    if any(type(number) is not int for number in numbers):
        raise no_overload()


def _starts_with(text: Any, part: Any) -> bool:
    _checked(text, part)
    return bool(text.startswith(part))


def _ends_with(text: Any, part: Any) -> bool:
    _checked(text, part)
    return bool(text.endswith(part))


def _of_text(make: Callable[[str], str]) -> Callable[[Any], str]:
    def made(text: Any) -> str:
        _checked(text)
        return make(text)

    return made


def _contains(text: Any, part: Any) -> bool:
    _checked(text, part)
    return part in text


def _char_at(text: Any, at: int) -> str:
    _checked(text)
    _whole(at)
    if not 0 <= at <= len(text):
        raise EvalError(f"index out of range: {at}")
    return str(text[at : at + 1])


def _index_of(text: str, part: Any, start: int = 0) -> int:
    _checked(text, part)
    _whole(start)
    if not 0 <= start <= len(text):
        if not part:
            return start
        raise EvalError(f"index out of range: {start}")
    return text.find(part, start)


def _last_index_of(text: str, part: Any, end: int | None = None) -> int:
    _checked(text, part)
    if end is None:
        return text.rfind(part)
    _whole(end)
    if not 0 <= end <= len(text):
        if not part:
            return end
        raise EvalError(f"index out of range: {end}")
    return text.rfind(part, 0, end + len(part))


def _replace(text: Any, old: Any, new: Any, limit: int = -1) -> str:
    _checked(text, old, new)
    _whole(limit)
    count = len(text) + 1 if not old else text.count(old)
    if limit >= 0:
        count = min(count, limit)
    _fits(len(text) + count * max(0, len(new) - len(old)))
    return str(text.replace(old, new, min(limit, count)))


def _split(text: Any, separator: Any, limit: int = -1) -> list[str]:
    _checked(text, separator)
    _whole(limit)
    if limit == 0:
        return []
    if limit == 1:
        return [text]
    if separator:
        return list(text.split(separator, min(limit - 1, len(text)) if limit > 0 else -1))
    if limit < 0 or limit >= len(text):
        return list(text)
    return [*text[: limit - 1], text[limit - 1 :]]


def _substring(text: Any, start: int, end: int | None = None) -> str:
    _checked(text)
    last = len(text) if end is None else end
    _whole(start, last)
    if not 0 <= start <= len(text):
        raise EvalError(f"index out of range: {start}")
    if not 0 <= last <= len(text):
        raise EvalError(f"index out of range: {last}")
    if start > last:
        raise EvalError(f"invalid substring range. start: {start}, end: {last}")
    return str(text[start:last])


def _join(items: Any, separator: Any = "") -> str:
    if not isinstance(items, list) or type(separator) is not str:
        raise no_overload()
    for item in items:
        if type(item) is not str:
            raise no_overload()
    _fits(sum(map(len, items)) + len(separator) * len(items))
    return str(separator.join(items))


_QUOTED = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}


def _quote(text: Any) -> str:
    _checked(text)
    return '"' + "".join([_QUOTED.get(char, char) for char in text]) + '"'


def _pattern(pattern: Any) -> Regex:
    if type(pattern) is Regex:
        return pattern
    _checked(pattern)
    try:
        return regex_of(pattern)
    except PatternError as error:
        raise EvalError(str(error)) from error


def _matches(text: Any, pattern: Any) -> bool:
    _checked(text)
    return _pattern(pattern).matches(text)


def _find(text: Any, pattern: Any) -> str:
    _checked(text)
    return _pattern(pattern).find(text)


def _find_all(text: Any, pattern: Any, limit: int = -1) -> list[str]:
    _checked(text)
    _whole(limit)
    return _pattern(pattern).find_all(text, limit)


# format -------------------------------------------------------------------------------------------

_clause = re.compile(r"%(?:%|(?:\.(\d+))?([a-zA-Z]))?", re.ASCII)
_MAX_PRECISION = 100


def _format(template: Any, values: Any) -> str:
    _checked(template)
    if not isinstance(values, list):
        raise no_overload()
    parts: list[str] = []
    used = end = length = 0
    for match in _clause.finditer(template):
        parts.append(template[end : match.start()])
        end = match.end()
        if match[0] == "%%":
            parts.append("%")
            continue
        if match[2] is None:
            raise EvalError("could not parse formatting clause: unexpected end of string")
        if used >= len(values):
            raise EvalError(f"index {used} out of range")
        parts.append(_formatted(match[2], match[1], values[used]))
        length += len(parts[-1])
        _fits(length)
        used += 1
    parts.append(template[end:])
    return "".join(parts)


def _formatted(clause: str, precision: str | None, value: Any) -> str:
    form = _CLAUSES.get(clause)
    if form is None:
        raise EvalError(f'could not parse formatting clause: unrecognized formatting clause "{clause}"')
    digits = 6 if precision is None else int(precision[:6])
    if digits > _MAX_PRECISION:
        raise EvalError(f"error during formatting: precision {digits} is more than {_MAX_PRECISION}")
    return form(value, digits)


def _wrong(what: str, value: Any) -> EvalError:
    return EvalError(f"error during formatting: {what}, was given {type_name(value)}")


def _special(value: float) -> str | None:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "∞" if value > 0 else "-∞"
    return None


def _fixed(value: Any, digits: int) -> str:
    if type(value) is not float:
        raise _wrong("fixed-point clause can only be used on doubles", value)
    return _special(value) or f"{value:,.{digits}f}"


def _scientific(value: Any, digits: int) -> str:
    if type(value) is not float:
        raise _wrong("scientific clause can only be used on doubles", value)
    special = _special(value)
    if special is not None:
        return special
    mantissa, _, power = f"{value:.{digits}e}".partition("e")
    return f"{mantissa}×10{superscript(power.removeprefix('+'))}"


def _number(value: Any, _digits: int) -> str:
    if type(value) in (int, UInt):
        return str(int(value))
    if type(value) is float and (special := _special(value)) is not None:
        return special
    raise _wrong("decimal clause can only be used on integers", value)


def _binary(value: Any, _digits: int) -> str:
    if type(value) in (int, UInt, bool):
        return f"{int(value):b}"
    raise _wrong("only integers and bools can be formatted as binary", value)


def _octal(value: Any, _digits: int) -> str:
    if type(value) in (int, UInt):
        return f"{int(value):o}"
    raise _wrong("octal clause can only be used on integers", value)


def _hex(value: Any, _digits: int) -> str:
    if type(value) in (int, UInt):
        return f"{int(value):x}"
    if type(value) is str:
        return str(value.encode("utf-8", "surrogatepass").hex())
    if type(value) is bytes:
        return str(value.hex())
    raise _wrong("only integers, byte buffers, and strings can be formatted as hex", value)


_CLAUSES: dict[str, Callable[[Any, int], str]] = {
    "s": lambda value, _digits: plain(value),
    "d": _number,
    "f": _fixed,
    "e": _scientific,
    "b": _binary,
    "o": _octal,
    "x": _hex,
    "X": lambda value, digits: _hex(value, digits).upper(),
}

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "contains": _contains,
    "startsWith": _starts_with,
    "endsWith": _ends_with,
    "charAt": _char_at,
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "lowerAscii": _of_text(lambda text: text.translate(_LOWER)),
    "upperAscii": _of_text(lambda text: text.translate(_UPPER)),
    "trim": _of_text(lambda text: text.strip(_SPACE)),
    "replace": _replace,
    "split": _split,
    "substring": _substring,
    "join": _join,
    "strings.quote": _quote,
    "format": _format,
    "matches": _matches,
    "find": _find,
    "findAll": _find_all,
    "jsonpatch.escapeKey": _of_text(lambda text: text.replace("~", "~0").replace("/", "~1")),
}
