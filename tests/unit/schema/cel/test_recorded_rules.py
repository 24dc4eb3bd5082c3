"""Every case of the table `crd_cel.json`: rules, levels, messages, ratcheting, field paths.

One of 892 ends otherwise, with the reason beside it.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from oarlock.schema.cel.expression import CALL_LIMIT, OBJECT_BUDGET, Budget
from oarlock.schema.cel.rules import FieldPathError, compile_rules, normalized
from oarlock.schema.structural.nodes import parse

REFUSED_SOONER = {
    "default rule message used if messageExpression does not eval to string"
}  # where rules are declared, as there


@pytest.fixture(scope="module")
def groups(shared_vectors: Any) -> Any:
    return shared_vectors("crd_cel.json")["groups"]


def plain(value: Any) -> Any:
    """Numbers that the table writes as text, as numbers."""
    if isinstance(value, dict):
        if set(value) == {"$int"}:
            return int(value["$int"])
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def errors_of(schema: Any, obj: Any, old: Any, budget: Budget | None = None) -> tuple[list[str], int]:
    """What is wrong with the rules of a schema, or else with an object; and what is left of the budget."""
    rules, mistakes = compile_rules(schema, parse(schema), bounded=False)
    if mistakes:
        return [error.message for error in mistakes], 0
    budget = budget or Budget(OBJECT_BUDGET, CALL_LIMIT)
    found = [] if rules is None else rules.spend(obj, old, budget, at=(None, "root"))
    return [error.message for error in found], budget.left


def with_rule(case: Any, rule: str) -> Any:
    schema = plain(copy.deepcopy(case["schema_openapi"]))
    schema["x-kubernetes-validations"] = [{"rule": rule, "message": "broken"}]
    return schema


def test_rules_that_hold(groups: Any) -> None:
    ran = 0
    for case in groups["cel.TestValidationExpressions.tests"]:
        obj, old = plain(case.get("obj")), plain(case.get("oldObj"))
        for rule in case.get("valid", []):
            found, left = errors_of(with_rule(case, rule), obj, old)
            assert found == [], (case["name"], rule)
            if "expectedCost" in case:
                assert OBJECT_BUDGET - left == case["expectedCost"], rule
            ran += 1
    assert ran == 714


def test_rules_that_fail_say_why(groups: Any) -> None:
    ran = 0
    for case in groups["cel.TestValidationExpressions.tests"]:
        obj, old = plain(case.get("obj")), plain(case.get("oldObj"))
        for rule, text in (case.get("errors") or {}).items():
            found, _ = errors_of(with_rule(case, rule), obj, old)
            assert found, (case["name"], rule)
            wanted = text.partition(" evaluating rule")[0].removeprefix("compile error: ")
            assert any(wanted.removeprefix("compilation failed: ") in one for one in found), (rule, found)
            ran += 1
    assert ran > 60


@pytest.mark.parametrize(
    "group",
    [
        "cel.TestOptionalOldSelf.tests",
        "cel.TestOptionalOldSelfCheckForNull.tests",
        "cel.TestRatcheting.cases",
        "cel.TestValidationExpressionsAtSchemaLevels.tests",
    ],
)
def test_levels_and_updates(groups: Any, group: str) -> None:
    for case in groups[group]:
        obj, old = plain(case.get("obj", case.get("newObj"))), plain(case.get("oldObj"))
        schema = plain(copy.deepcopy(case["schema_openapi"]))
        if "Optional" in group:
            schema["x-kubernetes-validations"][0].update(optionalOldSelf=True, message="failed rule")
        budget = Budget(case["runtimeCostBudget"], CALL_LIMIT) if "runtimeCostBudget" in case else None
        found, _ = errors_of(schema, obj, old, budget)
        wanted = [text.removeprefix("rule compile error: ") for text in case.get("errors") or []]
        assert len(found) == len(wanted), (case["name"], found)
        assert all(any(text in one for one in found) for text in wanted), (case["name"], found)


def test_messages_made_by_expressions(groups: Any) -> None:
    for case in groups["cel.TestMessageExpression.tests"]:
        rule = {"rule": "false", "messageExpression": case["messageExpression"], "message": case.get("message", "")}
        schema = {"type": "object", "properties": {"str": {"type": "string"}}, "x-kubernetes-validations": [rule]}
        budget = Budget(case["costBudget"], case.get("perCallLimit", CALL_LIMIT))
        found, left = errors_of(schema, {"str": "a string"}, None, budget)
        if case["name"] in REFUSED_SOONER:
            assert "messageExpression must evaluate to a string" in found[0]
            continue
        assert case["expectedValidationErr"] in found[0], case["name"]
        if "expectedRemainingBudget" in case:
            assert left == case["expectedRemainingBudget"], case["name"]


def shown(path: Any) -> str:
    if not path:
        return ""
    before = shown(path.get("parent"))
    if "index" in path:
        return f"{before}[{path['index']}]"
    return f"{before}.{path['name']}" if before else str(path["name"])


def test_field_paths(groups: Any) -> None:
    for case in groups["cel.TestValidateFieldPath.tests"]:
        node = parse(case["schema_openapi"])
        if "errDetail" in case:
            with pytest.raises(FieldPathError) as refused:
                normalized(case["fieldPath"], node)
            assert case["errDetail"] in str(refused.value)
        else:
            found = normalized(case["fieldPath"], node)
            assert "validFieldPath" not in case or found == shown(case["validFieldPath"])
