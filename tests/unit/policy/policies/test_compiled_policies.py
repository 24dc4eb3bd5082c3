"""Policies are compiled once, run within a budget, and say what Kubernetes says."""

from __future__ import annotations

from typing import Any

import pytest
from evaluations import result

from oarlock.meta.context import User
from oarlock.policy.admission import expressions
from oarlock.policy.admission.expressions import (
    AUTHORIZER,
    AUTHORIZER_OF_REQUEST,
    MAX_EXPRESSION,
    ExpressionRun,
)
from oarlock.policy.admission.policies import engine
from oarlock.policy.admission.policies.engine import CompiledPolicy, PolicyVerdict, compile_policy, evaluate
from oarlock.schema.cel.library.authz import Permission, Permissions, Unanswered, UserAuthorizer

RED = {"metadata": {"name": "a"}, "data": {"color": "red", "shape": None}}


def policy(*validations: str, **spec: Any) -> CompiledPolicy:
    given = {"validations": [{"expression": one} for one in validations], **spec}
    return compile_policy({"metadata": {"name": "p"}, "spec": given})


def verdict(compiled: CompiledPolicy, new: Any = RED, **values: Any) -> PolicyVerdict | None:
    assert not compiled.faults
    authorizer = UserAuthorizer(User("ann"), values.pop("answers", Permissions()))
    request = {"operation": "CREATE", "userInfo": {"username": "ann"}, "dryRun": False}
    known = {"object": new, "oldObject": None, "request": request, "namespaceObject": None, "params": None}
    given = {**known, AUTHORIZER: authorizer, AUTHORIZER_OF_REQUEST: None, **values}
    run = ExpressionRun(given, compiled.variables)
    return result(evaluate(compiled, run), run)


def messages(compiled: CompiledPolicy, new: Any = RED, **values: Any) -> list[str]:
    found = verdict(compiled, new, **values)
    assert found is not None
    return [one.message for one in found.failures]


def test_what_is_false_is_told_with_the_expression() -> None:
    assert messages(policy(" object.data.color == 'blue' ")) == ["failed expression: object.data.color == 'blue'"]
    assert messages(policy("object.data.color == 'red'")) == []


def test_errors_deny_unless_failures_are_ignored() -> None:
    text = "expression 'object.data.size == 'x'' resulted in error: no such key: size"
    assert messages(policy("object.data.size == 'x'")) == [text]
    assert messages(policy("object.data.size == 'x'", failurePolicy="Ignore")) == []


def test_a_parameter_that_is_null_has_no_fields() -> None:
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    text = "expression 'params.metadata.name == 'x'' resulted in error: no such key: metadata"
    assert messages(policy("params.metadata.name == 'x'", paramKind=kind)) == [text]
    assert messages(policy("!has(params.metadata)", paramKind=kind)) == []


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ({"messageExpression": "'it is ' + object.data.color"}, "it is red"),
        ({"messageExpression": "'x' + object.data.none", "message": " plain "}, "plain"),
        ({"messageExpression": "'a\\nb'"}, "failed expression: false"),
        ({"messageExpression": "' '"}, "failed expression: false"),
    ],
)
def test_the_message_is_computed_where_it_can_be(message: dict[str, str], told: str) -> None:
    spec = {"validations": [{"expression": "false", **message}]}
    assert messages(compile_policy({"metadata": {"name": "p"}, "spec": spec})) == [told]


def test_conditions_leave_requests_out() -> None:
    conditions = [{"name": "c", "expression": "object.data.color == 'green'"}]
    assert verdict(policy("false", matchConditions=conditions)) is None
    broken = [{"name": "c", "expression": "object.x.y == 1"}, {"name": "d", "expression": "false"}]
    assert verdict(policy("false", matchConditions=broken)) is None
    assert messages(policy("true", matchConditions=broken[:1])) == [
        "expression 'object.x.y == 1' resulted in error: no such key: x"
    ]


def test_variables_are_computed_once_and_only_when_asked_for() -> None:
    variables = [
        {"name": "none", "expression": "oldObject"},
        {"name": "color", "expression": "object.data.color"},
        {"name": "broken", "expression": "object.nothing"},
    ]
    assert messages(policy("variables.color == 'red' && variables.none == null", variables=variables)) == []
    [text] = messages(policy("variables.broken == 1", variables=variables))
    assert text.endswith('composited variable "broken" fails to evaluate: no such key: nothing')


def test_a_variable_that_hides_itself_ends() -> None:
    variables = [{"name": "a", "expression": "true"}, {"name": "a", "expression": "variables.a"}]
    [text] = messages(policy("variables.a", variables=variables))
    assert "needs itself" in text


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("'a'", "must evaluate to bool but got string"),
        ("object.x", "must evaluate to bool but got dyn"),
        ("params.x == 1", "compilation failed: ERROR: <input>:1:1: undeclared reference to 'params'"),
        ("variables.x == 1", "compilation failed: ERROR: <input>:1:1: undeclared reference to 'variables'"),
        ("request.nothing == ''", "compilation failed: ERROR: <input>:1:8: undefined field 'nothing'"),
        ("(" * 5000 + "true" + ")" * 5000, "compilation failed: ERROR"),
        ("true" + " " * MAX_EXPRESSION, f"compilation failed: it has more than {MAX_EXPRESSION} characters"),
    ],
)
def test_what_cannot_be_compiled_is_told(expression: str, fault: str) -> None:
    [found] = policy(expression).faults
    assert found.path == "spec.validations[0].expression"
    assert found.text.startswith(fault)


def test_messages_cannot_ask_for_permissions() -> None:
    asks = "string(authorizer.path('/x').check('get').allowed())"
    spec = {"validations": [{"expression": "true", "messageExpression": asks}]}
    [fault] = compile_policy({"metadata": {"name": "p"}, "spec": spec}).faults
    assert "undeclared reference to 'authorizer'" in fault.text


def test_an_expression_has_a_budget() -> None:
    costly = "object.items.all(a, object.items.all(b, object.items.all(c, a + b + c >= 0)))"
    [text] = messages(policy(costly), {"items": list(range(200))})
    assert text == f"expression '{costly}' resulted in error: operation cancelled: actual cost limit exceeded"


def test_a_policy_has_a_budget_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "OBJECT_BUDGET", 20_000)
    costly = "object.items.all(a, object.items.all(b, a + b >= 0))"
    many = [costly] * 40
    items = {"items": list(range(20))}
    out = "validation failed due to running out of cost budget, no further validation rules will be run"
    assert messages(policy(costly), items) == []
    assert messages(policy(*many), items) == [out]
    assert messages(policy(*many, failurePolicy="Ignore"), items) == []


def test_conditions_have_a_budget_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "CONDITION_BUDGET", 5_000)
    costly = "object.items.all(a, object.items.all(b, a + b >= 0))"
    matched = [{"name": f"c{at}", "expression": costly} for at in range(8)]
    [text] = messages(policy("true", matchConditions=matched), {"items": list(range(20))})
    assert "running out of cost budget" in text


def test_permissions_are_asked_for_from_outside() -> None:
    compiled = policy("authorizer.group('').resource('pods').namespace('x').check('get').allowed()")
    answers = Permissions()
    with pytest.raises(Unanswered) as asked:
        verdict(compiled, answers=answers)
    question = asked.value.question
    target = question.target
    assert (question.name, target.verb, target.resource, target.namespace) == ("ann", "get", "pods", "x")
    answers.known[question] = Permission(True)
    assert messages(compiled, answers=answers) == []
    answers.known[question] = Permission(False)
    assert len(messages(compiled, answers=answers)) == 1


def test_too_many_questions_are_over_the_budget() -> None:
    asks = " || ".join(f"authorizer.path('/{at}').check('get').allowed()" for at in range(4))
    answers = Permissions()
    compiled = policy(asks)
    for _ in range(10):
        try:
            [text] = messages(compiled, answers=answers)
            break
        except Unanswered as asked:
            answers.known[asked.question] = Permission(False)
    assert "actual cost limit exceeded" in text
    assert len(answers.known) <= 3


def test_audit_annotations_are_texts_or_nothing() -> None:
    annotations = [
        {"key": "a", "valueExpression": "' ' + object.data.color"},
        {"key": "b", "valueExpression": "null"},
        {"key": "c", "valueExpression": "'x' + object.none"},
    ]
    found = verdict(policy(auditAnnotations=annotations))
    assert found is not None
    assert found.annotations == [("a", "red")]
    assert [one.message for one in found.errors] == [
        "expression ''x' + object.none' resulted in error: no such key: none"
    ]
