"""`ConfiguredWebhook`: one webhook as the engine has it; `WebhookSet`: all, and which are asked about what.

A `WebhookSet` is immutable: another one takes its place when the configurations change. What it says about a kind of
request it says again without looking at any rule, so webhooks that aren't asked cost nothing.
Must not know: objects, HTTP. See also: `plugins`, which looks at selectors and conditions.
Source: k8s.io/apiserver ``admission/plugin/webhook/predicates/rules`` and ``webhook/generic``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from oarlock.client.webhooks import WebhookTarget
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import InternalError
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupResource, GroupVersionKind
from oarlock.meta.labels import EVERYTHING, Selector
from oarlock.policy.admission.expressions import (
    CompiledExpression,
    ExpressionRun,
    ExpressionRunner,
    FaultyExpression,
    ReviewedRequest,
    Scope,
    all_hold,
    compile_expression,
    unusable_expression,
    variables_of,
)
from oarlock.policy.admission.webhooks.review import ReviewedKind
from oarlock.registry.conversions import copy_tree, copy_unless_pure
from oarlock.registry.workers import Offload
from oarlock.registry.write.replicas import path_steps
from oarlock.registry.write.scale import Scaling
from oarlock.registry.write.write_request import AdmissionRequest
from oarlock.schema.definition import ResourceDefinition
from oarlock.schema.types.folding import fold

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


SUFFIX = 5
MOST_OF_BASE = 58
"""A generated name is at most so many characters of the base, and `SUFFIX` more."""

_NAMESPACES = GroupResource("", "namespaces")
_SCALE = GroupVersionKind("autoscaling", "v1", "Scale")


class ReviewedObjects:
    """What the webhooks of one request are shown, and what becomes of their changes."""

    __slots__ = ("_offload", "_request", "_scaling", "_version")

    def __init__(self, request: AdmissionRequest, offload: Offload) -> None:
        self._request = request
        self._offload = offload
        target, definition = request.ctx.target, request.served.definition
        self._version = definition.version_in(target.group, target.version)
        self._scaling: Scaling | None = None
        if target.subresource == "scale" and request.body_kind is None and request.operation != "CONNECT":
            scale = definition.version(self._version).scale
            self._scaling = None if scale is None else Scaling(definition, scale)

    def asked(self) -> ReviewedKind:
        """What the user asked for."""
        target = self._request.ctx.target
        return self._kind(target.group, target.version)

    def sent(self, match: WebhookMatch) -> ReviewedKind:
        """What the webhook is sent."""
        return self._kind(match.group, match.version_name)

    def _kind(self, group: str, version: str) -> ReviewedKind:
        request = self._request
        names, target = request.served.definition.names, request.ctx.target
        kind = GroupVersionKind(group, version, names.kind)
        if request.body_kind is not None:
            kind = request.body_kind
        elif self._scaling is not None:
            kind = _SCALE
        elif request.operation == "CONNECT":
            kind = GroupVersionKind(group, version, f"{names.kind}{target.subresource.capitalize()}Options")
        return ReviewedKind(kind, group, version, target.resource)

    async def new_shown(self, new: Tree | None, old: Tree | None, version: str, place: tuple[str, str]) -> Tree | None:
        """The new object as the webhook sees it: with the revision it takes the place of; `place` has its name."""
        if new is None or self._request.body_kind is not None:
            return new
        metadata = {**new["metadata"]}
        if not place[1] and self._request.operation == "CREATE":
            metadata.pop("name", None)
        if old is not None and "resourceVersion" not in metadata and "resourceVersion" in old["metadata"]:
            metadata["resourceVersion"] = old["metadata"]["resourceVersion"]
        same = len(metadata) == len(new["metadata"])
        return await self.shown(new if same else {**new, "metadata": metadata}, version)

    async def shown(self, tree: Tree | None, version: str) -> Tree | None:
        """An object as the webhook sees it."""
        if tree is None or self._request.body_kind is not None:
            return tree
        if version != self._version:
            served = self._request.served
            passed = await self._offload(copy_unless_pure, served.converter, tree)
            (tree,) = await served.convert([passed], self._version, version)
        return tree if self._scaling is None else self._scaling_of(version).show(tree)

    async def changed(self, tree: Tree, shown: Tree, patched: Tree, version: str) -> Tree:
        """The object with what a webhook has changed of what it was shown."""
        if self._scaling is not None:
            return self._scaled(tree, patched)
        if self._request.body_kind is not None:
            return patched
        if "resourceVersion" not in tree["metadata"]:
            metadata = {key: value for key, value in patched["metadata"].items() if key != "resourceVersion"}
            patched = {**patched, "metadata": metadata}
        if version == self._version:
            return patched
        served = self._request.served
        copies = [await self._offload(copy_tree, shown), await self._offload(copy_tree, patched)]
        before, after = await served.convert(copies, version, self._version)
        schema = served.definition.version(self._version).schema
        folded: Tree = await self._offload(fold, tree, before, after, schema)
        return folded

    def _scaling_of(self, version: str) -> Scaling:
        definition = self._request.served.definition
        scale = definition.version(version).scale
        if scale is None:
            raise InternalError(f"{version} of {definition.names.plural} has no scale")
        return Scaling(definition, scale)

    def _scaled(self, tree: Tree, patched: Tree) -> Tree:
        """The object with the number of replicas that a changed Scale has."""
        spec: Any = patched.get("spec") or {}
        replicas = spec.get("replicas", 0) if isinstance(spec, Mapping) else None
        if not isinstance(replicas, int) or isinstance(replicas, bool):
            raise InternalError("a webhook has made a Scale without a number of replicas")
        scale = self._request.served.definition.version(self._version).scale
        if scale is None:
            return tree
        changed = copy_tree(tree)
        *way, last = path_steps(scale.spec_replicas_path)
        place: Any = changed
        for step in way:
            place = place.setdefault(step, {})
        place[last] = replicas
        return changed


def reviewed_place(request: AdmissionRequest, new: Tree | None, *, final: bool) -> tuple[str, str]:
    """The namespace and name that a review says. A namespace is in itself; of a collection no names are said.

    A generated name is said of the `final` object only.
    """
    target = request.ctx.target
    name = target.name
    if not name and request.operation == "CREATE" and new is not None:
        metadata = new.get("metadata") or {}
        if final or not _is_generated(metadata):
            name = metadata.get("name") or ""
    if target.verb == "deletecollection":
        name = ""
    return target.namespace or (name if target.group_resource == _NAMESPACES else ""), name


def _is_generated(metadata: Tree) -> bool:
    base, name = (metadata.get("generateName") or "")[:MOST_OF_BASE], metadata.get("name") or ""
    return bool(base) and name.startswith(base) and len(name) == len(base) + SUFFIX
