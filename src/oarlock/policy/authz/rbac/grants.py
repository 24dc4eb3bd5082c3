"""`Grants`: the rules of one role, found by what a request is about; and `Question`, that request.

Must not know: who has the role. See also: `policy`. Source: k8s.io/kubernetes ``pkg/apis/rbac/v1`` evaluation helpers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from oarlock.meta.context import Target
from oarlock.policy.authz.authorizer import AccessRule

RuleScope = tuple[str, ...]
"""A group, and a resource with its subresource (``pods/log``), as a rule names them; or `PATHS`."""

PATHS: Final[RuleScope] = ("non-resource URLs",)
"""The place of all rules about paths. No rule can name it: what a rule names is a pair."""


class Question(NamedTuple):
    """What a request asks for. `places` are all ways in which a rule may name its resource; `name` may be a path."""

    verb: str
    places: tuple[RuleScope, ...]
    name: str


def question(target: Target) -> Question:
    """The question that a request is."""
    if not target.resource:
        return Question(target.verb, (PATHS,), target.path)
    group, resource, below = target.group, target.resource, target.subresource
    if not below:
        return Question(target.verb, ((group, resource), (group, "*"), ("*", resource), ("*", "*")), target.name)
    whole, any_of = f"{resource}/{below}", f"*/{below}"
    places = ((group, whole), (group, "*"), (group, any_of), ("*", whole), ("*", "*"), ("*", any_of))
    return Question(target.verb, places, target.name)


class _ObjectRule(NamedTuple):
    """Verbs on the objects called `names`; on every object if it is None."""

    verbs: frozenset[str]
    names: frozenset[str] | None

    def allow(self, verb: str, name: str) -> bool:
        return (verb in self.verbs or "*" in self.verbs) and (self.names is None or name in self.names)


class _PathRule(NamedTuple):
    """Verbs on paths, and on what begins with one of `prefixes`."""

    verbs: frozenset[str]
    exact: frozenset[str]
    prefixes: tuple[str, ...]

    def allow(self, verb: str, path: str) -> bool:
        return (verb in self.verbs or "*" in self.verbs) and (path in self.exact or path.startswith(self.prefixes))


class Grants:
    """What a role allows, by place."""

    __slots__ = ("places",)

    def __init__(self, rules: Iterable[AccessRule]) -> None:
        self.places: dict[RuleScope, list[_ObjectRule | _PathRule]] = {}
        for rule in rules:
            verbs, urls = frozenset(rule.verbs), rule.non_resource_urls
            objects = _ObjectRule(verbs, frozenset(rule.resource_names) if rule.resource_names else None)
            for group in rule.api_groups:
                for resource in rule.resources:
                    self.places.setdefault((group, resource), []).append(objects)
            if urls:
                exact = frozenset(url for url in urls if not url.endswith("*"))
                prefixes = tuple(url.rstrip("*") for url in urls if url.endswith("*"))
                self.places.setdefault(PATHS, []).append(_PathRule(verbs, exact, prefixes))

    def allow(self, asked: Question) -> bool:
        """Whether the rules allow it."""
        for place in asked.places:
            for grant in self.places.get(place, ()):
                if grant.allow(asked.verb, asked.name):
                    return True
        return False
