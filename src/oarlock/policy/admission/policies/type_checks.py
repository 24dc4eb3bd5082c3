"""Checks the expressions of a policy by the types of the objects that it is about; warnings, which refuse nothing.

Source: k8s.io/apiserver ``admission/plugin/policy/validating`` (typechecking). See also: `compiled`, where expressions
are checked without these types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from oarlock.meta.dataclass import dataclass
from oarlock.meta.kinds import GroupVersionKind
from oarlock.policy.admission.expressions.conditions import FaultyExpression, check_expression
from oarlock.policy.admission.expressions.environment import Scope, composed_type, variables_of, with_variables
from oarlock.schema.cel import types
from oarlock.schema.cel.expression import DeclaredVariable
from oarlock.schema.cel.types import CelType

MOST_TYPES = 10
"""By how many types of objects an expression is checked."""

MOST_WARNING_CHARS = 256 * 1024
"""How long the warnings of a policy may be together; what is beyond that isn't told."""


@dataclass(frozen=True, slots=True)
class CheckedType:
    """A kind that a policy is about, and its objects as a variable."""

    gvk: GroupVersionKind
    variable: DeclaredVariable

    def __str__(self) -> str:
        return f"{self.gvk.group}/{self.gvk.version}, Kind={self.gvk.kind}"


@dataclass(frozen=True, slots=True)
class TypeWarning:
    """What is wrong with the expression at `path` for one kind or several."""

    path: str
    text: str


def type_warnings(
    spec: Mapping[str, Any],
    checked: Sequence[CheckedType],
    params: DeclaredVariable | None,
    go_on: Callable[[], bool] = lambda: True,
) -> list[TypeWarning]:
    """The warnings about the validations of a policy; as far as they are known when `go_on` says no.

    Without `params`, the type of the policy's parameters, no expression may name them.
    """
    scopes = [(checked_type, _scope(spec, checked_type, params)) for checked_type in checked]
    found: list[TypeWarning] = []
    chars = 0
    for path, source in _expressions(spec):
        wrong: list[str] = []
        for checked_type, scope in scopes:
            if not go_on():
                return found
            try:
                check_expression(source, path, scope)
            except FaultyExpression as error:
                wrong.append(f"{checked_type}: {error.detail}\n")
        if wrong:
            text = "\n".join(wrong)
            chars += len(text)
            if chars > MOST_WARNING_CHARS:
                return found
            found.append(TypeWarning(path, text))
    return found


def _expressions(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for at, validation in enumerate(spec.get("validations") or ()):
        for name in ("expression", "messageExpression"):
            if validation.get(name):
                yield f"spec.validations[{at}].{name}", validation[name]


def _scope(
    spec: Mapping[str, Any], checked: CheckedType, params: DeclaredVariable | None
) -> Mapping[str, DeclaredVariable]:
    """What expressions may name when objects are of a type; composed variables that aren't valid then are ``dyn``."""
    objects = {"object": checked.variable, "oldObject": checked.variable}
    if params is not None:
        objects["params"] = params
    known = variables_of(Scope(), objects)
    given = spec.get("variables") or ()
    if not given:
        return known
    own: dict[str, CelType] = {}
    for variable in given:
        try:
            kind = composed_type(check_expression(variable.get("expression", ""), "", with_variables(known, own)).type)
        except FaultyExpression:
            kind = types.DYN
        own[variable.get("name", "")] = kind
    return with_variables(known, own)
