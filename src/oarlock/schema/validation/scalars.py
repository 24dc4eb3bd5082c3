"""Constraints on strings and numbers: lengths, patterns, formats, bounds, enums.

Each function compiles a node's constraints on one type to checks that allocate nothing on success.
See also: `validation`, which combines them. Source: OpenAPI v3; kube-openapi for the wording.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from oarlock.meta.go.gotext import show
from oarlock.schema.structural import formats
from oarlock.schema.structural.nodes import Node
from oarlock.schema.structural.patterns import CompiledPattern, PatternError
from oarlock.schema.validation.findings import Check, ValidationFindings, Where

_FLOAT32_LIMIT = 3.4028235677973366e38
"""Half a step above the largest float32; what is beyond doesn't round to one."""


def compile_text(node: Node) -> list[Check]:
    """The checks of a string. Lengths count characters."""
    rules = node.constraints
    checks: list[Check] = []
    if rules.max_length is not None:
        checks.append(_max_length(rules.max_length))
    if rules.min_length:
        checks.append(_min_length(rules.min_length))
    if rules.pattern:
        checks.append(_pattern(rules.pattern))
    fits = formats.checker(node.format) if node.format else None
    if fits is not None:
        checks.append(_format(node.format, fits))
    return checks


def _max_length(limit: int) -> Check:
    def max_length(value: Any, where: Where, findings: ValidationFindings) -> None:
        if len(value) > limit:
            findings.too_long(where, limit)

    return max_length


def _min_length(limit: int) -> Check:
    def min_length(value: Any, where: Where, findings: ValidationFindings) -> None:
        if len(value) < limit:
            findings.invalid(where, value, f"should be at least {limit} chars long")

    return min_length


def _pattern(source: str) -> Check:
    try:
        found_in = CompiledPattern(source).found_in
    except PatternError as error:
        why = f"should match '{source}, but pattern is invalid: {error}'"

        def unusable(value: Any, where: Where, findings: ValidationFindings) -> None:
            findings.invalid(where, value, why)

        return unusable

    def pattern(value: Any, where: Where, findings: ValidationFindings) -> None:
        if not found_in(value):
            findings.invalid(where, value, f"should match '{source}'")

    return pattern


def _format(name: str, fits: Callable[[str], bool]) -> Check:
    def check_format(value: Any, where: Where, findings: ValidationFindings) -> None:
        if not fits(value):
            findings.wrong_format(where, name, value)

    return check_format


def compile_number(node: Node) -> list[Check]:
    """The checks of a number, including the range of its type."""
    rules = node.constraints
    checks: list[Check] = []
    if node.int_or_string:
        checks.append(_int64("integer,string", "number"))
    elif node.type == "integer":
        checks.append(_int64(node.format, "float64") if node.format else _int64("integer", "number"))
        checks.append(_integer_range(node.format))
    elif node.type == "number" and node.format in ("float", "float32"):
        checks.append(_float_range(node.format))
    if rules.multiple_of is not None:
        checks.append(_multiple_of(rules.multiple_of))
    if rules.maximum is not None:
        checks.append(_maximum(rules.maximum, rules.exclusive_maximum))
    if rules.minimum is not None:
        checks.append(_minimum(rules.minimum, rules.exclusive_minimum))
    return checks


def _int64(expected: str, actual: str) -> Check:
    """An integer beyond 64 bits is decoded as a float in Go, so it has the wrong type."""

    def int64(value: Any, where: Where, findings: ValidationFindings) -> None:
        if not -(2**63) <= value < 2**63 and type(value) is int:
            findings.wrong_type(where, expected, actual)

    return int64


def _integer_range(name: str) -> Check:
    bits = 31 if name == "int32" else 63
    low, high = -(2**bits), 2**bits - 1
    of_type = f"integer with format {name}" if name else "integer (default format)"

    def integer_range(value: Any, where: Where, findings: ValidationFindings) -> None:
        if not low <= value <= high or (type(value) is float and not value.is_integer()):
            findings.out_of_range(where, of_type)

    return integer_range


def _float_range(name: str) -> Check:
    def float_range(value: Any, where: Where, findings: ValidationFindings) -> None:
        if not -_FLOAT32_LIMIT < value < _FLOAT32_LIMIT:
            findings.out_of_range(where, f"number with format {name}")

    return float_range


def _multiple_of(factor: float | int) -> Check:
    exact = Decimal(repr(factor))

    def multiple_of(value: Any, where: Where, findings: ValidationFindings) -> None:
        if type(value) is int and type(factor) is int:
            ok = value % factor == 0
        else:
            quotient = float(value) / float(factor)
            ok = quotient == quotient // 1 or _divides(exact, value)
        if not ok:
            findings.invalid(where, value, f"should be a multiple of {show(factor)}")

    return multiple_of


def _divides(factor: Decimal, value: float | int) -> bool:
    # 0.3 is a multiple of 0.1 in decimal, but not in binary
    try:
        return Decimal(repr(value)) % factor == 0
    except ArithmeticError:
        return False


def _maximum(limit: float | int, exclusive: bool) -> Check:
    rule = f"should be less than {'' if exclusive else 'or equal to '}{show(limit)}"

    def maximum(value: Any, where: Where, findings: ValidationFindings) -> None:
        if value > limit or (exclusive and value == limit):
            findings.invalid(where, value, rule)

    return maximum


def _minimum(limit: float | int, exclusive: bool) -> Check:
    rule = f"should be greater than {'' if exclusive else 'or equal to '}{show(limit)}"

    def minimum(value: Any, where: Where, findings: ValidationFindings) -> None:
        if value < limit or (exclusive and value == limit):
            findings.invalid(where, value, rule)

    return minimum


def compile_enum(allowed: list[Any]) -> Check:
    """The value must be one of `allowed`."""
    texts = frozenset(item for item in allowed if type(item) is str)

    def enum(value: Any, where: Where, findings: ValidationFindings) -> None:
        if type(value) is str:
            if value in texts:
                return
        elif any(_same(value, item) for item in allowed):
            return
        findings.unsupported(where, value, allowed)

    return enum


def _same(value: Any, item: Any) -> bool:
    if type(value) is bool or type(item) is bool:
        return value is item
    return bool(value == item)
