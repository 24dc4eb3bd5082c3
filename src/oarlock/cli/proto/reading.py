"""Parses a ``.proto`` file: the messages in it, their fields and the numbers they reserve.

Reads what `text` prints, also after it was edited; enums, groups and the like, which `text` never prints, are refused.
Must not know: resources. Source: protobuf language specification, version 2. See also: `lock`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from oarlock.meta.dataclass import dataclass

__all__ = ["Messages", "ProtoTextError", "ProtoTextField", "ProtoTextMessage", "ReservedNumbers", "read_proto"]

_LARGEST = (1 << 29) - 1
_SCALARS = frozenset({"string", "bytes", "int32", "int64", "double", "bool"})
_LABELS = ("optional", "repeated", "required")
_token = re.compile(
    r'(?P<space>\s+)|(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<text>"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\')'
    r"|(?P<word>\.?[A-Za-z_][\w.]*|-?\d\w*)|(?P<sign>[{}<>\[\]=;,()])",
    re.DOTALL,
)


class ProtoTextError(ValueError):
    """The text isn't a ``.proto`` file of the kind that is printed here; the message says where."""


@dataclass(frozen=True, slots=True)
class ProtoTextField:
    """A field: `label` is optional, repeated or ``map``; `kind` a scalar or a message, a map's that of its values."""

    name: str
    label: str
    kind: str

    @property
    def is_message(self) -> bool:
        """Whether it is a message of the same file."""
        return self.kind not in _SCALARS and "." not in self.kind

    def __str__(self) -> str:
        return f"map<string, {self.kind}>" if self.label == "map" else f"{self.label} {self.kind}"


@dataclass(frozen=True, slots=True)
class ReservedNumbers:
    """Numbers that no field may have, `first` to `last`. `note` is the name of the field that had it, if known."""

    first: int
    last: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class ProtoTextMessage:
    fields: dict[int, ProtoTextField]
    reserved: tuple[ReservedNumbers, ...]


Messages = dict[str, ProtoTextMessage]


def read_proto(text: str) -> Messages:
    """The messages of a file by name. Raises ProtoTextError."""
    tokens = _Tokens(text)
    messages: Messages = {}
    while tokens.kind:
        if tokens.word != "message":
            tokens.skip()
            continue
        tokens.take()
        name = tokens.name()
        if name in messages:
            raise tokens.wrong(f"message {name} is there twice")
        messages[name] = _message(tokens)
    return messages


class _Tokens:
    """A cursor over the words and signs of a text. `kind` is empty at the end."""

    def __init__(self, text: str) -> None:
        self._tokens = _split(text)
        self.line = 1
        self._next: tuple[str, str, int] | None = None
        self.kind = self.word = ""
        self.take()

    def take(self) -> str:
        """The word or sign here; goes on to the next, past comments."""
        word = self.word
        while True:
            self.kind, self.word, self.line = self._peek()
            self._next = None
            if self.kind != "comment":
                return word

    def _peek(self) -> tuple[str, str, int]:
        if self._next is None:
            self._next = next(self._tokens, ("", "", self.line))
        return self._next

    def comment(self) -> str:
        """The comment that follows what is here, on the same line."""
        kind, word, line = self._peek()
        return word.lstrip("/* ").rstrip("/* ") if (kind, line) == ("comment", self.line) else ""

    def wrong(self, what: str) -> ProtoTextError:
        return ProtoTextError(f"line {self.line}: {what}")

    def expect(self, sign: str) -> None:
        if self.word != sign:
            raise self.wrong(f"{sign!r} was expected, and there is {self.word or 'the end of the file'!r}")
        self.take()

    def name(self) -> str:
        if self.kind != "word" or self.word[0].isdigit() or self.word[0] in ".-":
            raise self.wrong(f"a name was expected, and there is {self.word or 'the end of the file'!r}")
        return self.take()

    def number(self) -> int:
        if not re.fullmatch(r"[0-9]{1,9}", self.word):
            raise self.wrong(f"a field number was expected, and there is {self.word or 'the end of the file'!r}")
        return int(self.take())

    def skip(self) -> None:
        """Past a statement at the outermost level: syntax, package, import or option."""
        if self.word not in ("syntax", "package", "import", "option"):
            raise self.wrong(f"{self.word!r} isn't read here, only messages are")
        while self.word != ";":
            if not self.kind:
                raise self.wrong("';' was expected, and there is the end of the file")
            self.take()
        self.take()


def _split(text: str) -> Iterator[tuple[str, str, int]]:
    at, line = 0, 1
    while at < len(text):
        found = _token.match(text, at)
        if found is None:
            raise ProtoTextError(f"line {line}: {text[at]!r} can't stand here")
        if found.lastgroup != "space":
            yield str(found.lastgroup), found[0], line
        line += found[0].count("\n")
        at = found.end()


def _message(tokens: _Tokens) -> ProtoTextMessage:
    tokens.expect("{")
    fields: dict[int, ProtoTextField] = {}
    reserved: list[ReservedNumbers] = []
    while tokens.word != "}":
        if tokens.word == "reserved":
            reserved += _reserved(tokens)
            continue
        field, number = _field(tokens)
        if number in fields:
            raise tokens.wrong(f"{number} is the number of {fields[number].name} and of {field.name}")
        fields[number] = field
    tokens.take()
    return ProtoTextMessage(dict(sorted(fields.items())), tuple(sorted(reserved, key=lambda one: one.first)))


def _field(tokens: _Tokens) -> tuple[ProtoTextField, int]:
    if tokens.word == "map":
        tokens.take()
        tokens.expect("<")
        tokens.expect("string")
        tokens.expect(",")
        label, kind = "map", _kind(tokens)
        tokens.expect(">")
    elif tokens.word in _LABELS:
        label = tokens.take()
        kind = _kind(tokens)
    else:
        raise tokens.wrong(f"optional, repeated or map was expected, and there is {tokens.word or 'the end'!r}")
    name = tokens.name()
    tokens.expect("=")
    number = tokens.number()
    if tokens.word == "[":
        while tokens.kind and tokens.word != "]":
            tokens.take()
        tokens.expect("]")
    tokens.expect(";")
    return ProtoTextField(name, label, kind), number


def _kind(tokens: _Tokens) -> str:
    """A type's name; a dot in front only says that it is a full one."""
    if tokens.word[:1] == ".":
        return tokens.take()[1:]
    return tokens.name()


def _reserved(tokens: _Tokens) -> list[ReservedNumbers]:
    tokens.take()
    ranges: list[tuple[int, int]] = []
    while True:
        if tokens.kind == "text":  # a name, which may come back with another number
            tokens.take()
        else:
            first = last = tokens.number()
            if tokens.word == "to":
                tokens.take()
                last = _LARGEST if tokens.word == "max" else first
                if tokens.word == "max":
                    tokens.take()
                else:
                    last = tokens.number()
            ranges.append((first, last))
        if tokens.word != ",":
            break
        tokens.take()
    note = tokens.comment() if tokens.word == ";" and len(ranges) == 1 else ""
    tokens.expect(";")
    return [ReservedNumbers(first, last, note) for first, last in ranges]
