"""The syntax tree of an expression, independent of the parser.

Macros are expanded: every loop is a `Fold`. The checker sets `type` on every node and turns dotted
names into one `Ident` or `Call`. See also: `parsing`, which builds it; `checker`, which reads it.
Source: cel.expr.ParsedExpr (cel-spec).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import field
from typing import Any, TypeVar

from oarlock.meta.dataclass import dataclass
from oarlock.schema.cel.types import DYN, CelType


@dataclass(slots=True, eq=False)
class Expr:
    """`offset` is the position in the text, in code points."""

    offset: int
    type: CelType = field(default=DYN, kw_only=True)


@dataclass(slots=True, eq=False)
class Const(Expr):
    """A literal, as its value."""

    value: object


@dataclass(slots=True, eq=False)
class Ident(Expr):
    name: str


@dataclass(slots=True, eq=False)
class Select(Expr):
    """``operand.field``; with `test`, ``has(operand.field)``."""

    operand: Expr
    field: str
    test: bool = False


@dataclass(slots=True, eq=False)
class Call(Expr):
    """``target.function(args)``, or without target ``function(args)``. Operators are functions: ``_+_``.

    The checker sets `choices`: the parameters of each signature that the types of the arguments allow.
    """

    function: str
    target: Expr | None
    args: list[Expr]
    choices: tuple[tuple[CelType, ...], ...] = field(default=(), init=False)


@dataclass(slots=True, eq=False)
class ListOf(Expr):
    """``[a, ?b]``; `optional` has the indices of the items with a question mark."""

    items: list[Expr]
    optional: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False)
class MapOf(Expr):
    """``{k: v, ?k: v}``; each entry says whether it has a question mark. `message` is the name before the brace."""

    entries: list[tuple[Expr, Expr, bool]]
    message: str = ""


@dataclass(slots=True, eq=False)
class Fold(Expr):
    """``for variable in over: accumulator = step while condition``, then `result`. `second` is the value's name."""

    over: Expr
    variable: str
    second: str
    accumulator: str
    start: Expr
    condition: Expr
    step: Expr
    result: Expr


_Result = TypeVar("_Result")
Steps = Generator[Any, Any, _Result]
"""A step that ends in a result. ``yield from`` is for helpers only: it would nest what `run` lays flat."""


def run(first: Steps[_Result]) -> _Result:
    """The result of a step and all steps that it yields. An exception in one ends all of them."""
    waiting: list[Steps[Any]] = []
    current: Steps[Any] = first
    sent: Any = None
    while True:
        try:
            step = current.send(sent)
        except StopIteration as done:
            sent = done.value
            if not waiting:
                result: _Result = sent
                return result
            current = waiting.pop()
        else:
            waiting.append(current)
            current, sent = step, None
