"""What the server does with policies and bindings beyond storing them: what they may say, and who may name parameters.

Source: Kubernetes' validation and storage of ``admissionregistration.k8s.io/v1``. See also: `policy_plugin`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
from oarlock.apps.kinds.admissionregistration_policies import (
    AuditAnnotation,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicySpec,
    ValidatingAdmissionPolicyStatus,
    Validation,
)
from oarlock.meta import names
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import Duplicate, FieldError, Invalid, Required
from oarlock.policy.admission.policies.compiled import compile_policy
from oarlock.registry.hooks.collection import StoredCollection
from oarlock.schema.types.views import wire

__all__ = ["ValidatingPolicyBindingCollection", "ValidatingPolicyCollection"]

REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
ACTIONS = ("Audit", "Deny", "Warn")
MOST_ANNOTATIONS = 20

_NEITHER = "validations or auditAnnotations must contain at least one item"
_BOTH = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the API response and "
    "headers serves no purpose)"
)


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
        yield from chosen_error("spec.failurePolicy", spec.failure_policy, ("Fail", "Ignore"))
        if spec.param_kind is not None:
            yield from param_kind_errors(spec.param_kind)
        if spec.match_constraints is None:
            yield Required("spec.matchConstraints")
        else:
            yield from match_errors("spec.matchConstraints", spec.match_constraints, rules=True)
        yield from condition_errors(
            "spec.matchConditions", spec.match_conditions, lambda place, _: faults.get(place, ())
        )
        for at, variable in enumerate(spec.variables):
            yield from variable_errors(variable, f"spec.variables[{at}]", faults)
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
