"""The entry point: imports the rest of this package only if a schema has rules.

Most schemas have none, and the compiler takes longer to import than all other modules of schemas
together. See also: `rules`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from oarlock.meta.fielderrors import FieldError
from oarlock.schema.structural.nodes import Node


class CompiledRules(Protocol):
    """The rules of a schema."""

    def validate(self, tree: Any, old: Any = None, forgiven: list[FieldError] | None = None) -> list[FieldError]:
        """The violated rules of an object; with `old`, of an update. What is ignored then is added to `forgiven`."""
        ...


def rules_of(schema: Any, node: Node, path: str = "") -> tuple[CompiledRules | None, list[FieldError]]:
    """The compiled rules in `schema`, from which `node` was parsed, and their errors; None without rules."""
    if not _any(node):
        return None, []
    from oarlock.schema.cel import rules  # noqa: PLC0415 (loaded by the first schema that has rules)

    return rules.compile_rules(schema, node, path)


def computed(expression: str, schema: Any) -> Callable[[Any], Any]:
    """A function that computes `expression` of an object; None where it can't. ValueError."""
    from oarlock.schema.cel import expression as expressions  # noqa: PLC0415 (loaded by the first expression)

    return expressions.computed(expression, schema)


def _any(node: Node) -> bool:
    if node.has_rules:
        return True
    inner = [*node.properties.values(), *node.constraints.all_of, node.items, node.additional]
    return any(_any(child) for child in inner if isinstance(child, Node))
