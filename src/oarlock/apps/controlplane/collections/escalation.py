"""Nobody grants what they don't have: who writes a role or binding must hold its rules, or be trusted to grant them.

The verb ``escalate`` on a role allows any rules in it, ``bind`` on a role any binding of it. Members of
``system:masters`` may do both. Source: Kubernetes' policy-based storage of rbac/v1.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from oarlock.apps.kinds.rbac import GROUP, ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef
from oarlock.meta import errors
from oarlock.meta.context import Target
from oarlock.policy.admission.plugin import Admission, Review
from oarlock.policy.authz.authorizer import EVERYTHING, AccessRule
from oarlock.policy.authz.roles import RoleKey, escalation, uncovered
from oarlock.policy.authz.union import MASTERS, Access

_FOR_GARBAGE_COLLECTION = ("finalizers", "owner_references", "managed_fields", "resource_version")


class RoleEscalation(Admission[Role], operations=["CREATE", "UPDATE"]):
    """Roles have rules that their author has too."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def validate(self, review: Review[Role]) -> None:
        if not await _is_trusted(self._access, review, _own_target(review)):
            _check_held(self._access, review, _rules(review.object.rules))


class ClusterRoleEscalation(Admission[ClusterRole], operations=["CREATE", "UPDATE"]):
    """Cluster roles have rules that their author has too; who aggregates roles must have everything."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def validate(self, review: Review[ClusterRole]) -> None:
        if await _is_trusted(self._access, review, _own_target(review)):
            return
        _check_held(self._access, review, _rules(review.object.rules))
        both = (review.object, review.old_object)
        if any(role is not None and role.aggregation_rule is not None for role in both):
            held = self._access.held_by_roles(review.user, "")
            if uncovered(held.rules, EVERYTHING):
                why = "must have cluster-admin privileges to use the aggregationRule"
                raise errors.Forbidden(review.ctx.target.group_resource, review.name, why)


class BindingEscalation(Admission[RoleBinding], operations=["CREATE", "UPDATE"]):
    """Who binds a role in a namespace has its rules there."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def validate(self, review: Review[RoleBinding]) -> None:
        await _check_binding(self._access, review, review.object.role_ref)


class ClusterBindingEscalation(Admission[ClusterRoleBinding], operations=["CREATE", "UPDATE"]):
    """Who binds a role in the whole cluster has its rules everywhere."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def validate(self, review: Review[ClusterRoleBinding]) -> None:
        await _check_binding(self._access, review, review.object.role_ref)


async def _check_binding(access: Access, review: Review[Any], reference: RoleRef) -> None:
    """Raises Forbidden; NotFound for a role that doesn't exist."""
    resource = "roles" if reference.kind == "Role" else "clusterroles"
    role = Target("bind", GROUP, "v1", resource, namespace=review.namespace, name=reference.name)
    if await _is_trusted(access, review, role):
        return
    rules = access.role_rules(RoleKey(review.namespace if reference.kind == "Role" else "", reference.name))
    if rules is None:
        raise errors.NotFound(review.ctx.target.group_resource, review.name)
    _check_held(access, review, rules)


async def _is_trusted(access: Access, review: Review[Any], target: Target) -> bool:
    """Whether the author may grant anything with this object, or grants nothing that wasn't granted before."""
    if MASTERS in review.user.groups or _is_for_garbage_collection(review.object, review.old_object):
        return True
    return (await access.decide(review.user, target)).allowed


def _own_target(review: Review[Any]) -> Target:
    target = review.ctx.target
    return Target("escalate", target.group, "v1", target.resource, namespace=target.namespace, name=review.name)


def _check_held(access: Access, review: Review[Any], granted: Iterable[AccessRule]) -> None:
    held = access.held_by_roles(review.user, review.namespace)
    why = escalation(review.user, held, granted)
    if why:
        raise errors.Forbidden(review.ctx.target.group_resource, review.name, why)


def _rules(rules: list[PolicyRule] | None) -> tuple[AccessRule, ...]:
    return tuple(
        AccessRule(
            tuple(rule.verbs or ()),
            tuple(rule.api_groups),
            tuple(rule.resources),
            tuple(rule.resource_names),
            tuple(rule.non_resource_urls),
        )
        for rule in rules or ()
    )


def _is_for_garbage_collection(new: Any, old: Any) -> bool:
    """Whether an update changes owners and finalizers only."""
    if old is None:
        return False
    before, after = old.metadata, new.metadata
    if (before.finalizers, before.owner_references) == (after.finalizers, after.owner_references):
        return False
    fields = [name for name in type(new).__struct_fields__ if name != "metadata"]
    metadata = [name for name in type(after).__struct_fields__ if name not in _FOR_GARBAGE_COLLECTION]
    return all(getattr(new, name) == getattr(old, name) for name in fields) and all(
        getattr(after, name) == getattr(before, name) for name in metadata
    )
