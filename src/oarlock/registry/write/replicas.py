"""The fields of an object that its Scale shows: where they are, and what their values may be.

See also: `scale`, the mapping between an object and its Scale.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from oarlock.meta.fielderrors import FieldError, Invalid
from oarlock.meta.json_trees import Tree
from oarlock.schema.compiled import SchemaError
from oarlock.schema.definition import Scale
from oarlock.schema.jsonpath import PathError, simple_steps

__all__ = ["path_steps", "replica_errors"]

MOST_REPLICAS = 2**31 - 1


def replica_errors(scale: Scale, tree: Tree) -> list[FieldError]:
    """What is wrong with the numbers of replicas in a custom resource."""
    found: list[FieldError] = []
    for path in (scale.spec_replicas_path, scale.status_replicas_path):
        value: Any = tree
        for step in path_steps(path):
            value = value.get(step) if type(value) is dict else None
        if type(value) is int and value < 0:
            found.append(Invalid(path, value, "should be a non-negative integer"))
        elif type(value) is int and value > MOST_REPLICAS:
            found.append(Invalid(path, value, f"should be less than or equal to {MOST_REPLICAS}"))
    return found


@lru_cache(maxsize=1024)
def path_steps(path: str) -> tuple[str, ...]:
    """The field names of a path such as ``.spec.replicas``. SchemaError for another kind of path."""
    try:
        steps = simple_steps(path)
    except PathError as error:
        raise SchemaError("scale", str(error)) from error
    if not steps:
        raise SchemaError("scale", f"{path!r} must be a chain of field names, such as '.spec.replicas'")
    return steps
