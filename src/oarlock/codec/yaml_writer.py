"""Writes YAML by the event stream of libyaml. See also: `yaml`, which calls it.

Numbers in keys are ordered by value, letters after everything else: ``a2`` before ``a10``, ``a-b`` before ``ab``.
Source: go-yaml v2's sorter, as in ``kubectl -o yaml``.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Iterable, Iterator
from typing import Any

import yaml

from oarlock.codec import json
from oarlock.codec.yaml_reader import reads_as_string


def ordered(keys: Iterable[str]) -> list[str]:
    """The keys in output order."""
    result = sorted(keys)
    # Most keys have letters only, for which plain sorting is enough.
    if all(key.isalpha() for key in result):
        return result
    return sorted(result, key=functools.cmp_to_key(_compare))


def _compare(a: str, b: str) -> int:
    digits = False
    for i, (x, y) in enumerate(zip(a, b, strict=False)):
        if x == y:
            digits = x.isdigit()
            continue
        if x.isalpha() and y.isalpha():
            return -1 if x < y else 1
        if x.isalpha() or y.isalpha():
            # After a number the letter comes first: "a1b" before "a12".
            return -1 if x.isalpha() is digits else 1
        return _compare_numbers(a, b, i)
    return len(a) - len(b)


def _compare_numbers(a: str, b: str, i: int) -> int:
    x, y = a[i], b[i]
    after_number = "0" in (x, y) and _significant_before(a, i)
    first, first_digits = _number_in(a, i, after_number)
    second, second_digits = _number_in(b, i, after_number)
    if first != second:
        return -1 if first < second else 1
    if first_digits != second_digits:
        return first_digits - second_digits
    return -1 if x < y else 1


def _significant_before(text: str, i: int) -> bool:
    while i > 0 and text[i - 1].isdigit():
        i -= 1
        if text[i] != "0":
            return True
    return False


def _number_in(text: str, start: int, after_number: bool) -> tuple[int, int]:
    """The value of the digits from `start` on, and how many there are."""
    end = start
    while end < len(text) and text[end].isdecimal() and text[end].isascii() and end - start < 300:
        end += 1
    return int(("1" if after_number else "0") + text[start:end]), end - start


_PLAIN, _LITERAL, _DOUBLE = "", "|", '"'
_BOTH = (True, True)


def encode(tree: Any) -> bytes:
    """The tree in block style, its keys in the order of `ordered`."""
    output = io.BytesIO()
    emitter = yaml.CSafeDumper(output, allow_unicode=True, encoding="utf-8")
    emitter.emit(yaml.StreamStartEvent(encoding="utf-8"))
    emitter.emit(yaml.DocumentStartEvent(explicit=False))
    for event in _events(tree):
        emitter.emit(event)
    emitter.emit(yaml.DocumentEndEvent(explicit=False))
    emitter.emit(yaml.StreamEndEvent())
    return output.getvalue()


def _events(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield yaml.MappingStartEvent(None, None, True, flow_style=False)
        for key in ordered(value):
            yield _text(key)
            yield from _events(value[key])
        yield yaml.MappingEndEvent()
    elif isinstance(value, list):
        yield yaml.SequenceStartEvent(None, None, True, flow_style=False)
        for inner in value:
            yield from _events(inner)
        yield yaml.SequenceEndEvent()
    elif isinstance(value, str):
        yield _text(value)
    else:
        yield yaml.ScalarEvent(None, None, _BOTH, _number(value), style=_PLAIN)


def _text(text: str) -> Any:
    style = _LITERAL if "\n" in text else _PLAIN if reads_as_string(text) else _DOUBLE
    return yaml.ScalarEvent(None, None, _BOTH, text, style=style)


def _number(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not value.is_integer():
        mantissa, e, exponent = repr(value).partition("e")
        return mantissa.removesuffix(".0") + e + exponent
    return json.encode(value).decode()
