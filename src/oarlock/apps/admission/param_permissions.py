"""Who names parameters in a policy or a binding may read them: admission plugins.

Source: Kubernetes' storage of ``admissionregistration.k8s.io/v1`` (authz checks of policies and bindings).
"""

from __future__ import annotations

from typing import Any

from oarlock.apps.admission.policy_params import ParamError, ParamReader
from oarlock.apps.kinds.admissionregistration_mutations import (
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
)
from oarlock.apps.kinds.admissionregistration_policies import (
    GROUP,
    ParamKind,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from oarlock.client.informers.informer import Informer
from oarlock.meta.context import Target, User
from oarlock.meta.errors import InvalidObject
from oarlock.meta.fielderrors import Forbidden
from oarlock.meta.kinds import GroupKind
from oarlock.policy.admission.plugin import Admission, Review
from oarlock.policy.authz.access import Access
from oarlock.policy.authz.union import MASTERS

__all__ = [
    "BindingParamPermission",
    "MutatingBindingParamPermission",
    "MutatingPolicyParamPermission",
    "PolicyParamPermission",
]


class _ParamPermission:
    """What the plugins share: `access` says who may do what, `params` finds the resource of a kind."""

    def __init__(self, access: Access, params: ParamReader) -> None:
        self._access = access
        self._params = params

    async def _check_policy(self, review: Review[Any], kind: str) -> None:
        wanted, old = review.object.spec.param_kind, review.old_object
        if wanted is None or MASTERS in review.user.groups or (old is not None and old.spec.param_kind == wanted):
            return
        if not await _may(self._access, review.user, _target(self._params, wanted, "get")):
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
            target = _target(self._params, wanted, verb, reference.namespace, reference.name)
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


def _target(params: ParamReader, kind: ParamKind, verb: str, namespace: str = "", name: str = "") -> Target:
    """What is asked about objects of a kind; all resources of the group if the kind isn't served."""
    group, _, version = kind.api_version.rpartition("/")
    try:
        resource = params.ref((kind.api_version, kind.kind)).plural
    except ParamError:
        resource = "*"
    return Target(verb, group, version, resource, namespace=namespace, name=name)


def _refuse(review: Review[Any], kind: str, error: Forbidden) -> None:
    raise InvalidObject(GroupKind(GROUP, kind), review.name, [error])


def _in_go(user: User) -> str:
    return f"&{{{user.name} {user.uid} [{' '.join(user.groups)}] map[]}}"
