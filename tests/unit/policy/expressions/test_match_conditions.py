"""Match conditions of webhooks and policies: one that is false decides, errors do where none is."""

from __future__ import annotations

from typing import Any

import pytest
from evaluations import result

from oarlock.meta.context import User
from oarlock.policy.admission import expressions as match_conditions
from oarlock.policy.admission.expressions import (
    AUTHORIZER,
    AUTHORIZER_OF_REQUEST,
    ExpressionRun,
    FaultyExpression,
    UndecidedConditions,
    all_hold,
)
from oarlock.policy.admission.webhooks.rules import call_condition, stored_condition
from oarlock.schema.cel.expression import OUT_OF_BUDGET
from oarlock.schema.cel.library.authz import Permissions, UserAuthorizer

FAILS = "object.missing == 1"


def holds(*sources: str, new: Any = None) -> bool:
    authorizer = UserAuthorizer(User("ann"), Permissions())
    values = {"object": new or {}, "oldObject": None, "request": {}, "namespaceObject": None}
    run = ExpressionRun({**values, AUTHORIZER: authorizer, AUTHORIZER_OF_REQUEST: None})
    return result(all_hold([stored_condition(one) for one in sources], run), run)


def test_conditions_are_decided_as_in_kubernetes(shared_vectors: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for case in shared_vectors("admission_cel.json")["groups"]["matchconditions.TestMatch.cases"]:
        sources = [FAILS if "Error" in one else "true" if one["EvalResult"] else "false" for one in case["evaluations"]]
        error, taken = "", False
        with monkeypatch.context() as patch:
            if case.get("throwError"):
                patch.setattr(match_conditions, "CONDITION_BUDGET", -1)
            try:
                taken = holds(*sources)
            except UndecidedConditions as undecided:
                error = "" if case.get("failPolicy") == "Ignore" else str(undecided)
        assert bool(error) is ("expectError" in case), case["name"]
        assert error or taken is case.get("shouldMatch", False), case["name"]


def test_every_error_is_told_once() -> None:
    missing = "expression 'object.missing == 1' resulted in error: no such key: missing"
    with pytest.raises(UndecidedConditions) as told:
        holds(FAILS, FAILS)
    assert str(told.value) == missing
    with pytest.raises(UndecidedConditions) as told:
        holds(FAILS, "object.other")
    assert str(told.value).startswith(f"[{missing}, expression 'object.other' resulted in error: must evaluate to bool")


def test_a_stored_condition_that_is_not_valid_here_fails_by_itself() -> None:
    with pytest.raises(UndecidedConditions, match=r"resulted in error: compilation failed: .*undeclared reference"):
        holds("authorizer.x()", "true")
    assert not holds("authorizer.x()", "false")


def test_conditions_have_a_budget_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(match_conditions, "CONDITION_BUDGET", 5_000)
    costly = "object.items.all(a, object.items.all(b, a + b >= 0))"
    items = {"items": list(range(20))}
    assert holds(costly, new=items)
    with pytest.raises(UndecidedConditions) as told:
        holds(*[costly] * 8, new=items)
    assert str(told.value) == OUT_OF_BUDGET


@pytest.mark.parametrize("source", ["params.x == 1", "variables.x", "request.name", "true" * 5000])
def test_what_no_webhook_can_ask_for_is_refused(source: str) -> None:
    with pytest.raises(FaultyExpression):
        call_condition(source)


@pytest.mark.parametrize(
    "source",
    [
        "authorizer.path('/healthz').check('get').allowed()",
        "authorizer.group('').resource('pods').namespace(request.namespace).check('get').allowed()",
        "!authorizer.requestResource.check('breakglass').allowed()",
        "namespaceObject == null",
    ],
)
def test_what_webhooks_can_ask_for(source: str) -> None:
    call_condition(source, "x")
