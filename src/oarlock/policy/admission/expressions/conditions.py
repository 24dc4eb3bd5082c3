"""Match conditions: expressions that must all be true of a request, or a webhook or a policy isn't asked about it.

Source: k8s.io/apiserver ``admission/plugin/webhook/matchconditions``.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from oarlock.meta.dataclass import dataclass
from oarlock.policy.admission.expressions.environment import COMPOSED, NAMES
from oarlock.schema.cel.checker import MessageTypes
from oarlock.schema.cel.compiling import Interruption, Program
from oarlock.schema.cel.expression import (
    CALL_LIMIT,
    CONDITION_BUDGET,
    OBJECT_BUDGET,
    OUT_OF_BUDGET,
    Checked,
    DeclaredVariable,
    check_text,
    mentions,
)
from oarlock.schema.cel.library.authz import Unanswered
from oarlock.schema.cel.problems import CelError, CompileError, EvalError, OverBudget

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


T = TypeVar("T")

Evaluation = Generator[Unanswered | None, None, T]
"""What is run, in pieces."""


class BudgetSpent(Exception):
    """The budget of a policy's or webhook's expressions is spent. No error of an expression: none can catch it."""


class _SliceSpent(Exception):
    """An expression, or a variable that it uses, needs more than is left of the slice."""


class ExpressionRun:
    """Runs expressions with `values`, the values of their variables by name.

    `composed` are variables that are expressions themselves, each computed when it is first used.
    """

    def __init__(self, values: Mapping[str, Any], composed: Mapping[str, CompiledExpression] | None = None) -> None:
        self._values = values
        self._composed = composed or {}
        self._made: dict[str, tuple[Any, EvalError | None]] = {}
        self._making: set[str] = set()
        self._left = OBJECT_BUDGET
        self._slice = 0
        self.spent = 0
        """What all expressions have cost."""
        self.finished = 0
        """How many expressions have been run."""
        self.interruption: Interruption | None = None
        """Stops the expression that is running from elsewhere, if there is one."""

    def begin(self, budget: int) -> None:
        """What runs from now on may cost `budget` together."""
        self._left = budget

    def begin_slice(self, cost: int) -> None:
        """Until the evaluation next yields, expressions may cost so much."""
        self._slice = cost

    def value(self, expression: CompiledExpression) -> Evaluation[Any]:
        """The value of an expression. Raises CelError, and `BudgetSpent`."""
        while True:
            try:
                value = self._run(expression)
            except Unanswered as question:
                yield question
            except _SliceSpent:
                yield None
            except CelError:
                self.finished += 1
                raise
            else:
                self.finished += 1
                return value

    def value_of(self, name: str) -> Any:
        """The value of a composed variable, for expressions that use it. Raises EvalError."""
        if name not in self._made:
            if name in self._making:
                raise EvalError(f"variable {name} needs itself")
            self._making.add(name)
            try:
                self._made[name] = (self._run(self._composed[name]), None)
            except CelError as error:
                text = f'composited variable "{name}" fails to evaluate: {error}'
                self._made[name] = (None, EvalError(text))
            finally:
                self._making.discard(name)
        value, wrong = self._made[name]
        if wrong is not None:
            raise EvalError(str(wrong))
        return value

    def _run(self, expression: CompiledExpression) -> Any:
        if self._slice <= 0:
            raise _SliceSpent
        limit = min(CALL_LIMIT, self._slice)
        values = tuple([self if name == COMPOSED else self._values[name] for name in expression.names])
        try:
            value, cost = expression.program.run(values, limit, self.interruption)
        except OverBudget as error:
            if limit < CALL_LIMIT:
                raise _SliceSpent from None
            self._charge(min(error.cost, CALL_LIMIT))
            raise
        except CelError as error:
            self._charge(min(error.cost, CALL_LIMIT))
            raise
        self._charge(cost)
        return value

    def _charge(self, cost: int) -> None:
        self.spent += cost
        self._slice -= cost
        self._left -= cost
        if self._left < 0:
            raise BudgetSpent


class UndecidedConditions(Exception):
    """It can't be told whether the conditions hold. The text says which failed, and why."""


def all_hold(conditions: Sequence[CompiledExpression], run: ExpressionRun) -> Evaluation[bool]:
    """Whether all conditions hold. One that doesn't decides, whatever others fail with. Raises UndecidedConditions."""
    run.begin(CONDITION_BUDGET)
    failures: list[str] = []
    for condition in conditions:
        try:
            holds = yield from run.value(condition)
        except BudgetSpent:
            failures.append(OUT_OF_BUDGET)
            break
        except CelError as error:
            failures.append(failure_message(condition, error))
            continue
        if holds is not True:
            return False
    if failures:
        once = [*dict.fromkeys(failures)]
        raise UndecidedConditions(once[0] if len(once) == 1 else f"[{', '.join(once)}]")
    return True


def failure_message(expression: CompiledExpression, error: CelError) -> str:
    """The error message for an expression that failed."""
    return f"expression '{expression.source}' resulted in error: {error}"
