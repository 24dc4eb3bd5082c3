"""`ValidatingPolicies`: asks the policies that are bound about each write. Kubernetes' ``ValidatingAdmissionPolicy``.

Parameters are read at each request. See also: ``policy.admission.policies``, the engine.
Source: k8s.io/apiserver ``admission/plugin/policy/validating`` (dispatcher).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Generic, TypeVar

from oarlock.apps.admission.policy_params import ParamError, ParamReader
from oarlock.apps.kinds.admissionregistration import (
    GROUP,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from oarlock.apps.kinds.core.objects import Namespace
from oarlock.client.informers.informer import Informer
from oarlock.client.informers.observers import Observer, ReadableObject
from oarlock.meta.context import Target
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import Forbidden
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupVersionKind, NamespacedName
from oarlock.policy.admission.chain import ValidatingPlugin
from oarlock.policy.admission.counts import Enforcement, PolicyCheck, PolicyCounts
from oarlock.policy.admission.expressions import ExpressionRun, ExpressionRunner, ReviewedRequest
from oarlock.policy.admission.policies.engine import (
    BoundPolicy,
    CompiledPolicy,
    Failure,
    PolicyBinding,
    PolicyEngine,
    PolicyVerdict,
    compile_policy,
    evaluate,
)
from oarlock.policy.admission.policies.request_tree import (
    Matching,
    RequestedResource,
    labels_of,
    namespace_tree,
    request_tree,
    requested_resource,
)
from oarlock.registry.conversions import copy_unless_pure
from oarlock.registry.workers import Offload
from oarlock.registry.write.scale import Scaling
from oarlock.registry.write.write_request import NOT_AT_HAND, AdmissionRequest, Hub
from oarlock.schema.types.views import wire

P = TypeVar("P", bound=CompiledPolicy)

NEVER_REVIEWED = frozenset(
    (
        (GROUP, "validatingadmissionpolicies"),
        (GROUP, "validatingadmissionpolicybindings"),
        (GROUP, "mutatingadmissionpolicies"),
        (GROUP, "mutatingadmissionpolicybindings"),
        (GROUP, "validatingwebhookconfigurations"),
        (GROUP, "mutatingwebhookconfigurations"),
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "localsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
    )
)
"""What no policy is asked about: what would lock everybody out, and questions."""

SCALE_KIND = GroupVersionKind("autoscaling", "v1", "Scale")


class ServedPolicies(Generic[P]):
    """The policies of one kind that a server stores, in an engine that follows them."""

    def __init__(
        self, policies: Informer[Any], bindings: Informer[Any], compile: Callable[[Mapping[str, Any]], P]
    ) -> None:
        self.engine: PolicyEngine[P] = PolicyEngine(compile)
        self._policies: Observer[Any] = Observer(self._policy_changed)
        self._bindings: Observer[Any] = Observer(self._binding_changed)
        policies.observers.add(self._policies)
        bindings.observers.add(self._bindings)

    def _policy_changed(self, key: NamespacedName, old: object, new: ReadableObject[Any] | None) -> None:
        policy = None if new is None else new.read()
        if policy is None:
            self.engine.remove_policy(key[1])
        else:
            self.engine.put_policy(wire(policy))

    def _binding_changed(self, key: NamespacedName, old: object, new: ReadableObject[Any] | None) -> None:
        binding = None if new is None else new.read()
        if binding is None:
            self.engine.remove_binding(key[1])
        else:
            self.engine.put_binding(wire(binding))

    def handles(self, request: AdmissionRequest) -> bool:
        """Whether the rules of a policy may take a request, as things are now."""
        if self._policies.behind:
            self._policies.catch_up()
        if self._bindings.behind:
            self._bindings.catch_up()
        if not self.engine.bound:
            return False
        target = request.ctx.target
        if (target.group, target.resource) in NEVER_REVIEWED:
            return False
        return bool(self.engine.candidates(requested_resource(request), request.served.definition))


@dataclass(slots=True)
class PolicyReview:
    """One request under review: its objects by version, and what was found out for its expressions."""

    request: AdmissionRequest
    asked: RequestedResource
    trees: dict[str, tuple[Tree | None, Tree | None]]
    namespace: Tree | None
    shared: ReviewedRequest

    def taken(self, matching: Matching) -> str | None:
        """The version in which the request is taken; None if it isn't."""
        namespace = self.namespace
        if matching.by_namespace and namespace is not None and not matching.takes_namespace(labels_of(namespace)):
            return None
        if not matching.takes_objects(*self.trees[self.asked.version]):
            return None
        return matching.version(self.asked)

    def values_in(self, version: str, new: Tree | None, old: Tree | None, param: Tree | None) -> dict[str, Any]:
        """The values of the variables of expressions; `new` and `old` are in `version`."""
        namespace = self.namespace if self.request.ctx.target.namespace else None
        return {
            "object": new,
            "oldObject": old,
            "request": request_tree(self.request, self.asked, version),
            "namespaceObject": None if namespace is None else namespace_tree(namespace),
            "params": param,
            **self.shared.authorizers(self.asked.name),
        }


def namespace_of(namespaces: Informer[Namespace], target: Target, new: Tree | None, old: Tree | None) -> Tree | None:
    """The namespace of the object; a namespace itself is its own."""
    if target.group == "" and target.resource == "namespaces":
        return new if new is not None else old
    if not target.namespace:
        return None
    known = namespaces.get(target.namespace)
    return None if known is None else wire(known)


def name_of(request: AdmissionRequest, new: Mapping[str, Any] | None) -> str:
    """The object's name. One of a whole collection that is deleted has none, as in Kubernetes."""
    if request.ctx.target.verb == "deletecollection":
        return ""
    metadata = (new or {}).get("metadata")
    named = metadata.get("name", "") if isinstance(metadata, Mapping) else ""
    return request.ctx.target.name or str(named)


NAME = "ValidatingAdmissionPolicy"
FAILURE_ANNOTATION = "validation.policy.admission.k8s.io/validation_failure"

_CODES = {"Invalid": 422, "Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413}


class _PolicyDenied(Forbidden):
    """A policy refuses, with the code and reason that it says."""

    def __init__(self, target: Target, name: str, text: str, reason: str) -> None:
        super().__init__(target.group_resource, name or "Unknown", text)
        self.reason = reason
        self.code = _CODES.get(reason, 422)
        self.details = {"name": name or "Unknown", **(self.details or {}), "causes": [{"message": text}]}


@dataclass(slots=True)
class _Review(PolicyReview):
    """One request under review: what expressions can name, by version, and what was said of it."""

    values: dict[str, dict[str, Any]] = field(default_factory=dict)
    denials: list[tuple[str, str]] = field(default_factory=list)
    audited: list[dict[str, Any]] = field(default_factory=list)
    annotations: dict[str, dict[str, None]] = field(default_factory=dict)


class ValidatingPolicies(ValidatingPlugin):
    """The informers are those of the server; `params` reads what parameterizes policies; it counts in `counts`."""

    name = NAME

    def __init__(
        self,
        policies: Informer[ValidatingAdmissionPolicy],
        bindings: Informer[ValidatingAdmissionPolicyBinding],
        namespaces: Informer[Namespace],
        runner: ExpressionRunner,
        params: ParamReader,
        counts: PolicyCounts,
    ) -> None:
        self._served = ServedPolicies(policies, bindings, compile_policy)
        self.handles = self._served.handles
        self._namespaces = namespaces
        self._runner = runner
        self._params = params
        self._counts = counts

    async def validate(
        self, request: AdmissionRequest, new: Tree | None, old: Tree | None, offload: Offload, hub: Hub = NOT_AT_HAND
    ) -> None:
        ctx, target = request.ctx, request.ctx.target
        asked = requested_resource(request, name_of(request, new))
        if target.subresource == "scale" and request.body_kind is None:
            request = request._replace(body_kind=SCALE_KIND)
            new, old = _scale(request, new), _scale(request, old)
        review = _Review(
            request,
            asked,
            {asked.version: (new, old)},
            namespace_of(self._namespaces, target, new, old),
            ReviewedRequest(ctx, offload),
        )
        for bound in self._served.engine.candidates(asked, request.served.definition):
            await self._ask(review, bound, offload)
        for key, values in review.annotations.items():
            ctx.notes.audit(key, ", ".join(values))
        if review.audited:
            ctx.notes.audit(FAILURE_ANNOTATION, json.dumps(review.audited, separators=(",", ":"), ensure_ascii=False))
        if review.denials:
            text, reason = review.denials[0]
            raise _PolicyDenied(target, asked.name, text, reason)

    async def _ask(self, review: _Review, bound: BoundPolicy[CompiledPolicy], offload: Offload) -> None:
        policy, target = bound.policy, review.request.ctx.target
        version = review.taken(policy.matching)
        if version is None:
            return
        if policy.faults:
            fault = policy.faults[0]
            self._misconfigured(review, policy, None, f"failed to configure policy: {fault.text}")
            return
        try:
            await self._params.check(policy.param_kind)
        except ParamError as error:
            self._misconfigured(review, policy, None, f"failed to configure policy: {error}")
            return
        for binding in bound.bindings:
            if binding.matching is not None and review.taken(binding.matching) is None:
                continue
            try:
                params = await self._params.read(policy.param_kind, binding.param_ref, review.asked, target.namespace)
            except ParamError as error:
                self._misconfigured(review, policy, binding, f"failed to configure binding: {error}")
                continue
            for param in params:
                verdict = await self._evaluate(review, policy, version, param, offload)
                if verdict is not None:
                    self._act(review, policy, binding, verdict)

    async def _evaluate(
        self, review: _Review, policy: CompiledPolicy, version: str, param: Tree | None, offload: Offload
    ) -> PolicyVerdict | None:
        values = review.values.get(version)
        if values is None:
            values = review.values[version] = await self._values(review, version, offload)
        run = ExpressionRun(values if param is None else {**values, "params": param}, policy.variables)
        return await self._runner.result(evaluate(policy, run), run, review.shared)

    async def _values(self, review: _Review, version: str, offload: Offload) -> dict[str, Any]:
        """What expressions can name, but the parameters, with objects in a version."""
        new, old = await self._objects(review, version, offload)
        return review.values_in(version, new, old, None)

    async def _objects(self, review: _Review, version: str, offload: Offload) -> tuple[Tree | None, Tree | None]:
        """The new and the old object in a version."""
        if version in review.trees or review.request.body_kind is not None:
            return review.trees.get(version, review.trees[review.asked.version])
        served, own = review.request.served, review.asked.version
        new, old = review.trees[own]
        if new is not None:
            passed = await offload(copy_unless_pure, served.converter, new)
            (new,) = await served.convert([passed], own, version)
        if old is not None:
            old = await served.conversions.old(old, own, version)
        review.trees[version] = (new, old)
        return new, old

    def _misconfigured(self, review: _Review, policy: CompiledPolicy, binding: PolicyBinding | None, text: str) -> None:
        if policy.fails:
            review.denials.append((f"{_named(policy, binding)} denied request: {text}", "Invalid"))

    def _act(self, review: _Review, policy: CompiledPolicy, binding: PolicyBinding, verdict: PolicyVerdict) -> None:
        """Do what the binding says with what a policy says."""
        for failure in verdict.ignored:
            self._count(policy, binding, failure, "allow")
        for failure in verdict.failures:
            if "Deny" in binding.actions:
                self._deny(review, policy, binding, failure)
            if "Warn" in binding.actions:
                self._count(policy, binding, failure, "warn")
                review.request.ctx.warn(f"Validation failed for {_named(policy, binding)}: {failure.message}")
            if "Audit" in binding.actions:
                self._count(policy, binding, failure, "audit")
                review.audited.append(
                    {
                        "message": failure.message,
                        "policy": policy.name,
                        "binding": binding.name,
                        "expressionIndex": failure.number,
                        "validationActions": sorted(binding.actions),
                    }
                )
        for failure in verdict.errors:
            self._deny(review, policy, binding, failure)
        for key, text in verdict.annotations:
            review.annotations.setdefault(f"{policy.name}/{key}", {})[text] = None

    def _deny(self, review: _Review, policy: CompiledPolicy, binding: PolicyBinding, failure: Failure) -> None:
        text = f"{_named(policy, binding)} denied request: {failure.message}"
        review.denials.append((text, failure.reason))
        self._count(policy, binding, failure, "deny")

    def _count(self, policy: CompiledPolicy, binding: PolicyBinding, failure: Failure, action: Enforcement) -> None:
        self._counts.checked(PolicyCheck(policy.name, binding.name, failure.error, action), failure.seconds)


def _named(policy: CompiledPolicy, binding: PolicyBinding | None) -> str:
    named = f"{NAME} '{policy.name}'"
    return named if binding is None else f"{named} with binding '{binding.name}'"


def _scale(request: AdmissionRequest, tree: Tree | None) -> Tree | None:
    """The Scale of an object, which is what a write to ``/scale`` is about."""
    definition, version = request.served.definition, request.ctx.target.version
    where = definition.version(version).scale
    return tree if tree is None or where is None else Scaling(definition, where).show(tree)
