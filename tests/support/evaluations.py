"""Runs evaluations of expressions without an event loop."""

from __future__ import annotations

from typing import Any, TypeVar

from oarlock.policy.admission.expressions import Evaluation, ExpressionRun

T = TypeVar("T")

ENDLESS = 10**12


def result(evaluation: Evaluation[T], run: ExpressionRun) -> T:
    """The result of an evaluation that is never interrupted. Raises what it asks for."""
    while True:
        run.begin_slice(ENDLESS)
        try:
            question: Any = next(evaluation)
        except StopIteration as done:
            found: T = done.value
            return found
        if question is not None:
            raise question
