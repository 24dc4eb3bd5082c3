"""Compiles one expression: all that rules need of the language.

See also: `parsing`, `checker`, `compiling`, the three steps.
"""

from __future__ import annotations

from collections.abc import Mapping

from oarlock.meta.dataclass import dataclass
from oarlock.schema.cel.checker import MessageTypes, check
from oarlock.schema.cel.compiling import Program, compile_program
from oarlock.schema.cel.declared import Decl
from oarlock.schema.cel.problems import CompileError
from oarlock.schema.cel.syntax.ast import Expr
from oarlock.schema.cel.syntax.parsing import parse
from oarlock.schema.cel.types import CelType

__all__ = ["Checked", "DeclaredVariable", "check_text"]


@dataclass(frozen=True, slots=True)
class DeclaredVariable:
    """A variable of an expression. With `decl` it is given as the tree has it, else as a value."""

    type: CelType
    decl: Decl | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """An expression that has passed the type checker."""

    source: str
    tree: Expr
    variables: Mapping[str, DeclaredVariable]

    @property
    def type(self) -> CelType:
        """The type of the result."""
        return self.tree.type

    def program(self) -> Program:
        """The compiled program. CompileError for an expression that always fails."""
        try:
            return compile_program(
                self.tree, self.source, {name: variable.decl for name, variable in self.variables.items()}
            )
        except RecursionError as error:
            raise _too_deep() from error


def check_text(source: str, variables: Mapping[str, DeclaredVariable], messages: MessageTypes | None = None) -> Checked:
    """Parse and check. `messages` are those that it may make. CompileError with line, column and a caret."""
    try:
        known = {name: variable.type for name, variable in variables.items()}
        tree = check(parse(source), source, known, messages=messages)
    except RecursionError as error:
        raise _too_deep() from error
    return Checked(source, tree, variables)


def _too_deep() -> CompileError:
    # parsing and checking don't recurse, but types and literals do, and the caller may be deep in the stack already
    return CompileError("ERROR: <input>:1:1: the expression nests too deeply")
