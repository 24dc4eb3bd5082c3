"""The runtime cost of calls that don't cost 1, and the compiled regular expressions that some of them need.

Units and costs are those of cel-go and Kubernetes, so a rule within the budget there is within it here. One addition:
comparing nested lists and maps is charged for all their contents. See also: `estimate`, the static cost.
Source: cel-go runtime cost tracking; k8s.io/apiserver pkg/cel/library cost estimator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import re2

from oarlock.meta.memo import Memo
from oarlock.schema.cel.library.authz import CHECK_COST
from oarlock.schema.cel.library.kinds import NamedFormat
from oarlock.schema.cel.values import SetList, UInt, is_flat
from oarlock.schema.structural.patterns import CompiledPattern


def _options() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    return options


class Regex:
    """A compiled expression. PatternError with Go's message if it is invalid."""

    __slots__ = ("_compiled", "matches", "source")

    def __init__(self, source: str) -> None:
        pattern = CompiledPattern(source)
        self.source = source
        self.matches = pattern.found_in
        self._compiled = re2.compile(source.encode(), _options())

    def find(self, text: str) -> str:
        """The first match; empty when there is none."""
        match = self._compiled.search(text.encode("utf-8", "surrogatepass"))
        return "" if match is None else match[0].decode("utf-8", "surrogatepass")

    def find_all(self, text: str, limit: int = -1) -> list[str]:
        """The first `limit` non-overlapping matches; all if it is negative."""
        matches: list[str] = []
        if limit == 0:
            return matches
        end = 0
        for match in self._compiled.finditer(text.encode("utf-8", "surrogatepass")):
            if matches and match.start() == match.end() == end:
                continue  # Go has no empty match right behind a match
            end = match.end()
            matches.append(match[0].decode("utf-8", "surrogatepass"))
            if len(matches) == limit:
                break
        return matches


# By default RE2 may use 8 MiB for one expression, and a client may send both the expression and the text.
_compiled: Memo[str, Regex] = Memo(64 * 1024 * 1024, entry_bytes=8 * 1024 * 1024)


def regex_of(source: str) -> Regex:
    """The compiled `source`, a pattern from an object; the last few are cached. A rule's own are compiled with it."""
    regex = _compiled.get(source)
    if regex is None:
        regex = Regex(source)
        _compiled.put(source, regex, len(source))
    return regex


LIST_COST = 10
MAP_COST = 30
MESSAGE_COST = 40

_SCALARS = frozenset({bool, int, float, UInt, type(None)})


def tenths(units: int | float) -> int:
    """The cost of traversing text: a tenth of a unit for each character, rounded up."""
    return int(-(-units // 10))


def _size(value: Any) -> int:
    if isinstance(value, str | bytes | list | dict):
        return len(value)
    return len(value.source) if type(value) is Regex else 1


def _weight(value: Any) -> int:
    """The number of values inside; the value itself counts only if it is a scalar."""
    if isinstance(value, list):
        return len(value) if is_flat(value) else sum(map(_weight, value))
    if isinstance(value, dict):
        return sum(_weight(item) for item in value.values()) + len(value)
    return 1


def _equality(a: Any, b: Any) -> int:
    if type(a) in _SCALARS or type(b) in _SCALARS:
        return min(1, tenths(min(_size(a), _size(b))))
    if isinstance(a, list | dict) and isinstance(b, list | dict):
        plain = tenths(min(len(a), len(b)))
        if len(a) != len(b) or not a or (isinstance(a, list) and is_flat(a)):
            return plain
        if type(a) is SetList or type(b) is SetList:
            return max(plain, len(a) * len(b) // 10)  # each is looked for among the others
        return max(plain, _weight(a) // 2)
    return tenths(min(_size(a), _size(b)))


def _ordering(a: Any, b: Any) -> int:
    if isinstance(a, str | bytes) and isinstance(b, str | bytes):
        return tenths(min(len(a), len(b)))
    return 1


def _traversal(value: Any) -> int:
    if isinstance(value, str | bytes):
        return len(value) // 10
    if isinstance(value, list):
        return sum(map(_traversal, value))
    return 1


def _concatenation(a: Any, b: Any) -> int:
    if isinstance(a, str | bytes) or isinstance(b, str | bytes):
        return tenths(_size(a) + _size(b))
    return 1


def _matching(text: Any, pattern: Any) -> int:
    return tenths(1 + _size(text)) * -(-_size(pattern) // 4)


def _text(text: Any, *_rest: Any) -> int:
    return tenths(_size(text))


def _text_twice(text: Any, *_rest: Any) -> int:
    return tenths(2 * _size(text))


def _joined(items: Any, separator: Any = "") -> int:
    if not isinstance(items, list):
        return 1
    length = sum(map(_size, items)) + _size(separator) * max(0, len(items) - 1)
    return tenths(2 * length)


def _bytes_or_one(value: Any) -> int:
    return tenths(len(value)) if isinstance(value, bytes) else 1


def _text_or_one(value: Any) -> int:
    return tenths(len(value)) if isinstance(value, str) else 1


def _list_or_one(*args: Any) -> int:
    return _traversal(args[0]) if isinstance(args[0], list) else 1


def _two(text: Any, _part: Any) -> int:
    return tenths(_size(text))


def _sets(factor: int) -> Callable[[Any, Any], int]:
    return lambda a, b: 1 + factor * _size(a) * _size(b)


def _contains_cidr(cidr: Any, other: Any) -> int:
    return 1 + (tenths(len(other)) if isinstance(other, str) else 0)


def format_cost(size: int, pattern: int) -> int:
    """The cost of validating a text of this size by a format whose pattern has this length."""
    return tenths(1 + size) * -(-pattern // 4)


def _validate(form: Any, text: Any) -> int:
    return format_cost(_size(text), form.pattern_length if type(form) is NamedFormat else 1)


def _distinct(items: Any) -> int:
    if not isinstance(items, list):
        return 1
    # items of different types are compared one by one; a list of scalars in one step
    length = len(items)
    return length if all(type(item) is str for item in items) else max(1, length * length // 10)


CALL_COSTS: dict[str, Callable[..., int]] = {
    "check": lambda _subject, _verb: CHECK_COST,
    "startsWith": _two,
    "endsWith": _two,
    "contains": lambda text, part: tenths(_size(text)) * tenths(_size(part)),
    "bytes": _text_or_one,
    "string": _bytes_or_one,
    "strings.quote": _text,
    "format": _text,
    "@in": lambda item, found: len(found) if isinstance(found, list) else 1,
    "_<_": _ordering,
    "_<=_": _ordering,
    "_>_": _ordering,
    "_>=_": _ordering,
    "_==_": _equality,
    "_+_": _concatenation,
    "matches": _matching,
    "find": _matching,
    "findAll": lambda text, pattern, limit=-1: _matching(text, pattern),
    "lowerAscii": _text,
    "upperAscii": _text,
    "substring": _text,
    "trim": _text,
    "jsonpatch.escapeKey": _text,
    "replace": _text_twice,
    "split": _text_twice,
    "join": _joined,
    "isSorted": _list_or_one,
    "sum": _list_or_one,
    "sum.duration": _list_or_one,
    "max": _list_or_one,
    "min": _list_or_one,
    "indexOf": _list_or_one,
    "lastIndexOf": _list_or_one,
    "sort": _list_or_one,
    "@sortByAssociatedKeys": _list_or_one,
    "reverse": _list_or_one,
    "distinct": _distinct,
    "flatten": _list_or_one,
    "slice": _list_or_one,
    "lists.range": lambda count: max(1, count) if isinstance(count, int) else 1,
    "url": _text,
    "isURL": _text,
    "ip": _text,
    "isIP": _text,
    "cidr": _text,
    "isCIDR": _text,
    "ip.isCanonical": _text_twice,
    "containsIP": _contains_cidr,
    "containsCIDR": _contains_cidr,
    "quantity": _text,
    "isQuantity": _text,
    "semver": _text,
    "isSemver": _text,
    "validate": _validate,
    "sets.contains": _sets(1),
    "sets.intersects": _sets(1),
    "sets.equivalent": _sets(2),
}
"""By function: the cost for these arguments."""
