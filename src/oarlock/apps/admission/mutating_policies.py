"""What the server does with MutatingAdmissionPolicies and bindings beyond storing them: what they may say.

Source: Kubernetes' validation of ``admissionregistration.k8s.io/v1``. See also: `mutation_plugin`.
"""

from __future__ import annotations

from collections.abc import Iterator

from oarlock.apps.admission.condition_errors import condition_errors
from oarlock.apps.admission.match_errors import match_errors
from oarlock.apps.admission.policy_errors import (
    ErrorsByField,
    binding_errors,
    chosen_error,
    fault_errors,
    param_kind_errors,
    variable_errors,
)
from oarlock.apps.kinds.admissionregistration_mutations import (
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
    Mutation,
    PatchExpression,
)
from oarlock.apps.kinds.admissionregistration_policies import MatchResources
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Invalid, NotSupported, Required
from oarlock.policy.admission.mutations.compiled import APPLY_CONFIGURATION, JSON_PATCH, compile_mutating_policy
from oarlock.registry.hooks.collection import StoredCollection
from oarlock.schema.types.views import wire

__all__ = ["MutatingPolicyBindingCollection", "MutatingPolicyCollection"]

OPERATIONS = ("*", "CONNECT", "CREATE", "UPDATE")


class MutatingPolicyCollection(StoredCollection[MutatingAdmissionPolicy]):
    """Policies make sense, and their expressions compile."""

    def validate(
        self, new: MutatingAdmissionPolicy, old: MutatingAdmissionPolicy | None, ctx: Context
    ) -> Iterator[FieldError]:
        if old is not None and old.spec == new.spec:
            return
        spec, faults = new.spec, fault_errors(compile_mutating_policy(wire(new)).faults)
        yield from chosen_error("spec.failurePolicy", spec.failure_policy, ("Fail", "Ignore"))
        if spec.param_kind is not None:
            yield from param_kind_errors(spec.param_kind)
        if spec.match_constraints is None:
            yield Required("spec.matchConstraints")
        else:
            yield from match_errors("spec.matchConstraints", spec.match_constraints, rules=True)
            yield from _operations(spec.match_constraints)
        yield from condition_errors(
            "spec.matchConditions", spec.match_conditions, lambda place, _: faults.get(place, ())
        )
        for at, variable in enumerate(spec.variables):
            yield from variable_errors(variable, f"spec.variables[{at}]", faults)
        if not spec.mutations:
            yield Required("spec.mutations", "mutations must contain at least one item")
        for at, mutation in enumerate(spec.mutations):
            yield from _mutation(mutation, f"spec.mutations[{at}]", faults)
        if not spec.reinvocation_policy:
            yield Required("spec.reinvocationPolicy")
        else:
            yield from chosen_error("spec.reinvocationPolicy", spec.reinvocation_policy, ("IfNeeded", "Never"))


def _operations(matched: MatchResources) -> Iterator[FieldError]:
    for rule in matched.resource_rules:
        if "DELETE" in rule.operations:
            yield NotSupported("spec.matchConstraints.resourceRules.operations", "DELETE", OPERATIONS)


def _mutation(mutation: Mutation, place: str, faults: ErrorsByField) -> Iterator[FieldError]:
    given = {
        APPLY_CONFIGURATION: ("applyConfiguration", mutation.apply_configuration),
        JSON_PATCH: ("jsonPatch", mutation.json_patch),
    }
    chosen = mutation.patch_type
    if chosen not in given:
        yield NotSupported(f"{place}.patchType", chosen, tuple(given)) if chosen else Required(f"{place}.patchType")
        return
    name, patch = given.pop(chosen)
    if patch is None:
        yield Required(f"{place}.{name}", f"must be specified when patchType is {chosen}")
    else:
        yield from _expression(patch, f"{place}.{name}.expression", faults)
    for other, unwanted in given.values():
        if unwanted is not None:
            text = f"must not be specified when patchType is {chosen}"
            yield Invalid(f"{place}.{other}", f"{{{other}}}", text)


def _expression(patch: PatchExpression, place: str, faults: ErrorsByField) -> Iterator[FieldError]:
    if not patch.expression.strip():
        yield Required(place)
    yield from faults.get(place, ())


class MutatingPolicyBindingCollection(StoredCollection[MutatingAdmissionPolicyBinding]):
    """Bindings make sense."""

    def validate(
        self, new: MutatingAdmissionPolicyBinding, old: MutatingAdmissionPolicyBinding | None, ctx: Context
    ) -> Iterator[FieldError]:
        yield from binding_errors(new.spec)
