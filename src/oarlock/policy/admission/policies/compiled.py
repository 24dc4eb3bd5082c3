"""`CompiledPolicy`: a ValidatingAdmissionPolicy with its programs, and what is wrong with its expressions.

See also: `evaluation`. Source: k8s.io/apiserver ``admission/plugin/policy/validating``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from oarlock.meta.dataclass import dataclass
from oarlock.policy.admission.expressions.compiling import (
    ANNOTATION,
    BOOL,
    STRING,
    CompiledExpression,
    Fault,
    FaultyExpression,
    check_expression,
    compile_expression,
    program_of,
)
from oarlock.policy.admission.expressions.environment import Scope, composed_type, variables_of, with_variables
from oarlock.policy.admission.policies.matching import Matching
from oarlock.schema.cel.checker import MessageTypes
from oarlock.schema.cel.expression import DeclaredVariable
from oarlock.schema.cel.types import CelType

__all__ = ["CompiledPolicy", "CompiledValidation", "PolicyCompiler", "common_parts", "compile_policy"]


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


def compile_policy(tree: Mapping[str, Any]) -> CompiledPolicy:
    """Compile a ValidatingAdmissionPolicy."""
    policy = CompiledPolicy(**common_parts(tree))
    PolicyCompiler(policy, tree.get("spec") or {}).validations()
    return policy


def common_parts(tree: Mapping[str, Any]) -> dict[str, Any]:
    """What a policy of any kind says beside its expressions."""
    spec: Mapping[str, Any] = tree.get("spec") or {}
    kind = spec.get("paramKind")
    return {
        "name": str((tree.get("metadata") or {}).get("name", "")),
        "fails": spec.get("failurePolicy", "Fail") != "Ignore",
        "param_kind": None if kind is None else (str(kind.get("apiVersion", "")), str(kind.get("kind", ""))),
        "matching": Matching(spec.get("matchConstraints") or {}),
    }


class PolicyCompiler:
    """Compiles the expressions of one policy into it; first those that policies of every kind have."""

    def __init__(self, policy: CompiledPolicy, spec: Mapping[str, Any], messages: MessageTypes | None = None) -> None:
        self._policy = policy
        self._spec = spec
        params = policy.param_kind is not None
        self._scope = variables_of(Scope(params=params))
        self._quiet = variables_of(Scope(params=params, authorizer=False))
        self._own: dict[str, CelType] = {}
        self._messages = messages
        for at, condition in _each(spec, "matchConditions"):
            made = self._compile(
                condition.get("expression", ""), f"spec.matchConditions[{at}].expression", self._scope, BOOL
            )
            if made is not None:
                policy.conditions.append(made)
        for at, variable in _each(spec, "variables"):
            self._variable(at, variable)
        self.scope = self._with_own(self._scope)

    def validations(self) -> None:
        """Compile what a ValidatingAdmissionPolicy has besides."""
        policy, spec = self._policy, self._spec
        scope, quiet = self.scope, self._with_own(self._quiet)
        for at, validation in _each(spec, "validations"):
            place = f"spec.validations[{at}]"
            made = self._compile(validation.get("expression", ""), f"{place}.expression", scope, BOOL)
            message = self._compile(
                validation.get("messageExpression", ""), f"{place}.messageExpression", quiet, STRING
            )
            if made is not None:
                policy.validations.append(
                    CompiledValidation(
                        made, validation.get("message", ""), message, validation.get("reason") or "Invalid"
                    )
                )
        for at, annotation in _each(spec, "auditAnnotations"):
            path = f"spec.auditAnnotations[{at}].valueExpression"
            made = self._compile(annotation.get("valueExpression", ""), path, scope, ANNOTATION)
            if made is not None:
                policy.annotations.append((annotation.get("key", ""), made))

    def _with_own(self, known: Mapping[str, DeclaredVariable]) -> Mapping[str, DeclaredVariable]:
        return with_variables(known, self._own) if self._spec.get("variables") else known

    def _variable(self, at: int, variable: Mapping[str, Any]) -> None:
        name, source, kind = variable.get("name", ""), variable.get("expression", ""), CelType("dyn")
        path = f"spec.variables[{at}].expression"
        if source.strip():
            try:
                checked = check_expression(source, path, self._with_own(self._scope), self._messages)
                self._policy.variables[name] = program_of(checked, path)
                kind = composed_type(checked.type)
            except FaultyExpression as error:
                self._policy.faults.append(error.fault)
        if name:
            self._own[name] = kind

    def _compile(
        self, source: str, path: str, scope: Mapping[str, DeclaredVariable], results: tuple[str, ...]
    ) -> CompiledExpression | None:
        if not source.strip():
            return None
        try:
            return compile_expression(source, path, scope, results)
        except FaultyExpression as error:
            self._policy.faults.append(error.fault)
            return None


def _each(spec: Mapping[str, Any], name: str) -> Iterable[tuple[int, Mapping[str, Any]]]:
    given: Sequence[Mapping[str, Any]] = spec.get(name) or ()
    return enumerate(given)
