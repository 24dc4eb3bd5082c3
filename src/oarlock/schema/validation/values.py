"""Validates a tree against its schema: every violation, with Kubernetes' paths and messages.

`compile_check` makes one function per node of the schema. The fast path compares types and calls only
checks of constraints; paths and messages are made only for errors.
Must not know: metadata, defaults, lists as sets and maps (`listtypes`), embedded objects (`embedded`).
Source: OpenAPI v3 as CustomResourceDefinitions use it; kube-openapi validation for order and wording.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from oarlock.schema.structural.nodes import Constraints, Node
from oarlock.schema.validation.findings import Check, Enough, ValidationFindings, Where, json_type
from oarlock.schema.validation.ratcheting import frozen
from oarlock.schema.validation.scalars import compile_enum, compile_number, compile_text

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


_Parts: TypeAlias = "dict[type, tuple[Check, ...]]"

_PYTHON: dict[str, frozenset[type]] = {
    "string": frozenset({str}),
    "integer": frozenset({int}),
    "number": frozenset({int, float}),
    "boolean": frozenset({bool}),
    "object": frozenset({dict}),
    "array": frozenset({list}),
}
_ALL: frozenset[type] = frozenset({str, int, float, bool, dict, list})
_GO_FORMAT = {int: "int64", float: "float64"}


def compile_check(node: Node) -> Check | None:
    """A function that reports the errors of a value; None when there can't be any."""
    accepted = _accepted(node)
    parts = _parts(node)
    if accepted == _ALL and not parts:
        return None
    slow = _general(node, accepted, parts)
    if len(accepted) != 1:
        return slow
    (kind,) = accepted
    mine = parts.get(kind, ())
    if not mine:
        return _only_type(kind, slow)
    if len(mine) == 1:
        return _one_part(kind, mine[0], slow)
    return slow


def _accepted(node: Node) -> frozenset[type]:
    if node.int_or_string:
        return frozenset({int, str})
    return _PYTHON.get(node.type, _ALL)


def plain_type(node: Node) -> type | None:
    """The Python type whose values all fit the node, if there is one."""
    accepted = _accepted(node)
    for kind in (str, bool, float):
        if kind in accepted and accepted != _ALL and not _parts(node).get(kind):
            return kind
    return None


def _only_type(kind: type, slow: Check) -> Check:
    def only_type(value: Any, where: Where, findings: ValidationFindings) -> None:
        if type(value) is not kind:
            slow(value, where, findings)

    return only_type


def _one_part(kind: type, part: Check, slow: Check) -> Check:
    def one_part(value: Any, where: Where, findings: ValidationFindings) -> None:
        if type(value) is kind:
            part(value, where, findings)
        else:
            slow(value, where, findings)

    return one_part


def _general(node: Node, accepted: frozenset[type], parts: _Parts) -> Check:
    mismatch = _mismatch(node)

    def general(value: Any, where: Where, findings: ValidationFindings) -> None:
        kind = type(value)
        if kind not in accepted:
            mismatch(value, where, findings)
        for part in parts.get(kind, ()):
            part(value, where, findings)

    return general


def _mismatch(node: Node) -> Check:
    """The error for a value of another type. A whole number written as 1.0 is an integer."""
    types = ("integer", "string") if node.int_or_string else (node.type,)
    expected = ",".join(types)
    numeric = "number" in types or "integer" in types

    def mismatch(value: Any, where: Where, findings: ValidationFindings) -> None:
        actual = json_type(value)
        if value is None:
            if not node.nullable and expected:
                findings.wrong_type(where, expected, "null")
            return
        if not expected or actual in types or (actual == "integer" and "number" in types):
            return
        if type(value) is float and "integer" in types and value.is_integer() and abs(value) < 2**53:
            return
        if node.format and type(value) not in (str, list) and (numeric or type(value) in (int, float, bool)):
            findings.wrong_type(where, node.format, _GO_FORMAT.get(type(value), ""))
        else:
            findings.wrong_type(where, expected, actual)

    return mismatch


def _parts(node: Node) -> _Parts:
    """The checks for values of each Python type, in the order of their reports."""
    rules = node.constraints
    first: list[Check] = []
    if has_branches(rules):
        branches: Branches = {
            "allOf": _branch_checks(rules.all_of),
            "anyOf": _branch_checks(rules.any_of),
            "oneOf": _branch_checks(rules.one_of),
            "not": _branch_checks(() if rules.not_ is None else (rules.not_,)),
        }
        first.append(compile_branches(branches))
    text = compile_text(node)
    number = compile_number(node)
    last = [] if rules.enum is None else [compile_enum(rules.enum)]
    array = _compile_array(node)
    members = _compile_object(node)
    parts: dict[type, list[Check]] = {
        str: [*first, *text, *last],
        int: [*first, *number, *last],
        float: [*first, *number, *last],
        bool: [*first, *last],
        list: [*first, *array, *last],
        dict: [*first, *last, *members],
        type(None): [*last],
    }
    return {kind: tuple(checks) for kind, checks in parts.items() if checks}


def _branch_checks(nodes: tuple[Node, ...]) -> list[tuple[Check, Node]]:
    return [(compile_check(node) or _accept, node) for node in nodes]


def _accept(value: Any, where: Where, findings: ValidationFindings) -> None:
    return


def _compile_array(node: Node) -> list[Check]:
    rules = node.constraints
    checks: list[Check] = []
    if node.items is not None:
        check, plain = compile_check(node.items), plain_type(node.items)
        if check is not None:
            checks.append(_each_item(check, plain))
    checks += _counts(rules.min_items, rules.max_items, "items")
    if rules.unique_items:
        checks.append(_unique)
    return checks


def _counts(low: int | None, high: int | None, what: str) -> list[Check]:
    """Checks of how many items or properties there are."""
    checks: list[Check] = []
    if low:

        def enough(value: Any, where: Where, findings: ValidationFindings) -> None:
            if len(value) < low:
                findings.invalid(where, len(value), f"should have at least {low} {what}")

        checks.append(enough)
    if high is not None:

        def few(value: Any, where: Where, findings: ValidationFindings) -> None:
            if len(value) > high:
                findings.too_many(where, len(value), high)

        checks.append(few)
    return checks


def _unique(value: Any, where: Where, findings: ValidationFindings) -> None:
    if len({frozen(item) for item in value}) < len(value):
        findings.invalid(where, "", "shouldn't contain duplicates")


def _each_item(check: Check, plain: type | None) -> Check:
    def each_item(value: Any, where: Where, findings: ValidationFindings) -> None:
        for i, item in enumerate(value):
            if type(item) is not plain:
                check(item, (where, i), findings)

    return each_item


def _compile_object(node: Node) -> list[Check]:
    rules = node.constraints
    checks: list[Check] = []
    members = _members(node)
    if members is not None:
        checks.append(members)
    required = rules.required
    if required:
        needed = frozenset(required)

        def has_all(value: Any, where: Where, findings: ValidationFindings) -> None:
            if needed <= value.keys():
                return
            for key in required:
                if key not in value:
                    findings.required((where, key))

        checks.append(has_all)
    checks += _counts(rules.min_properties, rules.max_properties, "properties")
    return checks


def _members(node: Node) -> Check | None:
    plain: dict[str, type] = {}
    checks: dict[str, Check] = {}
    for key, child in node.properties.items():
        check = compile_check(child)
        if check is not None:
            checks[key] = check
        kind = plain_type(child)
        if kind is not None:
            plain[key] = kind
    additional = node.additional
    if additional is False:
        return _closed(frozenset(node.properties), checks)
    if isinstance(additional, Node):
        values = compile_check(additional)
        if values is not None:
            return _map_members(frozenset(node.properties), checks, values, plain_type(additional))
    if not checks:
        return None

    def members(value: Any, where: Where, findings: ValidationFindings) -> None:
        for key, item in value.items():
            if type(item) is plain.get(key):
                continue
            check = checks.get(key)
            if check is not None:
                check(item, (where, key), findings)

    return members


def _map_members(declared: frozenset[str], checks: dict[str, Check], values: Check, plain: type | None) -> Check:
    def map_members(value: Any, where: Where, findings: ValidationFindings) -> None:
        for key, item in value.items():
            if key in declared:
                check = checks.get(key)
                if check is not None:
                    check(item, (where, key), findings)
            elif type(item) is not plain:
                values(item, (where, key), findings)

    return map_members


def _closed(declared: frozenset[str], checks: dict[str, Check]) -> Check:
    def closed(value: Any, where: Where, findings: ValidationFindings) -> None:
        for key, item in value.items():
            if key not in declared:
                findings.forbidden_property(where, key)
            check = checks.get(key)
            if check is not None:
                check(item, (where, key), findings)

    return closed
