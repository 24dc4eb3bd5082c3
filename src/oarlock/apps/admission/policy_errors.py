"""What is wrong with what policies and bindings of both kinds say.

Source: Kubernetes' validation of ``admissionregistration.k8s.io/v1``. See also: `policy_part`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from oarlock.apps.admission.policy_params import ParamError, ParamReader
from oarlock.apps.controlplane.collections.roles import selector_errors
from oarlock.apps.kinds.admissionregistration import (
    GROUP,
    MatchResources,
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
    MutatingAdmissionPolicyBindingSpec,
    NamedRuleWithOperations,
    ParamKind,
    ParamRef,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicyBindingSpec,
    Variable,
)
from oarlock.client.informers.informer import Informer
from oarlock.meta import names
from oarlock.meta.context import Target, User
from oarlock.meta.errors import InvalidObject
from oarlock.meta.fielderrors import Duplicate, FieldError, Forbidden, Invalid, NotSupported, Required
from oarlock.meta.kinds import GroupKind
from oarlock.meta.names import path_segment_name
from oarlock.policy.admission.expressions import Fault
from oarlock.policy.admission.plugin import Admission, Review
from oarlock.policy.authz.union import MASTERS, Access
from oarlock.schema.cel.declared import escape


class _ParamPermission:
    """What the plugins share: `access` says who may do what, `params` finds the resource of a kind."""

    def __init__(self, access: Access, params: ParamReader) -> None:
        self._access = access
        self._params = params

    async def _check_policy(self, review: Review[Any], kind: str) -> None:
        wanted, old = review.object.spec.param_kind, review.old_object
        if wanted is None or MASTERS in review.user.groups or (old is not None and old.spec.param_kind == wanted):
            return
        if not await _may(self._access, review.user, await _target(self._params, wanted, "get")):
            text = (
                f'user {_in_go(review.user)} must have "get" permission on all objects of the referenced paramKind '
                f"(kind={wanted.kind}, apiVersion={wanted.api_version})"
            )
            _refuse(review, kind, Forbidden("spec.paramKind", text))

    async def _check_binding(self, review: Review[Any], kind: str, policies: Informer[Any]) -> None:
        spec, old = review.object.spec, review.old_object
        reference = spec.param_ref
        if reference is None or MASTERS in review.user.groups:
            return
        if old is not None and (old.spec.param_ref, old.spec.policy_name) == (reference, spec.policy_name):
            return
        policy = policies.get(spec.policy_name)
        wanted = None if policy is None else policy.spec.param_kind
        verb = "get" if reference.name else "list"
        target = Target(verb, "*", "*", "*", namespace=reference.namespace, name=reference.name)
        if wanted is not None:
            target = await _target(self._params, wanted, verb, reference.namespace, reference.name)
        if not await _may(self._access, review.user, target):
            who = _in_go(review.user)
            text = f'user {who} does not have "{verb}" permission on the object referenced by paramRef'
            _refuse(review, kind, Forbidden("spec.paramRef", text))


class PolicyParamPermission(_ParamPermission, Admission[ValidatingAdmissionPolicy], operations=["CREATE", "UPDATE"]):
    """Who writes a policy may get every object of its paramKind."""

    async def validate(self, review: Review[ValidatingAdmissionPolicy]) -> None:
        await self._check_policy(review, "ValidatingAdmissionPolicy")


class MutatingPolicyParamPermission(
    _ParamPermission, Admission[MutatingAdmissionPolicy], operations=["CREATE", "UPDATE"]
):
    """The same, for a MutatingAdmissionPolicy."""

    async def validate(self, review: Review[MutatingAdmissionPolicy]) -> None:
        await self._check_policy(review, "MutatingAdmissionPolicy")


class BindingParamPermission(
    _ParamPermission, Admission[ValidatingAdmissionPolicyBinding], operations=["CREATE", "UPDATE"]
):
    """Who writes a binding may read the parameters that it names."""

    def __init__(self, access: Access, params: ParamReader, policies: Informer[ValidatingAdmissionPolicy]) -> None:
        super().__init__(access, params)
        self._policies = policies

    async def validate(self, review: Review[ValidatingAdmissionPolicyBinding]) -> None:
        await self._check_binding(review, "ValidatingAdmissionPolicyBinding", self._policies)


class MutatingBindingParamPermission(
    _ParamPermission, Admission[MutatingAdmissionPolicyBinding], operations=["CREATE", "UPDATE"]
):
    """The same, for a binding of a MutatingAdmissionPolicy."""

    def __init__(self, access: Access, params: ParamReader, policies: Informer[MutatingAdmissionPolicy]) -> None:
        super().__init__(access, params)
        self._policies = policies

    async def validate(self, review: Review[MutatingAdmissionPolicyBinding]) -> None:
        await self._check_binding(review, "MutatingAdmissionPolicyBinding", self._policies)


async def _may(access: Access, user: User, target: Target) -> bool:
    return (await access.decide(user, target)).allowed


async def _target(params: ParamReader, kind: ParamKind, verb: str, namespace: str = "", name: str = "") -> Target:
    """What is asked about objects of a kind; all resources of the group if the kind isn't served."""
    group, _, version = kind.api_version.rpartition("/")
    try:
        resource = (await params.ref((kind.api_version, kind.kind))).plural
    except ParamError:
        resource = "*"
    return Target(verb, group, version, resource, namespace=namespace, name=name)


def _refuse(review: Review[Any], kind: str, error: Forbidden) -> None:
    raise InvalidObject(GroupKind(GROUP, kind), review.name, [error])


def _in_go(user: User) -> str:
    return f"&{{{user.name} {user.uid} [{' '.join(user.groups)}] map[]}}"


OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
SCOPES = ("*", "Cluster", "Namespaced")


def match_errors(path: str, matched: MatchResources, *, rules: bool) -> Iterator[FieldError]:
    """Every mistake in `matched`, which is at `path`; with `rules` there must be some."""
    if not matched.match_policy:
        yield Required(f"{path}.matchPolicy")
    elif matched.match_policy not in ("Equivalent", "Exact"):
        yield NotSupported(f"{path}.matchPolicy", matched.match_policy, ("Equivalent", "Exact"))
    if matched.namespace_selector is None:
        yield Required(f"{path}.namespaceSelector")
    else:
        yield from selector_errors(f"{path}.namespaceSelector", matched.namespace_selector)
    if matched.object_selector is None:
        yield Required(f"{path}.objectSelector")
    else:
        yield from selector_errors(f"{path}.objectSelector", matched.object_selector)
    if rules and not matched.resource_rules:
        yield Required(f"{path}.resourceRules")
    for at, rule in enumerate(matched.resource_rules):
        yield from _rule(f"{path}.resourceRules[{at}]", rule)
    for at, rule in enumerate(matched.exclude_resource_rules):
        yield from _rule(f"{path}.excludeResourceRules[{at}]", rule)


def _rule(path: str, rule: NamedRuleWithOperations) -> Iterator[FieldError]:
    known: set[str] = set()
    for at, name in enumerate(rule.resource_names):
        for complaint in path_segment_name(name):
            yield Invalid(f"{path}.resourceNames[{at}]", name, complaint)
        if name in known:
            yield Duplicate(f"{path}.resourceNames[{at}]", name)
        known.add(name)
    if not rule.operations:
        yield Required(f"{path}.operations")
    if len(rule.operations) > 1 and "*" in rule.operations:
        text = "if '*' is present, must not specify other operations"
        yield Invalid(f"{path}.operations", list(rule.operations), text)
    for at, operation in enumerate(rule.operations):
        if operation not in OPERATIONS:
            yield NotSupported(f"{path}.operations[{at}]", operation, OPERATIONS)
    yield from _wildcards(f"{path}.apiGroups", rule.api_groups, "API groups", empty=True)
    yield from _wildcards(f"{path}.apiVersions", rule.api_versions, "API versions")
    yield from _resources(f"{path}.resources", rule.resources)
    if rule.scope not in SCOPES:
        yield NotSupported(f"{path}.scope", rule.scope, SCOPES)


def _wildcards(path: str, given: Sequence[str], what: str, *, empty: bool = False) -> Iterator[FieldError]:
    if not given:
        yield Required(path)
    if len(given) > 1 and "*" in given:
        yield Invalid(path, list(given), f"if '*' is present, must not specify other {what}")
    for at, condition in enumerate(given):
        if not condition and not empty:
            yield Required(f"{path}[{at}]")


def _resources(path: str, given: Sequence[str]) -> Iterator[FieldError]:
    if not given:
        yield Required(path)
    of_all: set[str] = set()
    with_all: set[str] = set()
    for at, rule in enumerate(given):
        if not rule:
            yield Required(f"{path}[{at}]")
            continue
        resource, slash, subresource = rule.partition("/")
        place = f"{path}[{at}]"
        if rule == "*/*" and len(given) > 1:
            yield Invalid(path, list(given), "if '*/*' is present, must not specify other resources")
        if resource in with_all and slash and subresource != "*":
            yield Invalid(place, rule, f"if '{resource}/*' is present, must not specify {rule}")
        if subresource in of_all and resource != "*":
            yield Invalid(place, rule, f"if '*/{subresource}' is present, must not specify {rule}")
        if slash and subresource == "*":
            with_all.add(resource)
        if slash and resource == "*":
            of_all.add(subresource)
    if len(given) > 1 and "*" in given and any("/" not in resource and resource != "*" for resource in given):
        text = "if '*' is present, must not specify other resources without subresources"
        yield Invalid(path, list(given), text)


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
