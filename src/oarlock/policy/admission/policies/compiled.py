"""`CompiledPolicy`: a ValidatingAdmissionPolicy with its programs, and what is wrong with its expressions.

Compiling is the costly part: it is done once for each policy that is written. See also: `evaluation`.
Source: k8s.io/apiserver ``admission/plugin/policy/validating``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from oarlock.policy.admission.policies.environment import NAMES, Scope, variables_of, with_variables
from oarlock.policy.admission.policies.matching import Matching
from oarlock.schema.cel.compiling import Program
from oarlock.schema.cel.expression import Checked, Variable, check_text
from oarlock.schema.cel.problems import CompileError
from oarlock.schema.cel.types import CelType

__all__ = ["CompiledExpression", "CompiledPolicy", "CompiledValidation", "Fault", "compile_policy"]

BOOL, STRING, ANNOTATION = ("bool",), ("string",), ("string", "null_type")

MAX_EXPRESSION = 16 * 1024
"""Characters of an expression that is compiled; Kubernetes' bound of a rule in a CustomResourceDefinition."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with the expression at a path. `compiled`: it is an error of the compiler."""

    path: str
    expression: str
    text: str


@dataclass(frozen=True, slots=True)
class CompiledExpression:
    """An expression, its program, and the names of the variables that the program takes, in order."""

    source: str
    program: Program
    names: tuple[str, ...]
    path: str = ""


@dataclass(frozen=True, slots=True)
class CompiledValidation:
    """One validation of a policy."""

    expression: CompiledExpression
    message: str
    message_expression: CompiledExpression | None
    reason: str


@dataclass(slots=True)
class CompiledPolicy:
    """All of a policy that admission needs. One with `faults` can't be run."""

    name: str
    fails: bool
    param_kind: tuple[str, str] | None
    matching: Matching
    conditions: list[CompiledExpression] = field(default_factory=list)
    variables: dict[str, CompiledExpression] = field(default_factory=dict)
    validations: list[CompiledValidation] = field(default_factory=list)
    annotations: list[tuple[str, CompiledExpression]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)


def compile_policy(tree: Mapping[str, Any], objects: Mapping[str, Variable] | None = None) -> CompiledPolicy:
    """Compile a ValidatingAdmissionPolicy. With `objects`, expressions are checked by the types of the objects."""
    spec: Mapping[str, Any] = tree.get("spec") or {}
    kind = spec.get("paramKind")
    policy = CompiledPolicy(
        name=str((tree.get("metadata") or {}).get("name", "")),
        fails=spec.get("failurePolicy", "Fail") != "Ignore",
        param_kind=None if kind is None else (str(kind.get("apiVersion", "")), str(kind.get("kind", ""))),
        matching=Matching(spec.get("matchConstraints") or {}),
    )
    _Compiler(policy, spec, objects).all()
    return policy


class _Compiler:
    """Compiles the expressions of one policy into it."""

    def __init__(self, policy: CompiledPolicy, spec: Mapping[str, Any], objects: Mapping[str, Variable] | None) -> None:
        self._policy = policy
        self._spec = spec
        params = policy.param_kind is not None
        self._plain = variables_of(Scope(), _without_params(objects))
        self._scope = variables_of(Scope(params=params), objects)
        self._quiet = variables_of(Scope(params=params, authorizer=False), objects)
        self._own: dict[str, CelType] = {}

    def all(self) -> None:
        policy, spec = self._policy, self._spec
        for at, one in _each(spec, "matchConditions"):
            made = self._compile(one.get("expression", ""), f"spec.matchConditions[{at}].expression", self._plain, BOOL)
            if made is not None:
                policy.conditions.append(made)
        for at, one in _each(spec, "variables"):
            self._variable(at, one)
        scope, quiet = self._with_own(self._scope), self._with_own(self._quiet)
        for at, one in _each(spec, "validations"):
            place = f"spec.validations[{at}]"
            made = self._compile(one.get("expression", ""), f"{place}.expression", scope, BOOL)
            message = self._compile(one.get("messageExpression", ""), f"{place}.messageExpression", quiet, STRING)
            if made is not None:
                policy.validations.append(
                    CompiledValidation(made, one.get("message", ""), message, one.get("reason") or "Invalid")
                )
        for at, one in _each(spec, "auditAnnotations"):
            path = f"spec.auditAnnotations[{at}].valueExpression"
            made = self._compile(one.get("valueExpression", ""), path, scope, ANNOTATION)
            if made is not None:
                policy.annotations.append((one.get("key", ""), made))

    def _with_own(self, known: Mapping[str, Variable]) -> Mapping[str, Variable]:
        return with_variables(known, self._own) if self._spec.get("variables") else known

    def _variable(self, at: int, one: Mapping[str, Any]) -> None:
        name = one.get("name", "")
        path = f"spec.variables[{at}].expression"
        checked = self._check(one.get("expression", ""), path, self._with_own(self._scope))
        made = None if checked is None else self._program(checked, path)
        if made is not None and checked is not None:
            self._policy.variables[name] = made
            self._own[name] = checked.type
        elif name:
            self._own[name] = CelType("dyn")

    def _compile(
        self, source: str, path: str, scope: Mapping[str, Variable], kinds: tuple[str, ...]
    ) -> CompiledExpression | None:
        checked = self._check(source, path, scope)
        if checked is None:
            return None
        kind = {"null": "null_type"}.get(checked.type.kind, checked.type.kind)
        if kind not in kinds:
            wanted = kinds[0] if len(kinds) == 1 else f"one of [{' '.join(kinds)}]"
            self._fault(
                path, source, f"must evaluate to {wanted} but got {checked.type if kind != 'null_type' else kind}"
            )
            return None
        return self._program(checked, path)

    def _check(self, source: str, path: str, scope: Mapping[str, Variable]) -> Checked | None:
        if not source.strip():
            return None
        if len(source) > MAX_EXPRESSION:
            self._fault(path, source[:64], f"compilation failed: it has more than {MAX_EXPRESSION} characters")
            return None
        try:
            return check_text(source, {name: scope[name] for name in NAMES if name in scope})
        except CompileError as error:
            self._fault(path, source, f"compilation failed: {error}")
            return None

    def _program(self, checked: Checked, path: str) -> CompiledExpression | None:
        try:
            return CompiledExpression(checked.source, checked.program(), tuple(checked.variables), path)
        except CompileError as error:
            self._fault(path, checked.source, f"compilation failed: {error}")
            return None

    def _fault(self, path: str, source: str, text: str) -> None:
        self._policy.faults.append(Fault(path, source, text))


def _without_params(objects: Mapping[str, Variable] | None) -> dict[str, Variable]:
    return {name: one for name, one in (objects or {}).items() if name != "params"}


def _each(spec: Mapping[str, Any], name: str) -> Iterable[tuple[int, Mapping[str, Any]]]:
    given: Sequence[Mapping[str, Any]] = spec.get(name) or ()
    return enumerate(given)
