"""What the server does with roles and bindings beyond storing them: what they must be like, and who may write them.

Nobody grants what they don't have: who writes a role or binding must hold its rules, or be trusted to grant them. The
verb ``escalate`` on a role allows any rules in it, ``bind`` on a role any binding of it. Members of ``system:masters``
may do both. Source: Kubernetes' validation of rbac/v1 and its policy-based storage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from oarlock.apps.kinds.meta import LabelSelector, LabelSelectorRequirement
from oarlock.apps.kinds.rbac import (
    GROUP,
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    Role,
    RoleBinding,
    RoleRef,
    Subject,
)
from oarlock.meta import errors
from oarlock.meta.context import Context, Target
from oarlock.meta.fielderrors import FieldError, Forbidden, Invalid, NotSupported, Required
from oarlock.meta.names import dns1123_subdomain, label_value, path_segment_name, qualified_name
from oarlock.policy.admission.plugin import Admission, Review
from oarlock.policy.authz.authorizer import EVERYTHING, AccessRule
from oarlock.policy.authz.roles import RoleKey, escalation, uncovered
from oarlock.policy.authz.union import MASTERS, Access
from oarlock.registry.hooks.collection import StoredCollection


def selector_errors(path: str, selector: LabelSelector) -> Iterator[FieldError]:
    """Every mistake in `selector`, which is at `path`."""
    for key, value in selector.match_labels.items():
        for complaint in qualified_name(key):
            yield Invalid(f"{path}.matchLabels", key, complaint)
        for complaint in label_value(value):
            yield Invalid(f"{path}.matchLabels", value, complaint)
    for at, requirement in enumerate(selector.match_expressions):
        yield from _requirement_errors(f"{path}.matchExpressions[{at}]", requirement)


def _requirement_errors(path: str, requirement: LabelSelectorRequirement) -> Iterator[FieldError]:
    operator, values = requirement.operator, requirement.values
    if operator in ("In", "NotIn"):
        if not values:
            yield Required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            yield Forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    else:
        yield Invalid(f"{path}.operator", operator, "not a valid selector operator")
    for complaint in qualified_name(requirement.key):
        yield Invalid(f"{path}.key", requirement.key, complaint)
    for at, value in enumerate(values):
        for complaint in label_value(value):
            yield Invalid(f"{path}.values[{at}]", value, complaint)


_SUBJECTS = ("ServiceAccount", "User", "Group")


class RoleCollection(StoredCollection[Role]):
    """The rules of a role in a namespace are about its objects."""

    __threadsafe__ = True

    def prepare(self, new: Role, old: Role | None, ctx: Context) -> None:
        new.rules = new.rules or None

    def validate(self, new: Role, old: Role | None, ctx: Context) -> Iterator[FieldError]:
        yield from _rule_errors(new.rules, namespaced=True)


class ClusterRoleCollection(StoredCollection[ClusterRole]):
    """The rules of a cluster's role may also be about paths."""

    __threadsafe__ = True

    def prepare(self, new: ClusterRole, old: ClusterRole | None, ctx: Context) -> None:
        new.rules = new.rules or None

    def validate(self, new: ClusterRole, old: ClusterRole | None, ctx: Context) -> Iterator[FieldError]:
        yield from _rule_errors(new.rules, namespaced=False)
        if new.aggregation_rule is None:
            return
        path, selectors = "aggregationRule.clusterRoleSelectors", new.aggregation_rule.cluster_role_selectors
        if not selectors:
            yield Required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil")
        for at, selector in enumerate(selectors):
            errors = list(selector_errors(f"{path}[{at}]", selector))
            yield from errors
            if errors:
                yield Invalid(f"{path}[{at}]", None, "invalid label selector.")


class RoleBindingCollection(StoredCollection[RoleBinding]):
    """A binding in a namespace is of one of its roles, or of the cluster's."""

    __threadsafe__ = True

    def validate(self, new: RoleBinding, old: RoleBinding | None, ctx: Context) -> Iterator[FieldError]:
        yield from _reference_errors(new.role_ref, ("Role", "ClusterRole"))
        yield from _subject_errors(new.subjects, namespaced=True)
        if old is not None:
            yield from _changed_reference(new.role_ref, old.role_ref)


class ClusterRoleBindingCollection(StoredCollection[ClusterRoleBinding]):
    """A binding in the whole cluster is of one of its roles."""

    __threadsafe__ = True

    def validate(self, new: ClusterRoleBinding, old: ClusterRoleBinding | None, ctx: Context) -> Iterator[FieldError]:
        yield from _reference_errors(new.role_ref, ("ClusterRole",))
        yield from _subject_errors(new.subjects, namespaced=False)
        if old is not None:
            yield from _changed_reference(new.role_ref, old.role_ref)


def _rule_errors(rules: list[PolicyRule] | None, *, namespaced: bool) -> Iterator[FieldError]:
    for at, rule in enumerate(rules or ()):
        path = f"rules[{at}]"
        if not rule.verbs:
            yield Required(f"{path}.verbs", "verbs must contain at least one value")
        urls = rule.non_resource_urls
        if urls:
            if namespaced:
                why = "namespaced rules cannot apply to non-resource URLs"
                yield Invalid(f"{path}.nonResourceURLs", urls, why)
            if rule.api_groups or rule.resources or rule.resource_names:
                why = "rules cannot apply to both regular resources and non-resource URLs"
                yield Invalid(f"{path}.nonResourceURLs", urls, why)
            continue
        if not rule.api_groups:
            yield Required(f"{path}.apiGroups", "resource rules must supply at least one api group")
        if not rule.resources:
            yield Required(f"{path}.resources", "resource rules must supply at least one resource")


def _reference_errors(reference: RoleRef, kinds: tuple[str, ...]) -> Iterator[FieldError]:
    if reference.api_group != GROUP:
        yield NotSupported("roleRef.apiGroup", reference.api_group, [GROUP])
    if reference.kind not in kinds:
        yield NotSupported("roleRef.kind", reference.kind, kinds)
    if not reference.name:
        yield Required("roleRef.name")
    else:
        for complaint in path_segment_name(reference.name):
            yield Invalid("roleRef.name", reference.name, complaint)


def _subject_errors(subjects: list[Subject], *, namespaced: bool) -> Iterator[FieldError]:
    for at, subject in enumerate(subjects):
        path = f"subjects[{at}]"
        if not subject.name:
            yield Required(f"{path}.name")
        if subject.kind == "ServiceAccount":
            for complaint in dns1123_subdomain(subject.name) if subject.name else ():
                yield Invalid(f"{path}.name", subject.name, complaint)
            if subject.api_group:
                yield NotSupported(f"{path}.apiGroup", subject.api_group, [""])
            if not namespaced and not subject.namespace:
                yield Required(f"{path}.namespace")
        elif subject.kind not in _SUBJECTS:
            yield NotSupported(f"{path}.kind", subject.kind, _SUBJECTS)
        elif subject.api_group != GROUP:
            yield NotSupported(f"{path}.apiGroup", subject.api_group, [GROUP])


def _changed_reference(new: RoleRef, old: RoleRef) -> Iterator[FieldError]:
    if new != old:
        shown = {"APIGroup": new.api_group, "Kind": new.kind, "Name": new.name}
        yield Invalid("roleRef", shown, "cannot change roleRef")


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
