"""An expression in, a program or a refusal out: the seam between rules and everything CEL.

`Engine` is what rules ask for; `engine` is the one there is. Another could parse elsewhere or run elsewhere.
Next: `parsing`, `checker`, `compiling`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from oarlock.schema.cel.ast import Expr
from oarlock.schema.cel.checker import check
from oarlock.schema.cel.compiling import Program, compile_program
from oarlock.schema.cel.declared import Decl
from oarlock.schema.cel.parsing import parse
from oarlock.schema.cel.problems import CompileError
from oarlock.schema.cel.types import Type

__all__ = ["Checked", "Engine", "Runnable", "Variable", "engine"]


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of an expression. With `decl` it is given as the tree has it, else as a value."""

    type: Type
    decl: Decl | None = None


class Checked(Protocol):
    """An expression whose types fit."""

    @property
    def tree(self) -> Expr: ...

    @property
    def type(self) -> Type:
        """The type of its value."""
        ...

    def program(self) -> Runnable:
        """What runs it. CompileError for what is bound to fail."""
        ...


class Runnable(Protocol):
    """A program."""

    def run(self, values: tuple[Any, ...], limit: int) -> tuple[Any, int]:
        """The value for these values of the variables, in their order, and what it cost.

        EvalError when there is no value, OverBudget when it costs more than `limit`; both have the ``cost`` set.
        """
        ...


class Engine(Protocol):
    """Understands expressions."""

    def check(self, source: str, variables: Mapping[str, Variable]) -> Checked:
        """Parse and check. CompileError with line, column and a caret."""
        ...


@dataclass(frozen=True, slots=True)
class _Checked:
    source: str
    tree: Expr
    variables: Mapping[str, Variable]

    @property
    def type(self) -> Type:
        return self.tree.type

    def program(self) -> Program:
        try:
            return compile_program(self.tree, self.source, {name: found.decl for name, found in self.variables.items()})
        except RecursionError as error:
            raise _too_deep() from error


class _OurEngine:
    def check(self, source: str, variables: Mapping[str, Variable]) -> Checked:
        try:
            tree = check(parse(source), source, {name: found.type for name, found in variables.items()})
        except RecursionError as error:
            raise _too_deep() from error
        return _Checked(source, tree, variables)


def _too_deep() -> CompileError:
    # parsing and checking don't recurse, but types and literals do, and the caller may be deep in the stack already
    return CompileError("ERROR: <input>:1:1: the expression nests too deeply")


engine: Engine = _OurEngine()
"""The one of `parsing`, `checker` and `compiling`."""
