"""`ConfiguredWebhook`: one webhook as the engine has it; `WebhookSet`: all, and which are asked about what.

A `WebhookSet` is immutable: another one takes its place when the configurations change. What it says about a kind of
request it says again without looking at any rule, so webhooks that aren't asked cost nothing.
Must not know: objects, HTTP. See also: `plugins`, which looks at selectors and conditions.
Source: k8s.io/apiserver ``admission/plugin/webhook/predicates/rules`` and ``webhook/generic``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from oarlock.client.webhooks import WebhookTarget
from oarlock.meta.dataclass import dataclass
from oarlock.meta.json_trees import Tree
from oarlock.meta.labels import EVERYTHING, Selector
from oarlock.policy.admission.expressions.conditions import (
    CompiledExpression,
    ExpressionRun,
    FaultyExpression,
    all_hold,
    compile_expression,
    unusable_expression,
)
from oarlock.policy.admission.expressions.environment import Scope, variables_of
from oarlock.policy.admission.expressions.waiting import ExpressionRunner, ReviewedRequest
from oarlock.schema.definition import ResourceDefinition

_SCOPE = variables_of(Scope())


def call_condition(source: str, path: str = "") -> CompiledExpression:
    """Compile a condition. Raises FaultyExpression, which names `path`."""
    return compile_expression(source, path, _SCOPE)


def stored_condition(source: str) -> CompiledExpression:
    """The same for one that is stored: if it isn't valid here, it always fails."""
    try:
        return call_condition(source)
    except FaultyExpression as error:
        return unusable_expression(error.fault)


async def is_asked(
    hook: ConfiguredWebhook,
    objects: tuple[Tree | None, Tree | None],
    about: Tree,
    runner: ExpressionRunner,
    request: ReviewedRequest,
) -> bool:
    """Whether the conditions of a webhook hold. `objects` are the new and the old one, `about` is the request.

    Raises UndecidedConditions.
    """
    values = {
        "object": objects[0],
        "oldObject": objects[1],
        "request": about,
        "namespaceObject": None,
        **request.authorizers(about.get("name", "")),
    }
    run = ExpressionRun(values)
    return await runner.result(all_hold(hook.conditions, run), run, request)


MOST_KINDS = 4096
"""Of how many kinds of requests the answer is remembered."""

_NEVER = frozenset(
    (
        "validatingwebhookconfigurations",
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
    )
)
"""The resources of admissionregistration.k8s.io about which nobody is asked: who locked himself out could never change
it."""


class RequestKind(NamedTuple):
    """What rules look at. `namespaced` says whether the object is in a namespace."""

    operation: str
    group: str
    version: str
    resource: str
    subresource: str
    namespaced: bool


@dataclass(frozen=True, slots=True)
class WebhookRule:
    """Operations on resources; ``*`` is all of them."""

    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: frozenset[str]
    scope: str = "*"

    def matches(self, kind: RequestKind) -> bool:
        if self.scope != "*" and (self.scope == "Namespaced") is not kind.namespaced:
            return False
        return (
            _among(kind.operation, self.operations)
            and _among(kind.group, self.groups)
            and _among(kind.version, self.versions)
            and self._has_resource(kind.resource, kind.subresource)
        )

    def _has_resource(self, resource: str, subresource: str) -> bool:
        named = self.resources
        if not subresource:
            return not named.isdisjoint((resource, "*", f"{resource}/*", "*/*"))
        return not named.isdisjoint((f"{resource}/{subresource}", f"{resource}/*", f"*/{subresource}", "*/*"))


def _among(value: str, values: frozenset[str]) -> bool:
    return value in values or "*" in values


@dataclass(frozen=True, slots=True, eq=False)
class ConfiguredWebhook:
    """One webhook of the configuration called `configuration`. `fails` is its failurePolicy: whether a failure refuses.

    `equivalent`: it is asked also about other versions of what its rules name, with objects in the version they name.
    `again`: it is asked again if another one changes the object after it.
    """

    configuration: str
    name: str
    target: WebhookTarget
    rules: tuple[WebhookRule, ...]
    fails: bool = True
    equivalent: bool = True
    again: bool = False
    mutating: bool = False
    timeout_s: float = 10.0
    review_version: str = "v1"
    namespaces: Selector = EVERYTHING
    objects: Selector = EVERYTHING
    conditions: tuple[CompiledExpression, ...] = ()


class WebhookMatch(NamedTuple):
    """A webhook whose rules name a kind of request, and the version its objects are sent in.

    `version` is what the definition calls it. `place` is that of the webhook among all that are configured.
    """

    hook: ConfiguredWebhook
    version: str
    group: str
    version_name: str
    place: int = 0


class WebhookSet:
    """The webhooks of all configurations, in the order in which they are asked."""

    def __init__(self, hooks: Iterable[ConfiguredWebhook] = ()) -> None:
        self.hooks = tuple(hooks)
        self._known: dict[RequestKind, tuple[ResourceDefinition, tuple[WebhookMatch, ...]]] = {}

    def matching(self, kind: RequestKind, definition: ResourceDefinition) -> tuple[WebhookMatch, ...]:
        """The webhooks whose rules name this kind of request."""
        known = self._known.get(kind)
        if known is None or known[0] is not definition:
            if len(self._known) >= MOST_KINDS:
                self._known.clear()
            known = self._known[kind] = (definition, tuple(self._matches(kind, definition)))
        return known[1]

    def _matches(self, kind: RequestKind, definition: ResourceDefinition) -> Iterator[WebhookMatch]:
        if kind.group == "admissionregistration.k8s.io" and kind.resource in _NEVER:
            return
        for place, hook in enumerate(self.hooks):
            match = _match(hook, kind, definition)
            if match is not None:
                yield match._replace(place=place)


def _match(hook: ConfiguredWebhook, kind: RequestKind, definition: ResourceDefinition) -> WebhookMatch | None:
    if any(rule.matches(kind) for rule in hook.rules):
        return WebhookMatch(hook, definition.version_in(kind.group, kind.version), kind.group, kind.version)
    if not hook.equivalent:
        return None
    others = [(version.name, definition.gvk(version.name)) for version in definition.versions if version.served]
    for rule in hook.rules:
        for name, other in others:
            if rule.matches(kind._replace(group=other.group, version=other.version)):
                return WebhookMatch(hook, name, other.group, other.version)
    return None
