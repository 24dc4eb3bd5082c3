"""The key order of YAML output: numbers in keys by value, letters after everything else.

``a2`` comes before ``a10``, ``a-b`` before ``ab``. See also: `yaml`.
Source: go-yaml v2's sorter, as in ``kubectl -o yaml``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable


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
    first, first_digits = _number(a, i, after_number)
    second, second_digits = _number(b, i, after_number)
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


def _number(text: str, start: int, after_number: bool) -> tuple[int, int]:
    """The value of the digits from `start` on, and how many there are."""
    end = start
    while end < len(text) and text[end].isdecimal() and text[end].isascii() and end - start < 300:
        end += 1
    return int(("1" if after_number else "0") + text[start:end]), end - start
