"""What the server does with policies and bindings beyond storing them: what they may say, and who may name parameters.

Source: Kubernetes' validation and storage of ``admissionregistration.k8s.io/v1``. See also: `policy_plugin`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from oarlock.apps.admission.condition_errors import condition_errors
from oarlock.apps.admission.match_errors import match_errors
from oarlock.apps.controlplane.selector_errors import selector_errors
from oarlock.apps.kinds.admissionregistration_policies import (
    AuditAnnotation,
    ParamKind,
    ParamRef,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicySpec,
    ValidatingAdmissionPolicyStatus,
    Validation,
    Variable,
)
from oarlock.meta import names
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import Duplicate, FieldError, Forbidden, Invalid, NotSupported, Required
from oarlock.policy.admission.policies.compiled import compile_policy
from oarlock.registry.collection import StoredCollection
from oarlock.schema.cel.declared import escape
from oarlock.schema.views import wire

__all__ = ["ValidatingPolicyBindingCollection", "ValidatingPolicyCollection"]

REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
ACTIONS = ("Audit", "Deny", "Warn")
MOST_ANNOTATIONS = 20

_NEITHER = "validations or auditAnnotations must contain at least one item"
_BOTH = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the API response and "
    "headers serves no purpose)"
)
_identifier = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*").fullmatch

Faults = dict[str, list[FieldError]]


class ValidatingPolicyCollection(StoredCollection[ValidatingAdmissionPolicy]):
    """Policies make sense, and their expressions compile."""

    def prepare(self, new: ValidatingAdmissionPolicy, old: ValidatingAdmissionPolicy | None, ctx: Context) -> None:
        new.status = new.status or ValidatingAdmissionPolicyStatus()

    def validate(
        self, new: ValidatingAdmissionPolicy, old: ValidatingAdmissionPolicy | None, ctx: Context
    ) -> Iterator[FieldError]:
        if old is not None and old.spec == new.spec:
            return
        spec, faults = new.spec, _faults(new)
        yield from _chosen("spec.failurePolicy", spec.failure_policy, ("Fail", "Ignore"))
        if spec.param_kind is not None:
            yield from _param_kind(spec.param_kind)
        if spec.match_constraints is None:
            yield Required("spec.matchConstraints")
        else:
            yield from match_errors("spec.matchConstraints", spec.match_constraints, rules=True)
        yield from condition_errors(
            "spec.matchConditions", spec.match_conditions, lambda place, _: faults.get(place, ())
        )
        for at, variable in enumerate(spec.variables):
            yield from _variable(variable, f"spec.variables[{at}]", faults)
        if not spec.validations and not spec.audit_annotations:
            yield Required("spec.validations", _NEITHER)
            yield Required("spec.auditAnnotations", _NEITHER)
        for at, validation in enumerate(spec.validations):
            yield from _validation(validation, f"spec.validations[{at}]", faults)
        yield from _annotations(spec, new.metadata.name, faults)


def _faults(policy: ValidatingAdmissionPolicy) -> Faults:
    made: Faults = {}
    for fault in compile_policy(wire(policy)).faults:
        made.setdefault(fault.path, []).append(Invalid(fault.path, fault.expression, fault.text))
    return made


def _chosen(path: str, value: str, supported: Sequence[str]) -> Iterator[FieldError]:
    if value not in supported:
        yield NotSupported(path, value, supported)


def _param_kind(kind: ParamKind) -> Iterator[FieldError]:
    path = "spec.paramKind.apiVersion"
    if not kind.api_version:
        yield Required(path)
    elif kind.api_version.count("/") > 1:
        yield Invalid(path, kind.api_version, f"unexpected GroupVersion string: {kind.api_version}")
    else:
        group, _, version = kind.api_version.rpartition("/")
        for complaint in names.dns1123_subdomain(group) if group else ():
            yield Invalid(path, group, complaint)
        for complaint in names.dns1035_label(version):
            yield Invalid(path, version, complaint)
    if not kind.kind:
        yield Required("spec.paramKind.kind")
        return
    for complaint in names.dns1035_label(kind.kind.lower()):
        yield Invalid("spec.paramKind.kind", kind.kind, f"may have mixed case, but should otherwise match: {complaint}")


def _variable(variable: Variable, place: str, faults: Faults) -> Iterator[FieldError]:
    if not variable.name.strip():
        yield Required(f"{place}.name", "name is not specified")
    elif _identifier(variable.name) is None or escape(variable.name) != variable.name:
        yield Invalid(f"{place}.name", variable.name, "must be a valid CEL identifier")
    if not variable.expression.strip():
        yield Required(f"{place}.expression", "expression is not specified")
    yield from faults.get(f"{place}.expression", ())


def _validation(validation: Validation, place: str, faults: Faults) -> Iterator[FieldError]:
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
        yield from _chosen(f"{place}.reason", validation.reason, REASONS)


def _annotations(spec: ValidatingAdmissionPolicySpec, name: str, faults: Faults) -> Iterator[FieldError]:
    annotations: Sequence[AuditAnnotation] = spec.audit_annotations
    if len(annotations) > MOST_ANNOTATIONS:
        text = f"must not have more than {MOST_ANNOTATIONS} auditAnnotations"
        yield Invalid("spec.auditAnnotations", [one.key for one in annotations], text)
    known: set[str] = set()
    for at, one in enumerate(annotations):
        place = f"spec.auditAnnotations[{at}]"
        if not one.key:
            yield Required(f"{place}.key")
        else:
            key = f"{name}/{one.key}"
            for complaint in names.qualified_name(key):
                yield Invalid(f"{place}.key", key, complaint)
        if not one.value_expression.strip():
            yield Required(f"{place}.valueExpression", "valueExpression is not specified")
        yield from faults.get(f"{place}.valueExpression", ())
        if one.key in known:
            yield Duplicate(f"{place}.key", one.key)
        known.add(one.key)


class ValidatingPolicyBindingCollection(StoredCollection[ValidatingAdmissionPolicyBinding]):
    """Bindings make sense."""

    def validate(
        self, new: ValidatingAdmissionPolicyBinding, old: ValidatingAdmissionPolicyBinding | None, ctx: Context
    ) -> Iterator[FieldError]:
        spec = new.spec
        if not spec.policy_name:
            yield Required("spec.policyName")
        for complaint in names.dns1123_subdomain(spec.policy_name) if spec.policy_name else ():
            yield Invalid("spec.policyName", spec.policy_name, complaint)
        if spec.param_ref is not None:
            yield from _param_ref(spec.param_ref)
        if spec.match_resources is not None:
            yield from match_errors("spec.matchResources", spec.match_resources, rules=False)
        yield from _actions(spec.validation_actions)


def _param_ref(reference: ParamRef) -> Iterator[FieldError]:
    place = "spec.paramRef"
    if reference.name:
        for complaint in names.path_segment_name(reference.name):
            yield Invalid(f"{place}.name", reference.name, complaint)
        if reference.selector is not None:
            yield Forbidden(f"{place}.name", "name and selector are mutually exclusive")
    if reference.selector is not None:
        yield from selector_errors(f"{place}.selector", reference.selector)
        if reference.name:
            yield Forbidden(f"{place}.selector", "name and selector are mutually exclusive")
    elif not reference.name:
        yield Required(place, "one of name or selector must be specified")
    action = reference.parameter_not_found_action
    if not action:
        yield Required(f"{place}.parameterNotFoundAction")
    else:
        yield from _chosen(f"{place}.parameterNotFoundAction", action, ("Deny", "Allow"))


def _actions(actions: Sequence[str]) -> Iterator[FieldError]:
    place = "spec.validationActions"
    if not actions:
        yield Required(place, "at least one validation action is required")
    for at, action in enumerate(actions):
        yield from _chosen(f"{place}[{at}]", action, ACTIONS)
    if {"Deny", "Warn"} <= set(actions):
        yield Invalid(place, list(actions), _BOTH)
