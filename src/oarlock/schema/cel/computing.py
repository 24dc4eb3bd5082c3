"""Computes a value of an object by an expression, such as the cell of a column.

See also: `expression`, for expressions that are true or false; ``schema.cells``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oarlock.schema.cel.declared import declare
from oarlock.schema.cel.expression import CALL_LIMIT, DeclaredVariable, check_text
from oarlock.schema.cel.problems import CelError, CompileError
from oarlock.schema.definition import Schema
from oarlock.schema.structural.nodes import parse


def computed(expression: str, schema: Schema) -> Callable[[Any], Any]:
    """A function that computes `expression` with ``self``, an object of this schema; None where it can't be computed.

    Raises ValueError.
    """
    decl = declare(parse(schema), root=True)
    if decl is None:
        raise ValueError("nothing is known of the object")
    try:
        program = check_text(expression, {"self": DeclaredVariable(decl.type, decl)}).program()
    except CompileError as error:
        raise ValueError(str(error)) from error

    def compute(tree: Any) -> Any:
        try:
            value, _ = program.run((tree,), CALL_LIMIT)
        except CelError:
            return None
        return value

    return compute
