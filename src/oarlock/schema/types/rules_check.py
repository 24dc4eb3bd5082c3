"""Compiles the CEL rules of a declared class when the class is made, so that errors are raised at import.

Must not know: class keywords besides the rules. See also: `cel.gate`, which has them compiled; `resources`, which asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oarlock.schema.cel.gate import rules_of
from oarlock.schema.definition import Rule
from oarlock.schema.structural.nodes import parse
from oarlock.schema.types import reflect
from oarlock.schema.types.declaring import RuleError

__all__ = ["check_rules"]


def check_rules(cls: Any, rules: Sequence[Rule]) -> None:
    """Refuse the first invalid rule of a class or its fields. Rules with unresolved hints are checked later."""
    try:
        schema = reflect.schema_of(cls)
    except reflect.Unresolved:
        return
    if rules:
        schema["x-kubernetes-validations"] = [reflect.rule_tree(rule) for rule in rules]
    for error in rules_of(schema, parse(schema))[1]:
        raise RuleError(f"class {cls.__name__}", f"{error.path}: {error.detail or error.body}")
