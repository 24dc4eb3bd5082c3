"""What a CustomResourceDefinition must be like, as an object that is written.

Source: Kubernetes' validation of CustomResourceDefinitions. See also: ``schema.crd_rules``, the rules of the spec.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from oarlock.meta.fielderrors import FieldError
from oarlock.schema.crd import crd_errors

__all__ = ["definition_errors"]

Tree = dict[str, Any]


def definition_errors(new: Tree, old: Tree | None) -> Iterable[FieldError]:
    """All errors of a definition that is created, or takes the place of `old`."""
    return crd_errors(new)
