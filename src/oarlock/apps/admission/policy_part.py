"""The policies in CEL and their bindings: what may be written of them, and the part of a control plane that has them.

Source: Kubernetes' validation of ``admissionregistration.k8s.io/v1``. See also: `policy_errors`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from oarlock.apps.admission.mutation_plugin import MutatingPolicies
from oarlock.apps.admission.policy_errors import (
    BindingParamPermission,
    ErrorsByField,
    MutatingBindingParamPermission,
    MutatingPolicyParamPermission,
    PolicyParamPermission,
    binding_errors,
    chosen_error,
    fault_errors,
    match_errors,
    param_kind_errors,
    variable_errors,
)
from oarlock.apps.admission.policy_params import ParamReader, kinds_served_here
from oarlock.apps.admission.policy_plugin import ValidatingPolicies
from oarlock.apps.admission.webhook_rules import condition_errors
from oarlock.apps.controllers.policy_status import PolicyStatus
from oarlock.apps.controlplane.part import ControlPlanePart, PartSurroundings
from oarlock.apps.kinds.admissionregistration import (
    AuditAnnotation,
    MatchResources,
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
    MutatingAdmissionPolicySpec,
    Mutation,
    PatchExpression,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicySpec,
    ValidatingAdmissionPolicyStatus,
    Validation,
)
from oarlock.apps.kinds.core.objects import Namespace
from oarlock.client.client import Client
from oarlock.client.informers.informer import Informer
from oarlock.meta import names
from oarlock.meta.context import Context, Target, User
from oarlock.meta.errors import StatusError
from oarlock.meta.fielderrors import Duplicate, FieldError, Invalid, NotSupported, Required
from oarlock.policy.admission.expressions import DecidePermission, ExpressionRunner
from oarlock.policy.admission.mutations import APPLY_CONFIGURATION, JSON_PATCH, compile_mutating_policy
from oarlock.policy.admission.policies.engine import compile_policy
from oarlock.policy.authz.union import Access
from oarlock.registry.hooks.collection import StoredCollection
from oarlock.schema.cel.library.authz import Permission
from oarlock.schema.types.views import wire


def permissions_of(access: Access) -> DecidePermission:
    """Asks `access`; that it can't be found out is the permission's error."""

    async def decide(user: User, target: Target) -> Permission:
        try:
            decision = await access.decide(user, target)
        except StatusError as error:
            return Permission(False, "", str(error))
        return Permission(decision.allowed, decision.reason)

    return decide


REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
ACTIONS = ("Audit", "Deny", "Warn")
MOST_ANNOTATIONS = 20

_NEITHER = "validations or auditAnnotations must contain at least one item"
_BOTH = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the API response and "
    "headers serves no purpose)"
)


def _request_errors(
    spec: ValidatingAdmissionPolicySpec | MutatingAdmissionPolicySpec,
    faults: ErrorsByField,
    further: Callable[[MatchResources], Iterable[FieldError]] = lambda matched: (),
) -> Iterator[FieldError]:
    """Every mistake in what both sorts of policies say of their requests; `further` has more about the rules."""
    yield from chosen_error("spec.failurePolicy", spec.failure_policy, ("Fail", "Ignore"))
    if spec.param_kind is not None:
        yield from param_kind_errors(spec.param_kind)
    if spec.match_constraints is None:
        yield Required("spec.matchConstraints")
    else:
        yield from match_errors("spec.matchConstraints", spec.match_constraints, rules=True)
        yield from further(spec.match_constraints)
    yield from condition_errors("spec.matchConditions", spec.match_conditions, lambda place, _: faults.get(place, ()))
    for at, variable in enumerate(spec.variables):
        yield from variable_errors(variable, f"spec.variables[{at}]", faults)


class ValidatingPolicyCollection(StoredCollection[ValidatingAdmissionPolicy]):
    """Policies make sense, and their expressions compile."""

    def prepare(self, new: ValidatingAdmissionPolicy, old: ValidatingAdmissionPolicy | None, ctx: Context) -> None:
        new.status = new.status or ValidatingAdmissionPolicyStatus()

    def validate(
        self, new: ValidatingAdmissionPolicy, old: ValidatingAdmissionPolicy | None, ctx: Context
    ) -> Iterator[FieldError]:
        if old is not None and old.spec == new.spec:
            return
        spec, faults = new.spec, fault_errors(compile_policy(wire(new)).faults)
        yield from _request_errors(spec, faults)
        if not spec.validations and not spec.audit_annotations:
            yield Required("spec.validations", _NEITHER)
            yield Required("spec.auditAnnotations", _NEITHER)
        for at, validation in enumerate(spec.validations):
            yield from _validation(validation, f"spec.validations[{at}]", faults)
        yield from _annotations(spec, new.metadata.name, faults)


def _validation(validation: Validation, place: str, faults: ErrorsByField) -> Iterator[FieldError]:
    if not validation.expression.strip():
        yield Required(f"{place}.expression", "expression is not specified")
    yield from faults.get(f"{place}.expression", ())
    text = validation.message_expression
    if text and not text.strip():
        yield Invalid(f"{place}.messageExpression", text, "must be non-empty if specified")
    yield from faults.get(f"{place}.messageExpression", ())
    message = validation.message
    if message and not message.strip():
        yield Invalid(f"{place}.message", message, "must be non-empty if specified")
    elif "\n" in message or "\r" in message:
        yield Invalid(f"{place}.message", message, "must not contain line breaks")
    elif "\n" in validation.expression.strip() and not message:
        yield Required(f"{place}.message", "message must be specified if expression contains line breaks")
    if validation.reason:
        yield from chosen_error(f"{place}.reason", validation.reason, REASONS)


def _annotations(spec: ValidatingAdmissionPolicySpec, name: str, faults: ErrorsByField) -> Iterator[FieldError]:
    annotations: Sequence[AuditAnnotation] = spec.audit_annotations
    if len(annotations) > MOST_ANNOTATIONS:
        text = f"must not have more than {MOST_ANNOTATIONS} auditAnnotations"
        yield Invalid("spec.auditAnnotations", [annotation.key for annotation in annotations], text)
    known: set[str] = set()
    for at, annotation in enumerate(annotations):
        place = f"spec.auditAnnotations[{at}]"
        if not annotation.key:
            yield Required(f"{place}.key")
        else:
            key = f"{name}/{annotation.key}"
            for complaint in names.qualified_name(key):
                yield Invalid(f"{place}.key", key, complaint)
        if not annotation.value_expression.strip():
            yield Required(f"{place}.valueExpression", "valueExpression is not specified")
        yield from faults.get(f"{place}.valueExpression", ())
        if annotation.key in known:
            yield Duplicate(f"{place}.key", annotation.key)
        known.add(annotation.key)


class ValidatingPolicyBindingCollection(StoredCollection[ValidatingAdmissionPolicyBinding]):
    """Bindings make sense."""

    def validate(
        self, new: ValidatingAdmissionPolicyBinding, old: ValidatingAdmissionPolicyBinding | None, ctx: Context
    ) -> Iterator[FieldError]:
        yield from binding_errors(new.spec)
        yield from _actions(new.spec.validation_actions)


def _actions(actions: Sequence[str]) -> Iterator[FieldError]:
    place = "spec.validationActions"
    if not actions:
        yield Required(place, "at least one validation action is required")
    for at, action in enumerate(actions):
        yield from chosen_error(f"{place}[{at}]", action, ACTIONS)
    if {"Deny", "Warn"} <= set(actions):
        yield Invalid(place, list(actions), _BOTH)


OPERATIONS = ("*", "CONNECT", "CREATE", "UPDATE")


class MutatingPolicyCollection(StoredCollection[MutatingAdmissionPolicy]):
    """Policies make sense, and their expressions compile."""

    def validate(
        self, new: MutatingAdmissionPolicy, old: MutatingAdmissionPolicy | None, ctx: Context
    ) -> Iterator[FieldError]:
        if old is not None and old.spec == new.spec:
            return
        spec, faults = new.spec, fault_errors(compile_mutating_policy(wire(new)).faults)
        yield from _request_errors(spec, faults, _operations)
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


def policies_part(
    around: PartSurroundings, namespaces: Informer[Namespace], runner: ExpressionRunner
) -> ControlPlanePart:
    """What must be true of requests, in CEL. Asked when every object is final, and before quotas are charged.

    `namespaces` are those of the server, in an informer that another part runs.
    """
    access, live, counts = around.access, around.live, around.admission_counts.policies
    policies = Informer(ValidatingAdmissionPolicy)
    bindings = Informer(ValidatingAdmissionPolicyBinding)
    mutating, mutating_bindings = Informer(MutatingAdmissionPolicy), Informer(MutatingAdmissionPolicyBinding)
    params = ParamReader(kinds_served_here(live))

    async def start(client: Client) -> None:
        params.client = client

    return ControlPlanePart(
        "policies",
        serve=[
            ValidatingPolicyCollection,
            ValidatingPolicyBindingCollection,
            MutatingPolicyCollection,
            MutatingPolicyBindingCollection,
        ],
        admission=[
            PolicyParamPermission(access, params),
            BindingParamPermission(access, params, policies),
            MutatingPolicyParamPermission(access, params),
            MutatingBindingParamPermission(access, params, mutating),
            MutatingPolicies(mutating, mutating_bindings, namespaces, runner, params, counts),
            ValidatingPolicies(policies, bindings, namespaces, runner, params, counts),
        ],
        informers=[policies, bindings, mutating, mutating_bindings],
        controllers={"validatingadmissionpolicy-status-controller": PolicyStatus(live, policies)},
        needs=("namespaces",),
        start=start,
    )
