"""What the server does with roles and bindings beyond storing them: what they must be like.

Source: Kubernetes' validation of rbac/v1. See also: `escalation`, which says who may write them.
"""

from __future__ import annotations

from collections.abc import Iterator

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
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Forbidden, Invalid, NotSupported, Required
from oarlock.meta.names import dns1123_subdomain, label_value, path_segment_name, qualified_name
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
