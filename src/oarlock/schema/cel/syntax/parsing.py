"""The parser: text → `ast`.

Operators are parsed by precedence without recursion, and nesting uses `ast.run`, so no text overflows
Python's stack. Chains of ``&&`` and ``||`` become balanced trees, as in cel-go, because they may be long. Limits are
those of Kubernetes: 250 levels, 100,000 code points. A syntax error ends the parsing; other errors
(a reserved word, a number out of range) are collected and all reported.
Must not know: types, names, schemas. See also: `lexing`, `macros`; `checker`.
Source: cel-spec, "Syntax"; the grammar, the limits and the messages of cel-go's parser.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import NoReturn

from oarlock.schema.cel.problems import CompileError, Mistake
from oarlock.schema.cel.syntax.ast import Call, Const, Expr, Ident, ListOf, MapOf, Select, Steps, run
from oarlock.schema.cel.syntax.lexing import BAD, EOF, tokens_of
from oarlock.schema.cel.syntax.macros import Macros
from oarlock.schema.cel.values import INT_MAX, INT_MIN, UINT_MAX, UInt

_SIMPLE = {
    **dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True)),
    **{char: char for char in "\\'\"`?"},
}
_ESCAPE = re.compile(r"\\(?:([0-3][0-7][0-7])|[xX](..)|(u....|U........)|(.))")


def int_value(text: str) -> int:
    """The value of ``12``, ``-12`` or ``0x1F``. ValueError beyond 64 bits."""
    value = _whole(text)
    if not INT_MIN <= value <= INT_MAX:
        raise ValueError("invalid int literal")
    return value


def uint_value(text: str) -> UInt:
    """The value of ``12u`` or ``0x1Fu``. ValueError beyond 64 bits."""
    value = _whole(text[:-1])
    if value > UINT_MAX:
        raise ValueError("invalid uint literal")
    return UInt(value)


def _whole(text: str) -> int:
    """More digits than 64 bits need are out of range; this avoids converting very long ones."""
    digits = text.removeprefix("-")
    base = 16 if digits.startswith("0x") else 10
    digits = digits.removeprefix("0x").lstrip("0")
    value = int(digits or "0", base) if len(digits) <= 20 else UINT_MAX + 1
    return -value if text.startswith("-") else value


def double_value(text: str) -> float:
    """The value of ``1.5e3``. ValueError beyond the range of a double."""
    value = float(text)
    if math.isinf(value):
        raise ValueError("invalid double literal")
    return value


def _body(text: str) -> tuple[str, bool]:
    """The text between the quotes, and whether it is raw."""
    raw = text[0] in "rR"
    if raw:
        text = text[1:]
    quotes = 3 if len(text) >= 6 and text[:3] in ("'''", '"""') else 1
    inside = text[quotes:-quotes]
    if "\r" in inside:
        inside = inside.replace("\r\n", "\n").replace("\r", "\n")
    return inside, raw or "\\" not in inside


def text_value(text: str) -> str:
    """The value of a string literal with its quotes. ValueError for an invalid escape."""
    inside, plain = _body(text)
    return inside if plain else _ESCAPE.sub(_character, inside)


def _character(match: re.Match[str]) -> str:
    octal, short, long, simple = match.groups()
    if simple is not None:
        return _SIMPLE[simple]
    point = int(octal, 8) if octal is not None else int(short if short is not None else long[1:], 16)
    if point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
        raise ValueError("invalid unicode code point")
    return chr(point)


def bytes_value(text: str) -> bytes:
    """The value of a bytes literal with its ``b`` and its quotes. ValueError for an invalid escape."""
    inside, plain = _body(text[1:])
    if plain:
        return inside.encode()
    result = bytearray()
    position = 0
    for match in _ESCAPE.finditer(inside):
        octal, short, long, simple = match.groups()
        if long is not None:
            raise ValueError("unable to unescape string")
        result += inside[position : match.start()].encode()
        if simple is not None:
            result += _SIMPLE[simple].encode()
        else:
            result.append(int(octal, 8) if octal is not None else int(short, 16))
        position = match.end()
    return bytes(result + inside[position:].encode())


MAX_SOURCE = 100_000
"""Code points of one expression."""

MAX_DEPTH = 250
"""How deep expressions nest, and how long a chain of operators, fields or calls may be."""

_BINARY = {
    **{kind: (f"_{kind}_", 3) for kind in ("<", "<=", ">", ">=", "==", "!=")},
    "in": ("@in", 3),
    "+": ("_+_", 4),
    "-": ("_-_", 4),
    **{kind: (f"_{kind}_", 5) for kind in "*/%"},
}
_RESERVED = frozenset(
    (
        *("as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop"),
        *("package", "namespace", "null", "return", "true", "var", "void", "while"),
    )
)


# messages list what could stand somewhere in the order the grammar numbers its tokens
_ORDER = (
    *("==", "!=", "in", "<", "<=", ">=", ">", "&&", "||", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":"),
    *("+", "*", "/", "%", "true", "false", "null", "NUM_FLOAT", "NUM_INT", "NUM_UINT", "STRING", "BYTES"),
    *("IDENTIFIER", "ESC_IDENTIFIER", EOF),
)
_NAMED = frozenset(kind for kind in _ORDER if kind.isupper()) | {EOF}
_STARTS = frozenset(_ORDER[_ORDER.index("true") : _ORDER.index("ESC_IDENTIFIER")]) | set("[{(.-!")
_CONTINUES = frozenset({*_BINARY, "&&", "||", "?", ".", "["})
_LITERALS: dict[str, Callable[[str], object]] = {
    "NUM_INT": int_value,
    "NUM_UINT": uint_value,
    "NUM_FLOAT": double_value,
    "STRING": text_value,
    "BYTES": bytes_value,
    "true": lambda text: True,
    "false": lambda text: False,
    "null": lambda text: None,
}

_Terminators = frozenset[str]
"""What may stand behind an expression."""

_Deep = tuple[Expr, int]
"""A node, and how deep it nests."""


def parse(source: str) -> Expr:
    """The tree of an expression. CompileError with position and caret."""
    if len(source) > MAX_SOURCE:
        size = f"size: {len(source)}, limit {MAX_SOURCE}"
        raise CompileError(f"ERROR: <input>:-1:0: expression code point size exceeds limit: {size}")
    try:
        source.encode()
    except UnicodeEncodeError as error:
        raise CompileError(f"ERROR: <input>:1:{error.start + 1}: the text isn't Unicode") from error
    parser = _ExpressionParser(source)
    node, _ = run(parser.whole())
    if parser.mistakes:
        raise CompileError.of(source, parser.mistakes)
    return node


class _ExpressionParser:
    """Parses one expression. `at` is the index of the next token."""

    def __init__(self, source: str) -> None:
        self.kinds, self.texts, self.offsets = tokens_of(source)
        self.kinds.append(EOF)  # so that what comes after the last can be asked for
        self.source = source
        self.at = 0
        self.depth = 0
        self.mistakes: list[Mistake] = []
        self.macros = Macros(source, self.mistakes)

    def whole(self) -> Steps[_Deep]:
        tree: _Deep = yield self.expression(frozenset({EOF}))
        if self.kinds[self.at] != EOF:
            self._unexpected({EOF}, extraneous=self.kinds[self.at + 1] in (EOF, BAD))
        return tree

    # mistakes ---------------------------------------------------------------------------------------

    def _fail(self, offset: int, text: str) -> NoReturn:
        raise CompileError.of(self.source, [*self.mistakes, Mistake(offset, text)])

    def _unexpected(self, kinds: frozenset[str] | set[str], *, extraneous: bool = False) -> NoReturn:
        """The error for an unexpected next token."""
        self._unreadable()
        names = [kind if kind in _NAMED else f"'{kind}'" for kind in _ORDER if kind in kinds]
        expected = names[0] if len(names) == 1 else f"{{{', '.join(names)}}}"
        what = "extraneous" if extraneous else "mismatched"
        text = _escaped(self.texts[self.at])
        self._fail(self.offsets[self.at], f"Syntax error: {what} input '{text}' expecting {expected}")

    def _unreadable(self) -> None:
        if self.kinds[self.at] == BAD:
            text = _escaped(self.texts[self.at])
            self._fail(self.offsets[self.at], f"Syntax error: token recognition error at: '{text}'")

    def _mistake(self, offset: int, text: str) -> Expr:
        self.mistakes.append(Mistake(offset, text))
        return Const(offset, None)

    def _expect(self, kind: str, then: frozenset[str]) -> None:
        """Take a token of this kind; `then` are the tokens that may follow it."""
        if self.kinds[self.at] == kind:
            self.at += 1
            return
        self._unreadable()
        if self.kinds[self.at + 1] == kind:
            self._unexpected({kind}, extraneous=True)
        if self.kinds[self.at] in then:
            text = _escaped(self.texts[self.at])
            self._fail(self.offsets[self.at], f"Syntax error: missing '{kind}' at '{text}'")
        self._unexpected({kind})

    def _deeper(self, offset: int, depth: int) -> int:
        if depth >= MAX_DEPTH:
            self._fail(offset, f"expression recursion limit exceeded: {MAX_DEPTH}")
        return depth + 1

    # operators --------------------------------------------------------------------------------------

    def expression(self, end: _Terminators) -> Steps[_Deep]:
        """``a || b``, or ``a ? b : c``."""
        self.depth = self._deeper(self.offsets[self.at], self.depth)
        operand = yield from self._or(end | {"?"})
        if self.kinds[self.at] == "?":
            offset = self.offsets[self.at]
            self.at += 1
            yes = yield self._or(frozenset({":"}))
            self._expect(":", _STARTS)
            no = yield self.expression(end)
            depth = self._deeper(offset, max(operand[1], yes[1], no[1]))
            operand = Call(offset, "_?_:_", None, [operand[0], yes[0], no[0]]), depth
        self.depth -= 1
        return operand

    def _or(self, end: _Terminators) -> Steps[_Deep]:
        """``a && b || c``, whose operands are comparisons and arithmetic."""
        either: list[Expr] = []
        both: list[Expr] = []
        either_at: list[int] = []
        both_at: list[int] = []
        deepest = 0
        while True:
            node, depth = yield from self._compared(end)
            deepest = max(deepest, depth)
            both.append(node)
            kind = self.kinds[self.at]
            if kind == "&&":
                both_at.append(self.offsets[self.at])
                self.at += 1
                continue
            either.append(_balanced("_&&_", both, both_at))
            if kind != "||":
                return _balanced("_||_", either, either_at), deepest
            either_at.append(self.offsets[self.at])
            both, both_at = [], []
            self.at += 1

    def _compared(self, end: _Terminators) -> Steps[_Deep]:
        """``a + b * c < d``: all binary operators but the logical ones."""
        operands = [(yield from self._unary(end))]
        waiting: list[tuple[str, int, int]] = []
        while True:
            offset = self.offsets[self.at]
            name, strength = _BINARY.get(self.kinds[self.at], ("", 0))
            while waiting and waiting[-1][1] >= strength:
                operator, _, where = waiting.pop()
                right, left = operands.pop(), operands.pop()
                depth = self._deeper(where, max(left[1], right[1]))
                operands.append((Call(where, operator, None, [left[0], right[0]]), depth))
            if not name:
                return operands[0]
            waiting.append((name, strength, offset))
            self.at += 1
            operands.append((yield from self._unary(end)))

    def _unary(self, end: _Terminators) -> Steps[_Deep]:
        kind, offset = self.kinds[self.at], self.offsets[self.at]
        if kind not in ("!", "-") or self._signed():
            return (yield from self._member(end))
        count = 0
        while self.kinds[self.at] == kind:
            self.at += 1
            count += 1
        if kind == "-" and self.kinds[self.at] not in _STARTS:
            self._no_way()
        node, depth = yield from self._member(end)
        return (Call(offset, f"{kind}_", None, [node]) if count % 2 else node), depth

    def _signed(self) -> bool:
        """Whether a signed number comes next."""
        return self.kinds[self.at] == "-" and self.kinds[self.at + 1] in ("NUM_INT", "NUM_FLOAT")

    # what is read from something --------------------------------------------------------------------

    def _member(self, end: _Terminators) -> Steps[_Deep]:
        """``a.b``, ``a.?b``, ``a.b(c)``, ``a[b]``, ``a[?b]``."""
        node, depth = yield from self._primary(end)
        kinds, offsets = self.kinds, self.offsets
        while True:
            kind, offset = kinds[self.at], offsets[self.at]
            if kind == ".":
                self.at += 1
                if kinds[self.at] == "IDENTIFIER" and kinds[self.at + 1] == "(":
                    name, offset = self.texts[self.at], offsets[self.at + 1]
                    self.at += 2
                    args, deepest = yield from self._arguments(end)
                    node = self.macros.member_call(offset, node, name, args)
                    depth = self._deeper(offset, max(depth, deepest))
                    continue
                maybe = self._question()
                where = offsets[self.at]
                name = self._field_name(maybe=maybe)
                node = Call(offset, "_?._", None, [node, Const(where, name)]) if maybe else Select(offset, node, name)
                depth = self._deeper(offset, depth)
            elif kind == "[":
                self.at += 1
                function = "_[?_]" if self._question() else "_[_]"
                if function == "_[_]" and kinds[self.at] not in _STARTS:
                    self._unexpected(_STARTS | {"?"}, extraneous=kinds[self.at + 1] in _STARTS)
                key, deepest = yield self.expression(frozenset({"]"}))
                self._expect("]", _CONTINUES | end)
                node = Call(offset, function, None, [node, key])
                depth = self._deeper(offset, max(depth, deepest))
            else:
                return node, depth

    def _question(self) -> bool:
        if self.kinds[self.at] != "?":
            return False
        self.at += 1
        return True

    def _field_name(self, *, maybe: bool) -> str:
        kind, text = self.kinds[self.at], self.texts[self.at]
        if kind == "ESC_IDENTIFIER":
            self._mistake(self.offsets[self.at], "unsupported syntax: '`'")
        elif kind != "IDENTIFIER":
            if maybe:
                self._unexpected({"IDENTIFIER", "ESC_IDENTIFIER"})
            self._no_name()
        self.at += 1
        return text

    def _no_name(self) -> NoReturn:
        """The error for a token after a dot that is no name."""
        if self.kinds[self.at] in ("true", "false", "null"):
            self._unexpected({"IDENTIFIER"})
        self._no_way()

    def _no_way(self) -> NoReturn:
        """The error for a token that can't follow the previous one in any rule."""
        self._unreadable()
        end = self.offsets[self.at] + (0 if self.kinds[self.at] == EOF else len(self.texts[self.at]))
        read = _escaped(self.source[self.offsets[self.at - 1] : end])
        self._fail(self.offsets[self.at], f"Syntax error: no viable alternative at input '{read}'")

    def _arguments(self, end: _Terminators) -> Steps[tuple[list[Expr], int]]:
        """The arguments in parentheses; the opening one has been read."""
        args: list[Expr] = []
        deepest = 0
        if self.kinds[self.at] == ")":
            self.at += 1
            return args, deepest
        if self.kinds[self.at] not in _STARTS:
            self._unexpected(_STARTS | {")"}, extraneous=self.kinds[self.at + 1] in _STARTS | {")"})
        inside = frozenset({",", ")"})
        while True:
            node, depth = yield self.expression(inside)
            args.append(node)
            deepest = max(deepest, depth)
            if self.kinds[self.at] != ",":
                self._expect(")", _CONTINUES | end)
                return args, deepest
            self.at += 1

    # what stands alone ------------------------------------------------------------------------------

    def _primary(self, end: _Terminators) -> Steps[_Deep]:
        kind, offset = self.kinds[self.at], self.offsets[self.at]
        if kind == "IDENTIFIER":
            return (yield from self._name(end, ""))
        if kind in _LITERALS or self._signed():
            return self._literal(), 0
        self.at += 1
        if kind == "." and self.kinds[self.at] == "IDENTIFIER":
            return (yield from self._name(end, "."))
        if kind == "(":
            inner: _Deep = yield self.expression(frozenset({")"}))
            self._expect(")", _CONTINUES | end)
            return inner
        if kind == "[":
            return (yield from self._list(offset))
        if kind == "{":
            return (yield from self._entries(offset, None))
        if kind == ".":
            self._no_name()
        self.at -= 1
        self._unexpected(_STARTS, extraneous=self.kinds[self.at + 1] in _STARTS)

    def _literal(self) -> Expr:
        offset, text = self.offsets[self.at], self.texts[self.at]
        if text == "-":
            self.at += 1
            text += self.texts[self.at]
        kind = self.kinds[self.at]
        self.at += 1
        try:
            return Const(offset, _LITERALS[kind](text))
        except ValueError as error:
            return self._mistake(offset, str(error))

    def _name(self, end: _Terminators, dot: str) -> Steps[_Deep]:
        """``a``, ``a(b)``, or ``a.b{…}``, a message; a leading dot makes it a name of the root."""
        offset, name = self.offsets[self.at], self.texts[self.at]
        kinds = self.kinds
        brace = self.at + 1
        while kinds[brace] == "." and kinds[brace + 1] == "IDENTIFIER":
            brace += 2
        if kinds[brace] == "{":
            name = dot + "".join(self.texts[self.at : brace])
            self.at = brace + 1
            return (yield from self._entries(self.offsets[brace], name))
        self.at += 1
        if name in _RESERVED:
            self._mistake(offset, f"reserved identifier: {name}")
        if kinds[self.at] != "(":
            return Ident(offset, dot + name), 0
        offset = self.offsets[self.at]
        self.at += 1
        args, deepest = yield from self._arguments(end)
        return self.macros.global_call(offset, dot + name, args), deepest

    def _list(self, offset: int) -> Steps[_Deep]:
        """``[a, ?b]``; the bracket has been read."""
        items: list[Expr] = []
        optional: list[int] = []
        deepest = 0
        inside = frozenset({",", "]"})
        while self.kinds[self.at] != "]":
            if not items and self.kinds[self.at] == "," and self.kinds[self.at + 1] == "]":
                self.at += 1
                break
            if not items and self.kinds[self.at] not in _STARTS | {"?"}:
                expected = _STARTS | {"?", ",", "]"}
                self._unexpected(expected, extraneous=self.kinds[self.at + 1] in expected)
            if self._question():
                optional.append(len(items))
            node, depth = yield self.expression(inside)
            items.append(node)
            deepest = max(deepest, depth)
            if self.kinds[self.at] == ",":
                self.at += 1
            elif self.kinds[self.at] != "]":
                self._unexpected(inside, extraneous=self.kinds[self.at + 1] in inside)
        self.at += 1
        return ListOf(offset, items, frozenset(optional)), deepest

    def _entries(self, offset: int, message: str | None) -> Steps[_Deep]:
        """``{k: v, ?k: v}``; the brace has been read. `message` is the name before it."""
        entries: list[tuple[Expr, Expr, bool]] = []
        deepest = 0
        inside = frozenset({",", "}"})
        starts = _STARTS if message is None else frozenset({"IDENTIFIER", "ESC_IDENTIFIER"})
        while self.kinds[self.at] != "}":
            if not entries and self.kinds[self.at] == "," and self.kinds[self.at + 1] == "}":
                self.at += 1
                break
            if not entries and self.kinds[self.at] not in starts | {"?"}:
                expected = starts | {"?", ",", "}"}
                self._unexpected(expected, extraneous=self.kinds[self.at + 1] in expected)
            maybe = self._question()
            depth = 0
            if message is None:
                key, depth = yield self.expression(frozenset({":"}))
            else:
                key = self._message_field()
            self._expect(":", _STARTS)
            value, deep = yield self.expression(inside)
            entries.append((key, value, maybe))
            deepest = max(deepest, depth, deep)
            if self.kinds[self.at] == ",":
                self.at += 1
            elif self.kinds[self.at] != "}":
                self._unexpected(inside, extraneous=self.kinds[self.at + 1] in inside)
        self.at += 1
        return MapOf(offset, entries, message or ""), deepest

    def _message_field(self) -> Expr:
        """The name of a field; its place is the colon, where cel-go tells of mistakes."""
        if self.kinds[self.at] not in ("IDENTIFIER", "ESC_IDENTIFIER"):
            self._unexpected({"IDENTIFIER", "ESC_IDENTIFIER"})
        name = self._field_name(maybe=True)
        return Const(self.offsets[self.at], name)


def _balanced(name: str, terms: list[Expr], offsets: list[int]) -> Expr:
    """A chain of one operator as a balanced tree; `offsets` are the operators' positions."""
    if len(terms) == 1:
        return terms[0]
    middle = len(offsets) // 2
    left = _balanced(name, terms[: middle + 1], offsets[:middle])
    right = _balanced(name, terms[middle + 1 :], offsets[middle + 1 :])
    return Call(offsets[middle], name, None, [left, right])


def _escaped(text: str) -> str:
    return text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
