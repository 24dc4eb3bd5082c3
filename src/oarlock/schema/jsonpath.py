"""The JSONPath of printer columns and selectable fields, compiled to getters.

    .spec.replicas      .metadata.annotations.example\\.com/k      ['a.b']      .items[0]      .items[-1]
    .items[0:2]         .items[*].name      .*      ..name      .status.conditions[?(@.type=="Ready")].status

A path starts at the object's root, with or without a leading ``$`` and with or without braces around it.
Absent fields yield nothing; only a malformed path is an error.
Must not know: columns, tables. See also: `cells`. Source: kubectl's JSONPath; CustomResourceDefinition jsonPath.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

Getter: TypeAlias = Callable[[Any], list[Any]]
_Selector: TypeAlias = Callable[[Any], Iterator[Any]]

_MAX_LENGTH = 4096
_MAX_VISITED = 10_000
"""``..`` looks at no more values than this."""


class PathError(ValueError):
    """A malformed path. `column` is the position, counted from 1."""

    def __init__(self, path: str, column: int, why: str) -> None:
        super().__init__(path, column, why)
        self.path = path
        self.column = column
        self.why = why

    def __str__(self) -> str:
        return f"{self.why} at column {self.column} of {self.path!r}"


_NAME = re.compile(r"(?:\\.|[^\\.\[\]'\"(){}?*$@,:\s=!<>|])+")
_BRACKET_NAME = re.compile(r"'((?:\\.|[^'\\])*)'|\"((?:\\.|[^\"\\])*)\"")
_SLICE = re.compile(r"\s*(-?[0-9]{0,9})\s*:\s*(-?[0-9]{0,9})\s*(?::\s*(-?[0-9]{0,9})\s*)?")
_INDEX = re.compile(r"-?[0-9]{1,9}(?![0-9.])")
_OPERATOR = re.compile(r"\s*(==|!=|<=|>=|<|>)\s*")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORD = re.compile(r"true|false|null")


class _Reader:
    """Parses a path once, from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.simple: list[str] | None = []

    def fail(self, why: str) -> PathError:
        return PathError(self.text, self.at + 1, why)

    def take(self, token: str) -> bool:
        if self.text.startswith(token, self.at):
            self.at += len(token)
            return True
        return False

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self.text, self.at)
        if match is not None:
            self.at = match.end()
        return match

    def steps(self, stop: str = "") -> list[_Selector]:
        """The steps up to the end of the path, or to a character of `stop`."""
        steps: list[_Selector] = []
        while self.at < len(self.text) and self.text[self.at] not in stop:
            if self.take(".."):
                self.simple = None
                steps.append(_descend)
                if not self.text.startswith("[", self.at):
                    steps.append(self.name())
            elif self.take("."):
                if self.at < len(self.text) and self.text[self.at] == "[":
                    continue
                if self.at == len(self.text) and not steps:
                    break
                steps.append(self.name())
            elif self.take("["):
                steps.append(self.brackets())
            else:
                raise self.fail("expected . or [")
        return steps

    def name(self) -> _Selector:
        if self.take("*"):
            self.simple = None
            return _children
        name = self.match(_NAME)
        if name is None:
            raise self.fail("expected a field name")
        return self.field(re.sub(r"\\(.)", r"\1", name[0]))

    def field(self, name: str) -> _Selector:
        if self.simple is not None:
            self.simple.append(name)
        return _field(name)

    def brackets(self) -> _Selector:
        quoted = self.match(_BRACKET_NAME)
        if quoted is not None:
            first = self.field(_unescaped(quoted))
            return first if self.take("]") else self.union(first)
        self.simple = None
        if self.take("?("):
            return self.filter()
        if self.take("*]"):
            return _children
        step = self.index_or_slice()
        return step if self.take("]") else self.union(step)

    def index_or_slice(self) -> _Selector:
        parts = self.match(_SLICE)
        if parts is not None:
            low, high, by = (int(part) if part and part != "-" else None for part in parts.groups())
            if by is not None and by <= 0:
                raise self.fail("the step of a slice must be above 0")
            return _slice(slice(low, high, by))
        index = self.match(_INDEX)
        if index is None:
            raise self.fail("expected an index, a name in quotes, * or ?(")
        return _index(int(index[0]))

    def union(self, first: _Selector) -> _Selector:
        self.simple = None
        members = [first]
        while self.take(","):
            while self.take(" "):
                pass
            quoted = self.match(_BRACKET_NAME)
            members.append(_field(_unescaped(quoted)) if quoted is not None else self.index_or_slice())
        if not self.take("]"):
            raise self.fail("expected ]")

        def union(value: Any) -> Iterator[Any]:
            for member in members:
                yield from member(value)

        return union

    def filter(self) -> _Selector:
        left = self.operand()
        operator = self.match(_OPERATOR)
        right = self.operand() if operator is not None else None
        while self.take(" "):
            pass
        if not self.take(")]"):
            raise self.fail("expected )]")
        if operator is None or right is None:
            return _filter(lambda item: bool(left(item)))
        compare = _COMPARISONS[operator[1]]
        return _filter(lambda item: _compared(compare, left(item), right(item)))

    def operand(self) -> Getter:
        while self.take(" "):
            pass
        if self.take("@") or self.take("$"):
            return _walk(self.steps(stop=" =!<>)"))
        quoted = self.match(_BRACKET_NAME)
        if quoted is not None:
            return _constant(_unescaped(quoted))
        number = self.match(_NUMBER)
        if number is not None:
            text = number[0]
            return _constant(float(text) if any(c in text for c in ".eE") else int(text))
        word = self.match(_WORD)
        if word is None:
            raise self.fail("expected @, a number or a text in quotes")
        return _constant({"true": True, "false": False, "null": None}[word[0]])


def _unescaped(quoted: re.Match[str]) -> str:
    text = quoted[1] if quoted[1] is not None else quoted[2]
    return re.sub(r"\\(.)", r"\1", text)


def _constant(value: Any) -> Getter:
    return lambda _item: [value]


def _field(name: str) -> _Selector:
    def field(value: Any) -> Iterator[Any]:
        if type(value) is dict and name in value:
            yield value[name]

    return field


def _index(index: int) -> _Selector:
    def at(value: Any) -> Iterator[Any]:
        if type(value) is list and -len(value) <= index < len(value):
            yield value[index]

    return at


def _slice(part: slice) -> _Selector:
    def items(value: Any) -> Iterator[Any]:
        if type(value) is list:
            yield from value[part]

    return items


def _children(value: Any) -> Iterator[Any]:
    if type(value) is dict:
        yield from value.values()
    elif type(value) is list:
        yield from value


def _descend(value: Any) -> Iterator[Any]:
    """The value and all its descendants, parents first."""
    waiting = [value]
    for _ in range(_MAX_VISITED):
        if not waiting:
            return
        current = waiting.pop()
        yield current
        waiting.extend(reversed(list(_children(current))))


def _filter(keep: Callable[[Any], bool]) -> _Selector:
    def matching(value: Any) -> Iterator[Any]:
        if type(value) is list:
            for item in value:
                if keep(item):
                    yield item

    return matching


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda left, right: bool(left == right),
    "!=": lambda left, right: bool(left != right),
    "<": lambda left, right: bool(left < right),
    "<=": lambda left, right: bool(left <= right),
    ">": lambda left, right: bool(left > right),
    ">=": lambda left, right: bool(left >= right),
}


def _compared(compare: Callable[[Any, Any], bool], left: list[Any], right: list[Any]) -> bool:
    if not left or not right:
        return False
    first, second = left[0], right[0]
    comparable = (str,), (int, float), (bool,), (type(None),)
    if not any(type(first) in kinds and type(second) in kinds for kinds in comparable):
        return False
    try:
        return compare(first, second)
    except TypeError:
        return False


def _walk(steps: list[_Selector]) -> Getter:
    def walk(tree: Any) -> list[Any]:
        values = [tree]
        for step in steps:
            values = [result for value in values for result in step(value)]
            if not values:
                break
        return values

    return walk


def compile_path(text: str) -> Getter:
    """A function from a tree to the values at the path, in order. PathError for a malformed path."""
    steps, simple = _read(text)
    if simple is None or not simple:
        return _walk(steps)
    *parents, last = simple

    def straight(tree: Any) -> list[Any]:
        # nearly every path is a chain of names
        for name in parents:
            if type(tree) is not dict:
                return []
            tree = tree.get(name)
        if type(tree) is not dict or last not in tree:
            return []
        return [tree[last]]

    return straight


def simple_steps(text: str) -> tuple[str, ...]:
    """The field names of a simple path, ``()`` for any other. PathError for a malformed path."""
    return tuple(_read(text)[1] or ())


def _read(text: str) -> tuple[list[_Selector], list[str] | None]:
    if len(text) > _MAX_LENGTH:
        raise PathError(text[:40] + "…", _MAX_LENGTH, f"a path of more than {_MAX_LENGTH} characters")
    reader = _Reader(text)
    braces = reader.take("{")
    reader.take("$")
    steps = reader.steps(stop="}" if braces else "")
    if braces and not reader.take("}"):
        raise reader.fail("expected }")
    if reader.at < len(text):
        raise reader.fail("unexpected text")
    return steps, reader.simple
