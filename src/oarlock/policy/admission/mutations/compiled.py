"""`CompiledMutatingPolicy`: a MutatingAdmissionPolicy with its programs, and what is wrong with its expressions.

Expressions may make objects, ``Object{spec: Object.spec{…}}``, and operations, ``JSONPatch{op: …}``.
See also: ``policies.compiled``. Source: k8s.io/apiserver ``pkg/cel/mutation``, ``admission/plugin/policy/mutating``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from oarlock.meta.dataclass import dataclass
from oarlock.policy.admission.expressions.compiling import (
    CompiledExpression,
    FaultyExpression,
    check_expression,
    program_of,
)
from oarlock.policy.admission.policies.compiled import CompiledPolicy, PolicyCompiler, common_parts
from oarlock.schema.cel import types
from oarlock.schema.cel.expression import DeclaredVariable
from oarlock.schema.cel.types import CelType

__all__ = ["APPLY_CONFIGURATION", "JSON_PATCH", "CompiledMutatingPolicy", "CompiledMutation", "compile_mutating_policy"]

APPLY_CONFIGURATION, JSON_PATCH = "ApplyConfiguration", "JSONPatch"

_OPERATION = types.message(
    "JSONPatch", {"op": types.STRING, "path": types.STRING, "from": types.STRING, "value": types.DYN}
)
_FIELDS = {APPLY_CONFIGURATION: "applyConfiguration", JSON_PATCH: "jsonPatch"}
_RESULTS = {APPLY_CONFIGURATION: "Object", JSON_PATCH: "list(JSONPatch)"}


@dataclass(frozen=True, slots=True)
class CompiledMutation:
    """One mutation of a policy: `kind` is its patchType."""

    kind: str
    expression: CompiledExpression


@dataclass(slots=True)
class CompiledMutatingPolicy(CompiledPolicy):
    """All of a policy that admission needs. One with `faults` can't be run. `again`: it may be asked again."""

    mutations: list[CompiledMutation] = field(default_factory=list)
    again: bool = False


def compile_mutating_policy(tree: Mapping[str, Any]) -> CompiledMutatingPolicy:
    """Compile a MutatingAdmissionPolicy."""
    spec: Mapping[str, Any] = tree.get("spec") or {}
    policy = CompiledMutatingPolicy(**common_parts(tree), again=spec.get("reinvocationPolicy") == "IfNeeded")
    scope = PolicyCompiler(policy, spec, _message).scope
    given: Sequence[Mapping[str, Any]] = spec.get("mutations") or ()
    for at, mutation in enumerate(given):
        for kind, name in _FIELDS.items():
            source = (mutation.get(name) or {}).get("expression") or ""
            if not source.strip():
                continue
            try:
                made = _compile(source, f"spec.mutations[{at}].{name}.expression", scope, _RESULTS[kind])
            except FaultyExpression as error:
                policy.faults.append(error.fault)
                continue
            if kind == mutation.get("patchType"):
                policy.mutations.append(CompiledMutation(kind, made))
    return policy


def _compile(source: str, path: str, scope: Mapping[str, DeclaredVariable], result: str) -> CompiledExpression:
    checked = check_expression(source, path, scope, _message)
    if str(checked.type) != result:
        raise FaultyExpression(path, source, f"must evaluate to {result} but got {checked.type}")
    return program_of(checked, path)


def _message(name: str) -> CelType | None:
    """``Object``, ``Object.spec`` … may have any fields: an expression may be about several kinds."""
    if name == _OPERATION.name:
        return _OPERATION
    return types.message(name) if name == "Object" or name.startswith("Object.") else None
