"""What is wrong with what policies and bindings of both kinds say.

Source: Kubernetes' validation of ``admissionregistration.k8s.io/v1``. See also: `policies`, `mutating_policies`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from oarlock.apps.admission.match_errors import match_errors
from oarlock.apps.controlplane.collections.selector_errors import selector_errors
from oarlock.apps.kinds.admissionregistration_mutations import MutatingAdmissionPolicyBindingSpec
from oarlock.apps.kinds.admissionregistration_policies import (
    ParamKind,
    ParamRef,
    ValidatingAdmissionPolicyBindingSpec,
    Variable,
)
from oarlock.meta import names
from oarlock.meta.fielderrors import FieldError, Forbidden, Invalid, NotSupported, Required
from oarlock.policy.admission.expressions.compiling import Fault
from oarlock.schema.cel.declared import escape

__all__ = ["ErrorsByField", "binding_errors", "chosen_error", "fault_errors", "param_kind_errors", "variable_errors"]

_identifier = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*").fullmatch

ErrorsByField = dict[str, list[FieldError]]
"""What is wrong with the expressions of a policy, by their places."""


def fault_errors(faults: Iterable[Fault]) -> ErrorsByField:
    """The errors of the expressions of a policy that is compiled."""
    made: ErrorsByField = {}
    for fault in faults:
        made.setdefault(fault.path, []).append(Invalid(fault.path, fault.expression, fault.text))
    return made


def binding_errors(
    spec: ValidatingAdmissionPolicyBindingSpec | MutatingAdmissionPolicyBindingSpec,
) -> Iterator[FieldError]:
    """Every mistake in what bindings of both kinds say."""
    if not spec.policy_name:
        yield Required("spec.policyName")
    for complaint in names.dns1123_subdomain(spec.policy_name) if spec.policy_name else ():
        yield Invalid("spec.policyName", spec.policy_name, complaint)
    if spec.param_ref is not None:
        yield from _param_ref(spec.param_ref)
    if spec.match_resources is not None:
        yield from match_errors("spec.matchResources", spec.match_resources, rules=False)


def chosen_error(path: str, value: str, supported: Sequence[str]) -> Iterator[FieldError]:
    """That a value isn't one of those that there are."""
    if value not in supported:
        yield NotSupported(path, value, supported)


def param_kind_errors(kind: ParamKind) -> Iterator[FieldError]:
    """Every mistake in ``spec.paramKind``."""
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


def variable_errors(variable: Variable, place: str, faults: ErrorsByField) -> Iterator[FieldError]:
    """Every mistake in a variable, which is at `place`."""
    if not variable.name.strip():
        yield Required(f"{place}.name", "name is not specified")
    elif _identifier(variable.name) is None or escape(variable.name) != variable.name:
        yield Invalid(f"{place}.name", variable.name, "must be a valid CEL identifier")
    if not variable.expression.strip():
        yield Required(f"{place}.expression", "expression is not specified")
    yield from faults.get(f"{place}.expression", ())


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
        yield from chosen_error(f"{place}.parameterNotFoundAction", action, ("Deny", "Allow"))
