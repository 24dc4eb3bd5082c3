"""Runs a compiled policy on one request, with one object of parameters.

Every expression may cost so much, and all of a policy together so much: what is beyond that is an error, which denies
unless the policy says otherwise. Source: k8s.io/apiserver ``admission/plugin/policy/validating`` (validator).
"""

from __future__ import annotations

from dataclasses import field

from oarlock.meta.dataclass import dataclass
from oarlock.policy.admission.expressions.conditions import UndecidedConditions, all_hold, told
from oarlock.policy.admission.expressions.running import BudgetSpent, Evaluation, ExpressionRun
from oarlock.policy.admission.policies.compiled import CompiledPolicy, CompiledValidation
from oarlock.schema.cel.limits import OBJECT_BUDGET, OUT_OF_BUDGET
from oarlock.schema.cel.problems import CelError

__all__ = ["Failure", "PolicyVerdict", "evaluate"]

MAX_MESSAGE = 5 * 1024
MAX_ANNOTATION = 10 * 1024


@dataclass(frozen=True, slots=True)
class Failure:
    """A validation that isn't fulfilled, or that can't be told; `number` is its place among the validations."""

    message: str
    reason: str = "Invalid"
    number: int = 0


@dataclass(slots=True)
class PolicyVerdict:
    """What a policy says: its `failures` go by the binding's actions; `errors` of annotations always deny."""

    failures: list[Failure] = field(default_factory=list)
    errors: list[Failure] = field(default_factory=list)
    annotations: list[tuple[str, str]] = field(default_factory=list)


def evaluate(policy: CompiledPolicy, run: ExpressionRun) -> Evaluation[PolicyVerdict | None]:
    """The verdict of a policy; None if its conditions don't take the request. `run` has the policy's variables."""
    verdict = PolicyVerdict()
    try:
        taken = yield from all_hold(policy.conditions, run)
    except UndecidedConditions as error:
        if policy.fails:
            verdict.failures.append(Failure(str(error)))
        return verdict
    if not taken:
        return None
    run.begin(OBJECT_BUDGET)
    try:
        for number, validation in enumerate(policy.validations):
            failure = yield from _validated(policy, run, validation, number)
            if failure is not None:
                verdict.failures.append(failure)
    except BudgetSpent:
        verdict.failures = [Failure(OUT_OF_BUDGET)] if policy.fails else []
        return verdict
    run.begin(OBJECT_BUDGET)
    yield from _annotate(policy, run, verdict)
    return verdict


def _validated(
    policy: CompiledPolicy, run: ExpressionRun, validation: CompiledValidation, number: int
) -> Evaluation[Failure | None]:
    try:
        if (yield from run.value(validation.expression)) is True:
            return None
    except CelError as error:
        return Failure(told(validation.expression, error), number=number) if policy.fails else None
    message = yield from _message(run, validation)
    return Failure(message, validation.reason, number)


def _message(run: ExpressionRun, validation: CompiledValidation) -> Evaluation[str]:
    """What is told of a validation that failed: by its messageExpression, its message, or the expression."""
    if validation.message_expression is not None:
        try:
            text = yield from run.value(validation.message_expression)
        except CelError:
            text = ""
        text = text.strip() if isinstance(text, str) else ""
        if text and "\n" not in text and len(text) <= MAX_MESSAGE:
            return text
    return validation.message.strip() or f"failed expression: {validation.expression.source.strip()}"


def _annotate(policy: CompiledPolicy, run: ExpressionRun, verdict: PolicyVerdict) -> Evaluation[None]:
    try:
        for key, expression in policy.annotations:
            try:
                value = yield from run.value(expression)
            except CelError as error:
                if policy.fails:
                    verdict.errors.append(Failure(told(expression, error)))
                continue
            text = value.strip()[:MAX_ANNOTATION] if isinstance(value, str) else ""
            if text:
                verdict.annotations.append((key, text))
    except BudgetSpent:
        if policy.fails:
            verdict.errors.append(Failure(OUT_OF_BUDGET))
