"""Runs a compiled policy on one request, with one object of parameters.

Every expression may cost so much, and all of a policy together so much: what is beyond that is an error, which denies
unless the policy says otherwise. Source: k8s.io/apiserver ``admission/plugin/policy/validating`` (validator).
"""

from __future__ import annotations

from dataclasses import field
from time import perf_counter

from oarlock.meta.dataclass import dataclass
from oarlock.policy.admission.counts import PolicyError
from oarlock.policy.admission.expressions.conditions import (
    BudgetSpent,
    Evaluation,
    ExpressionRun,
    UndecidedConditions,
    all_hold,
    failure_message,
)
from oarlock.policy.admission.policies.engine import CompiledPolicy, CompiledValidation
from oarlock.schema.cel.expression import OBJECT_BUDGET, OUT_OF_BUDGET
from oarlock.schema.cel.problems import CelError

MAX_MESSAGE = 5 * 1024
MAX_ANNOTATION = 10 * 1024


@dataclass(frozen=True, slots=True)
class Failure:
    """A validation that isn't fulfilled, or that can't be told; `number` is its place among the validations.

    `error` says why it can't be told, `seconds` how long its expression took.
    """

    message: str
    reason: str = "Invalid"
    number: int = 0
    error: PolicyError = "no_error"
    seconds: float = 0.0


@dataclass(slots=True)
class PolicyVerdict:
    """What a policy says: its `failures` go by the binding's actions; `errors` of annotations always deny.

    `ignored` are what can't be told, and is let pass by its ``failurePolicy``.
    """

    failures: list[Failure] = field(default_factory=list)
    ignored: list[Failure] = field(default_factory=list)
    errors: list[Failure] = field(default_factory=list)
    annotations: list[tuple[str, str]] = field(default_factory=list)


def evaluate(policy: CompiledPolicy, run: ExpressionRun) -> Evaluation[PolicyVerdict | None]:
    """The verdict of a policy; None if its conditions don't take the request. `run` has the policy's variables."""
    verdict = PolicyVerdict()
    try:
        taken = yield from all_hold(policy.conditions, run)
    except UndecidedConditions as error:
        _untold(policy, verdict).append(Failure(str(error), error="invalid_error"))
        return verdict
    if not taken:
        return None
    run.begin(OBJECT_BUDGET)
    try:
        for number, validation in enumerate(policy.validations):
            yield from _validate(policy, run, (number, validation), verdict)
    except BudgetSpent:
        verdict = PolicyVerdict()
        _untold(policy, verdict).append(Failure(OUT_OF_BUDGET, error="out_of_budget"))
        return verdict
    run.begin(OBJECT_BUDGET)
    yield from _annotate(policy, run, verdict)
    return verdict


def _untold(policy: CompiledPolicy, verdict: PolicyVerdict) -> list[Failure]:
    """Where what can't be told belongs, by the policy's ``failurePolicy``."""
    return verdict.failures if policy.fails else verdict.ignored


def _validate(
    policy: CompiledPolicy, run: ExpressionRun, numbered: tuple[int, CompiledValidation], verdict: PolicyVerdict
) -> Evaluation[None]:
    number, validation = numbered
    began = perf_counter()
    try:
        if (yield from run.value(validation.expression)) is True:
            return
    except CelError as error:
        text = failure_message(validation.expression, error)
        failure = Failure(text, number=number, error="invalid_error", seconds=perf_counter() - began)
        _untold(policy, verdict).append(failure)
        return
    seconds = perf_counter() - began
    message = yield from _message(run, validation)
    verdict.failures.append(Failure(message, validation.reason, number, seconds=seconds))


def _message(run: ExpressionRun, validation: CompiledValidation) -> Evaluation[str]:
    """The message for a validation that failed: from its messageExpression, its message, or the expression."""
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
                    verdict.errors.append(Failure(failure_message(expression, error), error="invalid_error"))
                continue
            text = value.strip()[:MAX_ANNOTATION] if isinstance(value, str) else ""
            if text:
                verdict.annotations.append((key, text))
    except BudgetSpent:
        if policy.fails:
            verdict.errors.append(Failure(OUT_OF_BUDGET, error="out_of_budget"))
