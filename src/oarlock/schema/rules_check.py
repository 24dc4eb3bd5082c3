"""The CEL rules of a declared class are tried when the class is made, so that a mistake in one fails at import.

Must not know: class keywords besides the rules. Next: `cel.rules`, which compiles them; `resources`, which asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oarlock.schema import reflect
from oarlock.schema.cel.rules import rule_errors
from oarlock.schema.declaring import RuleError
from oarlock.schema.definition import Rule
from oarlock.schema.structural import Node, parse

__all__ = ["check_rules"]


def check_rules(cls: Any, rules: Sequence[Rule]) -> None:
    """Refuse the first rule of a class or its fields that can't be run; hints that can't be resolved yet wait."""
    try:
        schema = reflect.schema_of(cls)
    except reflect.Unresolved:
        return
    if rules:
        schema["x-kubernetes-validations"] = [reflect.rule_tree(rule) for rule in rules]
    node = parse(schema)
    if not _any_rules(node):
        return
    for error in rule_errors(schema, node):
        raise RuleError(f"class {cls.__name__}", f"{error.path}: {error.detail or error.body}")


def _any_rules(node: Node) -> bool:
    inner = [*node.properties.values(), node.items, node.additional]
    return node.has_rules or any(_any_rules(child) for child in inner if isinstance(child, Node))
