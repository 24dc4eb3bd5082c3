"""`ExpressionRun`: the expressions of one policy or webhook on one request.

What is run is written as a generator, an `Evaluation`: between two expressions, and when an expression can't go on, it
yields. It is told `Unanswered`, somebody's permission that must be found out first, or None, if it has used up its
slice; after either it is resumed, on the event loop or in a thread, and runs the expression again. What was
finished is kept. See also: `waiting`, which resumes it.
Source: k8s.io/apiserver ``admission/plugin/cel`` (condition, composition).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, TypeVar

from oarlock.policy.admission.expressions.compiling import CompiledExpression
from oarlock.policy.admission.expressions.environment import COMPOSED
from oarlock.schema.cel.compiling import Interruption
from oarlock.schema.cel.library.authz import Unanswered
from oarlock.schema.cel.limits import CALL_LIMIT, OBJECT_BUDGET
from oarlock.schema.cel.problems import CelError, EvalError, OverBudget

__all__ = ["BudgetSpent", "Evaluation", "ExpressionRun"]

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
