"""Validates a default against its own schema. An invalid default would make the server refuse its own objects.

Must not know: classes. See also: `reflect` and `definitions`, which use it; `crd_schema_rules` for definitions that
arrive as objects.
"""

from __future__ import annotations

from collections.abc import Iterator

from oarlock.meta.fielderrors import FieldError
from oarlock.schema.cel.gate import rules_of
from oarlock.schema.definition import Schema
from oarlock.schema.structural.nodes import Node, parse
from oarlock.schema.validation.findings import Enough, ValidationFindings
from oarlock.schema.validation.ratcheting import compile_lists
from oarlock.schema.validation.values import compile_check


def broken_rules(node: Node, where: str) -> list[FieldError]:
    """The violations of a field's schema by the field's own default; `where` names it in the errors."""
    findings = ValidationFindings()
    try:
        for check in (compile_check(node), compile_lists(node)):
            if check is not None:
                check(node.default, (None, where), findings)
    except Enough:
        pass
    return findings.errors


def default_mistakes(schema: Schema, name: str) -> Iterator[str]:
    """The errors in the default of the field `name`, including CEL rules; empty when there are none."""
    if schema.get("default") is None:
        return
    node = parse(schema)
    mistakes = broken_rules(node, name)
    whole: Schema = {"type": "object", "properties": {name: {k: v for k, v in schema.items() if k != "default"}}}
    rules = None if mistakes else rules_of(whole, parse(whole))[0]
    if rules is not None:
        mistakes = rules.validate({name: node.default})
    for error in mistakes:
        yield error.message
