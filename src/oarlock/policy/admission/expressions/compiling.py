"""`CompiledExpression`: an expression with its program, or a `Fault`, what is wrong with it.

Compiling is the costly part: it is done once for each object that is written. See also: `environment`, `running`.
Source: k8s.io/apiserver ``admission/plugin/cel`` (compiler).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from oarlock.meta.dataclass import dataclass
from oarlock.policy.admission.expressions.environment import NAMES
from oarlock.schema.cel.checker import MessageTypes
from oarlock.schema.cel.compiling import Interruption, Program
from oarlock.schema.cel.expression import Checked, DeclaredVariable, check_text
from oarlock.schema.cel.problems import CompileError, EvalError
from oarlock.schema.cel.rule import mentions

__all__ = [
    "ANNOTATION",
    "BOOL",
    "STRING",
    "CompiledExpression",
    "Fault",
    "FaultyExpression",
    "check_expression",
    "compile_expression",
    "program_of",
    "unusable_expression",
]

BOOL, STRING, ANNOTATION = ("bool",), ("string",), ("string", "null_type")
"""The types that a result may have: of a condition, of a message, of the value of an audit annotation."""

MAX_EXPRESSION = 16 * 1024
"""Characters of an expression that is compiled; Kubernetes' bound of a rule in a CustomResourceDefinition."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with the expression at a path."""

    path: str
    expression: str
    text: str


class FaultyExpression(Exception):
    """An expression can't be used. `detail` is what the compiler says, if it was the compiler."""

    def __init__(self, path: str, expression: str, text: str, detail: str = "") -> None:
        super().__init__(text)
        self.fault = Fault(path, expression, text)
        self.detail = detail or text


class _FailingProgram:
    """Stands for the program of a stored expression that isn't valid here, as one that another server has written."""

    __slots__ = ("_why",)

    def __init__(self, why: str) -> None:
        self._why = why

    def run(self, values: tuple[Any, ...], limit: int, interruption: Interruption | None = None) -> tuple[Any, int]:
        """Raises EvalError."""
        raise EvalError(self._why)


@dataclass(frozen=True, slots=True)
class CompiledExpression:
    """An expression, its program, and the names of the variables that the program takes, in order."""

    source: str
    program: Program | _FailingProgram
    names: tuple[str, ...]
    path: str = ""


def unusable_expression(fault: Fault) -> CompiledExpression:
    """An expression that always fails, with the text of its fault."""
    return CompiledExpression(fault.expression, _FailingProgram(fault.text), (), fault.path)


def compile_expression(
    source: str, path: str, scope: Mapping[str, DeclaredVariable], results: tuple[str, ...] = BOOL
) -> CompiledExpression:
    """Compile an expression that may name what is in `scope`, and whose type is one of `results`.

    Raises FaultyExpression, which names `path`.
    """
    checked = check_expression(source, path, scope)
    kind = {"null": "null_type"}.get(checked.type.kind, checked.type.kind)
    if kind not in results:
        wanted = results[0] if len(results) == 1 else f"one of [{' '.join(results)}]"
        text = f"must evaluate to {wanted} but got {checked.type if kind != 'null_type' else kind}"
        raise FaultyExpression(path, source, text)
    return program_of(checked, path)


def check_expression(
    source: str, path: str, scope: Mapping[str, DeclaredVariable], messages: MessageTypes | None = None
) -> Checked:
    """Parse an expression and check its types; it may make `messages`. Raises FaultyExpression."""
    if len(source) > MAX_EXPRESSION:
        text = f"compilation failed: it has more than {MAX_EXPRESSION} characters"
        raise FaultyExpression(path, source[:64], text)
    try:
        checked = check_text(source, {name: scope[name] for name in NAMES if name in scope}, messages)
    except CompileError as error:
        raise FaultyExpression(path, source, f"compilation failed: {error}", str(error)) from error
    try:
        used = {name: variable for name, variable in checked.variables.items() if mentions(checked.tree, name)}
    except RecursionError:
        return checked
    return replace(checked, variables=used)


def program_of(checked: Checked, path: str) -> CompiledExpression:
    """The program of an expression of any type. Raises FaultyExpression."""
    try:
        return CompiledExpression(checked.source, checked.program(), tuple(checked.variables), path)
    except CompileError as error:
        raise FaultyExpression(path, checked.source, f"compilation failed: {error}", str(error)) from error
