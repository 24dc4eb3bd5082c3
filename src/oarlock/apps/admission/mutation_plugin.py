"""`MutatingPolicies`: asks the policies that are bound what to change of each write. ``MutatingAdmissionPolicy``.

All that take the object as it came are asked, one after the other, each about what the one before has made.
See also: ``policy.admission.mutations``, the engine; `policy_plugin`, those that only validate.
Source: k8s.io/apiserver ``admission/plugin/policy/mutating`` (dispatcher).
"""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Any

from oarlock.apps.admission.policy_params import ParamError, ParamReader
from oarlock.apps.admission.policy_plugin import SCALE_KIND, PolicyReview, ServedPolicies, name_of, namespace_of
from oarlock.apps.kinds.admissionregistration import MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding
from oarlock.apps.kinds.core.objects import Namespace
from oarlock.client.informers.informer import Informer
from oarlock.meta.context import Target
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import Forbidden, InternalError, StatusError, Timeout
from oarlock.meta.json_trees import Tree
from oarlock.patch.apply.schema import DEDUCED, ValueType, object_type
from oarlock.policy.admission.chain import Mutating, Reinvocable, ReinvokedPlugin
from oarlock.policy.admission.counts import PolicyCheck, PolicyCounts, PolicyError
from oarlock.policy.admission.expressions import (
    BudgetSpent,
    ExpressionRun,
    ExpressionRunner,
    ReviewedRequest,
    UndecidedConditions,
    all_hold,
    failure_message,
)
from oarlock.policy.admission.mutations import (
    CompiledMutatingPolicy,
    CompiledMutation,
    MutationFailed,
    MutationTooLarge,
    compile_mutating_policy,
    mutated,
)
from oarlock.policy.admission.policies.engine import BoundPolicy, PolicyBinding
from oarlock.policy.admission.policies.request_tree import requested_resource
from oarlock.policy.admission.webhooks.rules import ReviewedObjects, reviewed_place
from oarlock.registry.workers import Offload
from oarlock.registry.write.scale import scale_type
from oarlock.registry.write.write_request import NOT_AT_HAND, AdmissionRequest, Hub
from oarlock.schema.cel.expression import OBJECT_BUDGET, OUT_OF_BUDGET
from oarlock.schema.cel.problems import CelError
from oarlock.schema.definition import ResourceDefinition
from oarlock.schema.structural import nodes as structural

ON_THE_LOOP = 32 * 1024
"""Bytes of a patch that is applied on the event loop, if the object is small; larger ones are in a thread."""

MOST_TYPES = 256
"""Of how many versions of resources the merge types are remembered."""


class MergeTypes:
    """The merge types of one server, remembered as long as the definition is the same."""

    def __init__(self) -> None:
        self._types: dict[tuple[str, str, str], tuple[ResourceDefinition, ValueType]] = {}

    def of(self, request: AdmissionRequest, version: str) -> ValueType:
        """The merge type of the object of a request in a version, as the definition calls it."""
        if request.body_kind is not None:
            return DEDUCED
        if request.ctx.target.subresource == "scale":
            return scale_type()
        definition = request.served.definition
        key = (definition.group, definition.names.plural, version)
        known = self._types.get(key)
        if known is None or known[0] is not definition:
            if len(self._types) >= MOST_TYPES:
                self._types.clear()
            type_ = object_type(structural.parse(definition.version(version).schema))
            known = self._types[key] = (definition, type_)
        return known[1]


async def applied(kind: str, value: Any, tree: Tree, type_: ValueType, offload: Offload) -> Tree:
    """`tree` after a mutation of a kind, to what its expression computed. Raises MutationFailed."""
    try:
        return await offload(mutated, kind, value, tree, type_, ON_THE_LOOP)
    except MutationTooLarge:
        return await asyncio.to_thread(mutated, kind, value, tree, type_)


class _MutationRefused(Forbidden):
    """A mutation that can't be made refuses the request. The text names no object, as in Kubernetes."""

    def __init__(self, target: Target, name: str, text: str, reason: str) -> None:
        super().__init__(target.group_resource, name or "Unknown", text)
        self.message = text
        self.reason = reason
        self.details = {"name": name or "Unknown", **(self.details or {}), "causes": [{"message": text}]}


@dataclass(frozen=True, slots=True)
class _Invocation:
    """A policy that is asked about a request, in a version, with one object of parameters."""

    policy: CompiledMutatingPolicy
    binding: PolicyBinding
    version: str
    param: Tree | None

    @property
    def key(self) -> tuple[str, ...]:
        metadata = (self.param or {}).get("metadata") or {}
        return self.policy.name, self.binding.name, metadata.get("namespace", ""), metadata.get("name", "")


class MutatingPolicies(ReinvokedPlugin):
    """The informers are those of the server; `params` reads what parameterizes policies; it counts in `counts`."""

    name = "MutatingAdmissionPolicy"
    waits = True
    only_operations = ("CREATE", "UPDATE")

    def __init__(
        self,
        policies: Informer[MutatingAdmissionPolicy],
        bindings: Informer[MutatingAdmissionPolicyBinding],
        namespaces: Informer[Namespace],
        runner: ExpressionRunner,
        params: ParamReader,
        counts: PolicyCounts,
    ) -> None:
        self.served = ServedPolicies(policies, bindings, compile_mutating_policy)
        self.handles = self.served.handles
        self.namespaces = namespaces
        self.runner = runner
        self.params = params
        self.counts = counts
        self.types = MergeTypes()

    def mutating(self, request: AdmissionRequest, offload: Offload) -> Mutating:
        return _PolicyMutation(self, request, offload)

    async def validate(
        self, request: AdmissionRequest, new: Tree | None, old: Tree | None, offload: Offload, hub: Hub = NOT_AT_HAND
    ) -> None:
        return


class _PolicyMutation:
    """Asks the policies about one request, up to twice."""

    __slots__ = ("_asked", "_name", "_plugin", "_request", "_shared")

    def __init__(self, plugin: MutatingPolicies, request: AdmissionRequest, offload: Offload) -> None:
        self._plugin = plugin
        self._request = request
        self._asked: Reinvocable[tuple[str, ...]] = Reinvocable()
        self._shared = ReviewedRequest(request.ctx, offload)
        self._name = ""

    async def mutate(self, new: Tree | None, old: Tree | None, offload: Offload, *, again: bool) -> Tree | None:
        if new is None:
            return None
        asked = self._asked
        asked.begin(new, again=again)
        self._name = name_of(self._request, new)
        review = await self._review(new, old, offload)
        for invocation in await self._invocations(review):
            if not asked.due(invocation.key, again=again):
                continue
            before = new
            new = await self._invoke(review, invocation, (new, old), offload)
            if new is not before:
                asked.changed()
            if invocation.policy.again:
                asked.asked(invocation.key)
        asked.end(new)
        return new

    async def _review(self, new: Tree, old: Tree | None, offload: Offload) -> PolicyReview:
        """The request as rules and selectors see it: the object as it came, for all policies."""
        request, target = self._request, self._request.ctx.target
        asked = requested_resource(request, reviewed_place(request, new, final=False)[1])
        namespace = namespace_of(self._plugin.namespaces, target, new, old)
        if target.subresource == "scale" and request.body_kind is None:
            reviewed = ReviewedObjects(request, offload)
            version = request.served.definition.version_in(target.group, target.version)
            pair = (await reviewed.shown(new, version), await reviewed.shown(old, version))
            request = request._replace(body_kind=SCALE_KIND)
            return PolicyReview(request, asked, {asked.version: pair}, namespace, self._shared)
        return PolicyReview(request, asked, {asked.version: (new, old)}, namespace, self._shared)

    async def _invocations(self, review: PolicyReview) -> list[_Invocation]:
        engine, made = self._plugin.served.engine, list[_Invocation]()
        for bound in engine.candidates(review.asked, self._request.served.definition):
            version = review.taken(bound.policy.matching)
            if version is not None:
                made += await self._of_policy(review, bound, version)
        return made

    async def _of_policy(
        self, review: PolicyReview, bound: BoundPolicy[CompiledMutatingPolicy], version: str
    ) -> list[_Invocation]:
        policy, params, made = bound.policy, self._plugin.params, list[_Invocation]()
        try:
            await params.check(policy.param_kind)
        except ParamError as error:
            self._fail(policy, None, f"failed to configure policy: {error}", "Forbidden")
            return []
        if policy.faults:
            self._fail(policy, None, f"failed to configure policy: {policy.faults[0].text}", "Forbidden")
            return []
        namespace = self._request.ctx.target.namespace
        for binding in bound.bindings:
            if binding.matching is not None and review.taken(binding.matching) is None:
                continue
            try:
                found = await params.read(policy.param_kind, binding.param_ref, review.asked, namespace)
            except ParamError as error:
                self._fail(policy, binding, f"failed to configure binding: {error}", "Forbidden")
                continue
            made += [_Invocation(policy, binding, version, param) for param in found]
        return made

    async def _invoke(
        self, review: PolicyReview, invocation: _Invocation, pair: tuple[Tree, Tree | None], offload: Offload
    ) -> Tree:
        """The object after the mutations of one policy with one object of parameters."""
        request, policy = self._request, invocation.policy
        target, reviewed = request.ctx.target, ReviewedObjects(self._request, offload)
        version = request.served.definition.version_in(target.group, invocation.version)
        place = reviewed_place(request, pair[0], final=False)
        shown = await reviewed.new_shown(*pair, version, place)
        old = await reviewed.shown(pair[1], version)
        assert shown is not None
        made, type_ = shown, self._plugin.types.of(request, version)
        run = ExpressionRun(review.values_in(invocation.version, made, old, invocation.param), policy.variables)
        try:
            if not await self._plugin.runner.result(all_hold(policy.conditions, run), run, self._shared):
                return pair[0]
        except UndecidedConditions as error:
            self._fail(policy, invocation.binding, str(error))
            return pair[0]
        for mutation in policy.mutations:
            run = ExpressionRun(review.values_in(invocation.version, made, old, invocation.param), policy.variables)
            began = perf_counter()
            try:
                value = await self._value(mutation, run)
                made = await applied(mutation.kind, value, made, type_, offload)
            except MutationFailed as error:
                self._count(invocation, "out_of_budget" if str(error) == OUT_OF_BUDGET else "invalid_error", began)
                self._fail(policy, invocation.binding, str(error))
            else:
                self._count(invocation, "no_error", began)
            await asyncio.sleep(0)
        return pair[0] if made is shown else await _folded(reviewed, pair[0], shown, made, version)

    async def _value(self, mutation: CompiledMutation, run: ExpressionRun) -> Any:
        """What the expression of a mutation computes. Raises MutationFailed."""
        ctx = self._request.ctx
        if ctx.clock.monotonic() > ctx.deadline:
            raise Timeout("the request's policies weren't evaluated in time")
        run.begin(OBJECT_BUDGET)
        try:
            return await self._plugin.runner.result(run.value(mutation.expression), run, self._shared)
        except BudgetSpent:
            raise MutationFailed(OUT_OF_BUDGET) from None
        except CelError as error:
            raise MutationFailed(failure_message(mutation.expression, error)) from None

    def _count(self, invocation: _Invocation, error: PolicyError, began: float) -> None:
        check = PolicyCheck(invocation.policy.name, invocation.binding.name, error)
        self._plugin.counts.checked(check, perf_counter() - began)

    def _fail(
        self, policy: CompiledMutatingPolicy, binding: PolicyBinding | None, text: str, reason: str = "Invalid"
    ) -> None:
        if policy.fails:
            where = "" if binding is None else f" with binding '{binding.name}'"
            text = f"policy '{policy.name}'{where} denied request: {text}"
            target = self._request.ctx.target
            raise _MutationRefused(target, self._name, text, reason)


async def _folded(reviewed: ReviewedObjects, new: Tree, shown: Tree, made: Tree, version: str) -> Tree:
    """The object in the version of the request, with what was changed of what a policy was shown."""
    name = new.get("metadata", {}).get("name")
    if name and "name" not in made["metadata"] and "name" not in shown["metadata"]:
        named = {"name": name}
        shown = {**shown, "metadata": {**shown["metadata"], **named}}
        made = {**made, "metadata": {**made["metadata"], **named}}
    try:
        return await reviewed.changed(new, shown, made, version)
    except StatusError:
        raise
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise InternalError(f"a policy has made something of the object that can't be converted: {error}") from None
