"""`ValidatingPolicies`: asks the policies that are bound about each write. Kubernetes' ``ValidatingAdmissionPolicy``.

Parameters are read at each request. See also: ``policy.admission.policies``, the engine.
Source: k8s.io/apiserver ``admission/plugin/policy/validating`` (dispatcher).
"""

from __future__ import annotations

import json
from dataclasses import field
from typing import Any

from oarlock.apps.admission.policy_params import ParamError, ParamReader
from oarlock.apps.admission.policy_review import SCALE_KIND, PolicyReview, ServedPolicies, name_of, namespace_of
from oarlock.apps.kinds.admissionregistration_policies import (
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from oarlock.apps.kinds.core.objects import Namespace
from oarlock.client.informers.informer import Informer
from oarlock.meta.context import Target
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import Forbidden
from oarlock.meta.json_trees import Tree
from oarlock.policy.admission.expressions.running import ExpressionRun
from oarlock.policy.admission.expressions.waiting import ExpressionRunner, ReviewedRequest
from oarlock.policy.admission.policies.compiled import CompiledPolicy, compile_policy
from oarlock.policy.admission.policies.engine import BoundPolicy, PolicyBinding
from oarlock.policy.admission.policies.evaluation import Failure, PolicyVerdict, evaluate
from oarlock.policy.admission.policies.request_tree import requested_resource
from oarlock.policy.admission.policy_counts import Enforcement, PolicyCheck, PolicyCounts
from oarlock.policy.admission.validating import ValidatingPlugin
from oarlock.registry.conversion.converter import copy_unless_pure
from oarlock.registry.workers import Offload
from oarlock.registry.write.gate import NOT_AT_HAND, AdmissionRequest, Hub
from oarlock.registry.write.scale import Scaling

__all__ = ["ValidatingPolicies"]

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
        self._namespaces = namespaces
        self._runner = runner
        self._params = params
        self._counts = counts

    def handles(self, request: AdmissionRequest) -> bool:
        return self._served.handles(request)

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
            self._params.check(policy.param_kind)
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
