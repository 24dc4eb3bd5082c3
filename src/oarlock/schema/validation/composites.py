"""Validation of allOf, anyOf, oneOf and not.

When no branch matches, the errors of the best matching branch are reported, as in Kubernetes.
See also: `validation`, which compiles the branches. Source: kube-openapi's schema props validator.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from oarlock.schema.structural.nodes import Constraints, Node
from oarlock.schema.validation.findings import Check, Enough, ValidationFindings, Where, json_type

Branch: TypeAlias = tuple[Check, Node]
Branches: TypeAlias = dict[str, list[Branch]]


def has_branches(rules: Constraints) -> bool:
    return bool(rules.all_of or rules.any_of or rules.one_of or rules.not_ is not None)


def compile_branches(branches: Branches) -> Check:
    """One check for all branches of a node."""
    any_of, one_of, all_of, not_ = branches["anyOf"], branches["oneOf"], branches["allOf"], branches["not"]

    def check_branches(value: Any, where: Where, findings: ValidationFindings) -> None:
        if any_of:
            _any_of(any_of, value, where, findings)
        if one_of:
            _one_of(one_of, value, where, findings)
        if all_of:
            _all_of(all_of, value, where, findings)
        if not_ and not _try(not_[0][0], value, where):
            findings.composite(where, "{} must not validate the schema (not)")

    return check_branches


def _try(check: Check, value: Any, where: Where) -> ValidationFindings:
    findings = ValidationFindings()
    try:
        check(value, where, findings)
    except Enough:
        pass
    return findings


def _any_of(branches: list[Branch], value: Any, where: Where, findings: ValidationFindings) -> None:
    failures = []
    for check, node in branches:
        tried = _try(check, value, where)
        if not tried:
            return
        failures.append((tried, node))
    findings.composite(where, "{} must validate at least one schema (anyOf)")
    findings.extend(_nearest(failures, value))


def _one_of(branches: list[Branch], value: Any, where: Where, findings: ValidationFindings) -> None:
    failures = []
    for check, node in branches:
        tried = _try(check, value, where)
        if tried:
            failures.append((tried, node))
    valid = len(branches) - len(failures)
    if valid == 1:
        return
    if valid:
        findings.composite(
            where, f"{{}} must validate one and only one schema (oneOf). Found {valid} valid alternatives"
        )
        return
    findings.composite(where, "{} must validate one and only one schema (oneOf). Found none valid")
    findings.extend(_nearest(failures, value))


def _all_of(branches: list[Branch], value: Any, where: Where, findings: ValidationFindings) -> None:
    failed = 0
    for check, _node in branches:
        tried = _try(check, value, where)
        if tried:
            failed += 1
            findings.extend(tried)
    if failed:
        none = ". None validated" if failed == len(branches) else ""
        findings.composite(where, f"{{}} must validate all the schemas (allOf){none}")


def _nearest(failures: list[tuple[ValidationFindings, Node]], value: Any) -> ValidationFindings:
    best, best_score = failures[0][0], -1
    for tried, node in failures:
        score = _matches(value, node)
        if score > best_score:
            best, best_score = tried, score
    return best


def _matches(value: Any, node: Node) -> int:
    """How much of a value a schema covers: the measure for the best matching branch."""
    actual = json_type(value)
    score = 1 if not node.type or node.type == actual or (actual, node.type) == ("integer", "number") else 0
    if actual == "number" and node.type in ("number", "integer"):
        score += 1
    if type(value) is dict:
        score += sum(1 + _matches(value[key], child) for key, child in node.properties.items() if key in value)
    elif type(value) is list and node.items is not None:
        items = node.items
        score += sum(_matches(item, items) for item in value[:100])
    return score
