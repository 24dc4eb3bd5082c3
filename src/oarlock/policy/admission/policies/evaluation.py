"""Runs a compiled policy on one request, with one object of parameters.

Every expression may cost so much, and all of a policy together so much: what is beyond that is an error, which denies
unless the policy says otherwise. Source: k8s.io/apiserver ``admission/plugin/policy/validating`` (validator).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from oarlock.policy.admission.policies.compiled import CompiledExpression, CompiledPolicy, CompiledValidation
from oarlock.schema.cel.problems import CelError, EvalError

__all__ = ["PER_CALL", "Failure", "PolicyVerdict", "evaluate"]

PER_CALL = 1_000_000
"""What one expression may cost."""

IN_ALL = 10_000_000
"""What the validations of a policy may cost together, with their messages; its audit annotations have as much."""

CONDITIONS = 2_500_000
"""What the match conditions of a policy may cost together."""

MAX_MESSAGE = 5 * 1024
MAX_ANNOTATION = 10 * 1024

_OUT = "validation failed due to running out of cost budget, no further validation rules will be run"


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


class _Stopped(Exception):
    """The whole budget is spent."""


class _PolicyRun:
    """One policy on one request. `values` are the variables of its programs by name."""

    def __init__(self, policy: CompiledPolicy, values: Mapping[str, Any]) -> None:
        self._policy = policy
        self._values = {**values, "variables": self}
        self._made: dict[str, tuple[Any, EvalError | None]] = {}
        self._making: set[str] = set()
        self._left = IN_ALL

    def begin(self, budget: int) -> None:
        self._left = budget

    def value_of(self, name: str) -> Any:
        """The value of a variable of the policy, computed when it is first asked for. Raises EvalError."""
        if name not in self._made:
            if name in self._making:
                raise EvalError(f"variable {name} needs itself")
            self._making.add(name)
            try:
                self._made[name] = (self.run(self._policy.variables[name]), None)
            except CelError as error:
                text = f'composited variable "{name}" fails to evaluate: {error}'
                self._made[name] = (None, EvalError(text))
            finally:
                self._making.discard(name)
        value, wrong = self._made[name]
        if wrong is not None:
            raise EvalError(str(wrong))
        return value

    def run(self, expression: CompiledExpression) -> Any:
        """The value. Raises CelError, and `_Stopped` if nothing is left to spend."""
        values = tuple([self._values[name] for name in expression.names])
        try:
            value, cost = expression.program.run(values, PER_CALL)
        except CelError as error:
            self._spend(min(error.cost, PER_CALL))
            raise
        self._spend(cost)
        return value

    def _spend(self, cost: int) -> None:
        self._left -= cost
        if self._left < 0:
            raise _Stopped


def evaluate(policy: CompiledPolicy, values: Mapping[str, Any]) -> PolicyVerdict | None:
    """The verdict of a policy; None if its conditions don't take the request.

    Raises `library_authz.Unanswered` if somebody's permission must be found out first.
    """
    verdict, run = PolicyVerdict(), _PolicyRun(policy, values)
    run.begin(CONDITIONS)
    try:
        errors = _conditions(policy, run)
    except _Stopped:
        errors = [_OUT]
    if errors is None:
        return None
    if errors:
        message = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
        if policy.fails:
            verdict.failures.append(Failure(message))
        return verdict
    run.begin(IN_ALL)
    try:
        for number, validation in enumerate(policy.validations):
            failure = _validated(policy, run, validation, number)
            if failure is not None:
                verdict.failures.append(failure)
    except _Stopped:
        verdict.failures = [Failure(_OUT)] if policy.fails else []
        return verdict
    run.begin(IN_ALL)
    _annotate(policy, run, verdict)
    return verdict


def _conditions(policy: CompiledPolicy, run: _PolicyRun) -> list[str] | None:
    """The errors of the match conditions; None if one of them is false."""
    errors: list[str] = []
    for condition in policy.conditions:
        try:
            if run.run(condition) is not True:
                return None
        except CelError as error:
            errors.append(_told(condition, error))
    return errors


def _validated(policy: CompiledPolicy, run: _PolicyRun, validation: CompiledValidation, number: int) -> Failure | None:
    try:
        if run.run(validation.expression) is True:
            return None
    except CelError as error:
        return Failure(_told(validation.expression, error), number=number) if policy.fails else None
    return Failure(_message(run, validation), validation.reason, number)


def _message(run: _PolicyRun, validation: CompiledValidation) -> str:
    """What is told of a validation that failed: by its messageExpression, its message, or the expression."""
    if validation.message_expression is not None:
        try:
            text = run.run(validation.message_expression)
        except CelError:
            text = ""
        text = text.strip() if isinstance(text, str) else ""
        if text and "\n" not in text and len(text) <= MAX_MESSAGE:
            return text
    return validation.message.strip() or f"failed expression: {validation.expression.source.strip()}"


def _annotate(policy: CompiledPolicy, run: _PolicyRun, verdict: PolicyVerdict) -> None:
    try:
        for key, expression in policy.annotations:
            try:
                value = run.run(expression)
            except CelError as error:
                if policy.fails:
                    verdict.errors.append(Failure(_told(expression, error)))
                continue
            text = value.strip()[:MAX_ANNOTATION] if isinstance(value, str) else ""
            if text:
                verdict.annotations.append((key, text))
    except _Stopped:
        if policy.fails:
            verdict.errors.append(Failure(_OUT))


def _told(expression: CompiledExpression, error: CelError) -> str:
    return f"expression '{expression.source}' resulted in error: {error}"
