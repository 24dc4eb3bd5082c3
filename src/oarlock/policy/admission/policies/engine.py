"""`PolicyEngine`: the policies that are bound, compiled, and which of them a request is for.

What it has is replaced as a whole with every change, so that a request sees one state of it.
See also: `compiled`, `matching`. Must not know: where policies are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from oarlock.meta.dataclass import dataclass
from oarlock.policy.admission.policies.compiled import CompiledPolicy
from oarlock.policy.admission.policies.matching import Matching, RequestedResource
from oarlock.schema.definition import ResourceDefinition

__all__ = ["BoundPolicy", "PolicyBinding", "PolicyEngine"]

P = TypeVar("P", bound=CompiledPolicy)

MOST_ROUTES = 4096
"""Of how many resources and operations it remembers which policies they are for."""


@dataclass(frozen=True, slots=True)
class PolicyBinding:
    """Where a policy is in force, with which parameters, and what then happens."""

    name: str
    policy: str
    matching: Matching | None
    param_ref: Mapping[str, Any] | None
    actions: frozenset[str]

    @classmethod
    def of(cls, tree: Mapping[str, Any]) -> PolicyBinding:
        spec: Mapping[str, Any] = tree.get("spec") or {}
        matched = spec.get("matchResources")
        return cls(
            str(tree["metadata"]["name"]),
            str(spec.get("policyName", "")),
            None if matched is None else Matching(matched),
            spec.get("paramRef"),
            frozenset(spec.get("validationActions") or ()),
        )


@dataclass(frozen=True, slots=True)
class BoundPolicy(Generic[P]):
    """A policy with its bindings, by name."""

    policy: P
    bindings: tuple[PolicyBinding, ...]


class PolicyEngine(Generic[P]):
    """The policies of one kind of a server; `compile` makes them of trees."""

    def __init__(self, compile: Callable[[Mapping[str, Any]], P]) -> None:
        self._compile = compile
        self._policies: dict[str, tuple[Any, P]] = {}
        self._bindings: dict[str, PolicyBinding] = {}
        self._routes: dict[tuple[str, ...], tuple[ResourceDefinition, tuple[BoundPolicy[P], ...]]] = {}
        self.bound: tuple[BoundPolicy[P], ...] = ()
        """Those that have a binding, by name."""

    def put_policy(self, tree: Mapping[str, Any]) -> None:
        """A policy is new or has changed. It is compiled unless only its status has."""
        name = str(tree["metadata"]["name"])
        spec = tree.get("spec")
        known = self._policies.get(name)
        if known is None or known[0] != spec:
            self._policies[name] = (spec, self._compile(tree))
            self._changed()

    def remove_policy(self, name: str) -> None:
        if self._policies.pop(name, None) is not None:
            self._changed()

    def put_binding(self, tree: Mapping[str, Any]) -> None:
        binding = PolicyBinding.of(tree)
        self._bindings[binding.name] = binding
        self._changed()

    def remove_binding(self, name: str) -> None:
        if self._bindings.pop(name, None) is not None:
            self._changed()

    def policy(self, name: str) -> P | None:
        known = self._policies.get(name)
        return None if known is None else known[1]

    def _changed(self) -> None:
        by_policy: dict[str, list[PolicyBinding]] = {}
        for _, binding in sorted(self._bindings.items()):
            by_policy.setdefault(binding.policy, []).append(binding)
        self.bound = tuple(
            BoundPolicy(policy, tuple(by_policy[name]))
            for name, (_, policy) in sorted(self._policies.items())
            if name in by_policy
        )
        self._routes = {}

    def candidates(self, asked: RequestedResource, definition: ResourceDefinition) -> tuple[BoundPolicy[P], ...]:
        """The policies whose rules may take a request. `definition` is the one of its resource."""
        key = (asked.group, asked.version, asked.resource, asked.subresource, asked.operation, str(asked.namespaced))
        known = self._routes.get(key)
        if known is not None and known[0] is definition:
            return known[1]
        taken = tuple(bound for bound in self.bound if bound.policy.matching.version(asked, any_name=True) is not None)
        if len(self._routes) >= MOST_ROUTES:
            self._routes = {}
        self._routes[key] = (definition, taken)
        return taken
