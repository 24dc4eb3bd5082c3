"""Match conditions: expressions that must all be true of a request, or a webhook or a policy isn't asked about it.

Source: k8s.io/apiserver ``admission/plugin/webhook/matchconditions``.
"""

from __future__ import annotations

from collections.abc import Sequence

from oarlock.policy.admission.expressions.compiling import CompiledExpression
from oarlock.policy.admission.expressions.running import BudgetSpent, Evaluation, ExpressionRun
from oarlock.schema.cel.limits import CONDITION_BUDGET, OUT_OF_BUDGET
from oarlock.schema.cel.problems import CelError

__all__ = ["UndecidedConditions", "all_hold", "failure_message"]


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
