"""What plugins of policies of both kinds have in common: which policies are in force, and what one request is about.

A policy that was written counts from the next request on: changes that the server has made are taken over before a
request is looked at. See also: `policy_plugin`, `mutation_plugin`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from oarlock.apps.kinds.admissionregistration_policies import GROUP
from oarlock.apps.kinds.core.objects import Namespace
from oarlock.client.informers.informer import Informer
from oarlock.client.informers.observers import Observer, ReadableObject
from oarlock.meta.context import Target
from oarlock.meta.dataclass import dataclass
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupVersionKind, NamespacedName
from oarlock.policy.admission.expressions.waiting import ReviewedRequest
from oarlock.policy.admission.policies.compiled import CompiledPolicy
from oarlock.policy.admission.policies.engine import PolicyEngine
from oarlock.policy.admission.policies.matching import Matching, RequestedResource, labels_of
from oarlock.policy.admission.policies.request_tree import namespace_tree, request_tree, requested_resource
from oarlock.registry.write.gate import AdmissionRequest
from oarlock.schema.types.views import wire

__all__ = ["SCALE_KIND", "PolicyReview", "ServedPolicies", "name_of", "namespace_of"]

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
