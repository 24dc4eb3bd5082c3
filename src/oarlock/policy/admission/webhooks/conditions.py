"""`CallCondition`: whether a webhook is asked, as an expression in CEL about the objects and the request.

``object``, ``oldObject`` and ``namespaceObject`` may be anything; ``request`` is that of the AdmissionReview without
its objects.
Source: k8s.io/apiserver ``admission/plugin/webhook/matchconditions``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oarlock.schema.cel import types
from oarlock.schema.cel.declared import declare
from oarlock.schema.cel.expression import Variable, check_text
from oarlock.schema.cel.problems import CelError, EvalError, OverBudget
from oarlock.schema.structural import parse

__all__ = ["CallCondition", "Subject", "UndecidedConditions", "UnusableCondition", "all_hold"]

Tree = dict[str, Any]

BUDGET = 2_500_000
"""What the conditions of one webhook may cost, together."""

_OVER_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"
_TEXT: Tree = {"type": "string"}


def _texts(*names: str) -> Tree:
    return {"type": "object", "properties": dict.fromkeys(names, _TEXT)}


_KIND, _RESOURCE = _texts("group", "version", "kind"), _texts("group", "version", "resource")
_TEXTS = {"type": "array", "items": _TEXT}
_USER = {
    "type": "object",
    "properties": {
        "username": _TEXT,
        "uid": _TEXT,
        "groups": _TEXTS,
        "extra": {"type": "object", "additionalProperties": _TEXTS},
    },
}
_REQUEST = declare(
    parse(
        {
            "type": "object",
            "properties": {
                "kind": _KIND,
                "resource": _RESOURCE,
                "requestKind": _KIND,
                "requestResource": _RESOURCE,
                **dict.fromkeys(
                    ("subResource", "requestSubResource", "name", "namespace", "operation", "uid"),
                    _TEXT,
                ),
                "userInfo": _USER,
                "dryRun": {"type": "boolean"},
            },
        }
    ),
    path="request",
)
assert _REQUEST is not None
_VARIABLES = {
    "object": Variable(types.DYN),
    "oldObject": Variable(types.DYN),
    "request": Variable(_REQUEST.type, _REQUEST),
    "namespaceObject": Variable(types.DYN),
}

Subject = tuple[Tree | None, Tree | None, Tree, None]
"""What conditions are about: object, oldObject, request, and no namespace, of which webhooks aren't told."""


class UndecidedConditions(Exception):
    """It can't be told whether the conditions hold. The text says which failed, and why."""


class CallCondition:
    """A compiled condition. Raises CompileError for one that isn't valid, ValueError for one that is no condition."""

    __slots__ = ("_program", "source")

    def __init__(self, source: str) -> None:
        self.source = source
        checked = check_text(source, _VARIABLES)
        if checked.type != types.BOOL:
            raise ValueError(f"must evaluate to bool but got {checked.type}")
        self._program = checked.program()

    def run(self, subject: Subject, budget: int) -> tuple[bool, int]:
        """Whether it holds, and what it cost. Raises CelError."""
        value, cost = self._program.run(subject, budget)
        return value is True, cost


class UnusableCondition:
    """Stands for a stored condition that isn't valid here, as one written by another server may be: it always fails."""

    __slots__ = ("_why", "source")

    def __init__(self, source: str, why: str) -> None:
        self.source = source
        self._why = why

    def run(self, subject: Subject, budget: int) -> tuple[bool, int]:
        """Raises EvalError."""
        raise EvalError(self._why)


def all_hold(conditions: Sequence[CallCondition | UnusableCondition], subject: Subject) -> bool:
    """Whether all conditions hold. One that doesn't decides, whatever others fail with. Raises UndecidedConditions."""
    left, failures = BUDGET, []
    for condition in conditions:
        try:
            holds, cost = condition.run(subject, left)
        except OverBudget:
            failures.append(
                "validation failed due to running out of cost budget, no further validation rules will be run"
            )
            break
        except CelError as error:
            failures.append(f"expression '{condition.source}' resulted in error: {error}")
            left -= error.cost
            continue
        if not holds:
            return False
        left -= cost
    if failures:
        raise UndecidedConditions(failures[0] if len(failures) == 1 else f"[{', '.join(failures)}]")
    return True
