"""Reviews of what somebody may do, answered as the server itself decides. Nothing of them is kept.

Source: Kubernetes' registry and validation of authorization/v1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from oarlock.apps.kinds.authorization import (
    GROUP,
    LocalSubjectAccessReview,
    NonResourceRule,
    ResourceRule,
    SelectorAttributes,
    SelfSubjectAccessReview,
    SelfSubjectRulesReview,
    SelfSubjectRulesReviewSpec,
    SubjectAccessReview,
    SubjectAccessReviewStatus,
    SubjectRulesReviewStatus,
)
from oarlock.meta.context import Context, Target, User
from oarlock.meta.errors import BadRequest, InvalidObject
from oarlock.meta.fielderrors import FieldError, Invalid, Required
from oarlock.meta.kinds import GroupKind
from oarlock.policy.authz.authorizer import KnownRules, Outcome
from oarlock.policy.authz.union import Access
from oarlock.policy.authz.webhook import target_of, user_of
from oarlock.registry.hooks.collection import VirtualCollection
from oarlock.registry.workers import aside, is_wide
from oarlock.schema.types.views import builtins_of


class SubjectAccessReviews(VirtualCollection[SubjectAccessReview]):
    """Reviews whether a user may perform an action."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def create(self, new: SubjectAccessReview, ctx: Context, *, dry_run: bool = False) -> SubjectAccessReview:
        _refuse([*_mistakes(new.spec), *_missing_subject(new.spec)])
        new.status = await _status(self._access, await _user(new.spec), new.spec)
        return new


class LocalSubjectAccessReviews(VirtualCollection[LocalSubjectAccessReview]):
    """Reviews whether a user may perform an action in a namespace."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def create(
        self, new: LocalSubjectAccessReview, ctx: Context, *, dry_run: bool = False
    ) -> LocalSubjectAccessReview:
        _refuse([*_mistakes(new.spec), *_missing_subject(new.spec), *_other_namespace(new.spec, ctx.target.namespace)])
        new.status = await _status(self._access, await _user(new.spec), new.spec)
        return new


class SelfSubjectAccessReviews(VirtualCollection[SelfSubjectAccessReview]):
    """Whether the sender may do something."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def create(
        self, new: SelfSubjectAccessReview, ctx: Context, *, dry_run: bool = False
    ) -> SelfSubjectAccessReview:
        _refuse([*_mistakes(new.spec)])
        new.status = await _status(self._access, ctx.user, new.spec)
        return new


class SelfSubjectRulesReviews(VirtualCollection[SelfSubjectRulesReview]):
    """Everything that the sender may do in a namespace."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def create(
        self, new: SelfSubjectRulesReview, ctx: Context, *, dry_run: bool = False
    ) -> SelfSubjectRulesReview:
        if not new.spec.namespace:
            raise BadRequest("no namespace on request")
        known = await self._access.rules(ctx.user, new.spec.namespace)
        new.status = await aside(_rules_status, known) if is_wide(known.rules) else _rules_status(known)
        new.spec = SelfSubjectRulesReviewSpec()
        return new


def _rules_status(known: KnownRules) -> SubjectRulesReviewStatus:
    status = SubjectRulesReviewStatus(incomplete=known.incomplete, evaluation_error=known.error)
    for rule in known.rules:
        if rule.resources:
            status.resource_rules.append(
                ResourceRule(
                    verbs=list(rule.verbs),
                    api_groups=list(rule.api_groups),
                    resources=list(rule.resources),
                    resource_names=list(rule.resource_names),
                )
            )
        if rule.non_resource_urls:
            urls = list(rule.non_resource_urls)
            status.non_resource_rules.append(NonResourceRule(verbs=list(rule.verbs), non_resource_urls=urls))
    return status


async def _user(spec: Any) -> User:
    """Whom a review asks about."""
    return await aside(_user_now, spec) if is_wide(spec) else _user_now(spec)


def _user_now(spec: Any) -> User:
    return user_of(builtins_of(spec))


async def _status(access: Access, user: User, spec: Any) -> SubjectAccessReviewStatus:
    target = await aside(_target_now, spec) if is_wide(spec) else _target_now(spec)
    decision = await access.decide(user, target)
    denied = decision.outcome is Outcome.DENY
    return SubjectAccessReviewStatus(allowed=decision.allowed, denied=denied, reason=decision.reason)


def _target_now(spec: Any) -> Target:
    about, path = spec.resource_attributes, spec.non_resource_attributes
    named = {"resourceAttributes": about, "nonResourceAttributes": path}
    return target_of({name: builtins_of(attributes) for name, attributes in named.items() if attributes is not None})


def _refuse(errors: list[FieldError]) -> None:
    if errors:
        raise InvalidObject(GroupKind(GROUP, ""), "", errors)


def _mistakes(spec: Any) -> Iterator[FieldError]:
    about, path = spec.resource_attributes, spec.non_resource_attributes
    if about is not None and path is not None:
        why = "cannot be specified in combination with resourceAttributes"
        yield Invalid("spec.nonResourceAttributes", _path_shown(path), why)
    if about is None and path is None:
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        yield Invalid("spec.resourceAttributes", None, why)
    if about is not None:
        yield from _selector_mistakes("spec.resourceAttributes.fieldSelector", about.field_selector)
        yield from _selector_mistakes("spec.resourceAttributes.labelSelector", about.label_selector)


def _selector_mistakes(path: str, selector: SelectorAttributes | None) -> Iterator[FieldError]:
    if selector is None:
        return
    if selector.raw_selector and selector.requirements:
        yield Invalid(
            f"{path}.rawSelector", selector.raw_selector, "may not specified at the same time as requirements"
        )
    if not selector.raw_selector and not selector.requirements:
        yield Required(f"{path}.requirements", f"when {path} is specified, requirements or rawSelector is required")
    for at, requirement in enumerate(selector.requirements):
        if not requirement.key:
            yield Required(f"{path}.requirements[{at}].key", "must be specified")


def _missing_subject(spec: Any) -> Iterator[FieldError]:
    if not spec.user and not spec.groups:
        yield Invalid("spec.user", spec.user, "at least one of user or group must be specified")


def _other_namespace(spec: Any, namespace: str) -> Iterator[FieldError]:
    about, path = spec.resource_attributes, spec.non_resource_attributes
    if about is not None and about.namespace != namespace:
        yield Invalid("spec.resourceAttributes.namespace", about.namespace, "must match metadata.namespace")
    if path is not None:
        yield Invalid("spec.nonResourceAttributes", _path_shown(path), "disallowed on this kind of request")


def _path_shown(path: Any) -> dict[str, str]:
    """As Kubernetes shows it: with the names that the fields have in Go."""
    return {"Path": path.path, "Verb": path.verb}
