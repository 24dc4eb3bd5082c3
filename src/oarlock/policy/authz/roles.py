"""The values that RBAC decides by: `AccessRole`, `AccessBinding`, `BoundSubject`; and how they are read from trees.

`Grants` are the rules of one role, found by what a request is about; `uncovered` are rules that others don't cover.
Must not know: who has a role, decisions (`role_based`). Source: k8s.io/api ``rbac/v1``; k8s.io/kubernetes
``pkg/apis/rbac/v1`` evaluation helpers; ``component-helpers/auth/rbac/validation``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from oarlock.meta.context import Target, User
from oarlock.meta.dataclass import dataclass
from oarlock.meta.go.gotext import quote
from oarlock.policy.authz.authorizer import AccessRule, KnownRules

GROUP = "rbac.authorization.k8s.io"
ACCOUNT = "system:serviceaccount"


class RoleKey(NamedTuple):
    """A Role in its namespace; a ClusterRole has none."""

    namespace: str
    name: str

    @property
    def kind(self) -> str:
        return "Role" if self.namespace else "ClusterRole"

    @property
    def missing(self) -> str:
        """What is said when a binding refers to it and it doesn't exist."""
        return f"{self.kind.lower()}.{GROUP} {quote(self.name)} not found"


class BoundSubject(NamedTuple):
    """Who a binding is for. `key` is how it is found: ``u:`` and a user's name, or ``g:`` and a group's."""

    key: str
    shown: str


@dataclass(frozen=True, slots=True)
class AccessRole:
    """A Role or ClusterRole."""

    key: RoleKey
    rules: tuple[AccessRule, ...]


@dataclass(frozen=True, slots=True)
class AccessBinding:
    """A RoleBinding, or a ClusterRoleBinding if its namespace is empty."""

    namespace: str
    name: str
    role: RoleKey
    subjects: tuple[BoundSubject, ...]

    def reason(self, subject: BoundSubject) -> str:
        """Why a request is allowed."""
        kind, name = "ClusterRoleBinding", self.name
        if self.namespace:
            kind, name = "RoleBinding", f"{name}/{self.namespace}"
        role = f"{self.role.kind} {quote(self.role.name)}"
        return f"RBAC: allowed by {kind} {quote(name)} of {role} to {subject.shown}"


def read_role(namespace: str, tree: Mapping[str, Any]) -> AccessRole:
    """The tree of a Role, or of a ClusterRole in no namespace."""
    return AccessRole(RoleKey(namespace, tree["metadata"]["name"]), read_rules(tree.get("rules")))


def read_rules(trees: Iterable[Mapping[str, Any]] | None) -> tuple[AccessRule, ...]:
    return tuple(
        AccessRule(
            tuple(tree.get("verbs") or ()),
            tuple(tree.get("apiGroups") or ()),
            tuple(tree.get("resources") or ()),
            tuple(tree.get("resourceNames") or ()),
            tuple(tree.get("nonResourceURLs") or ()),
        )
        for tree in trees or ()
    )


def read_binding(namespace: str, tree: Mapping[str, Any]) -> AccessBinding:
    """The tree of a RoleBinding, or of a ClusterRoleBinding in no namespace."""
    role = tree["roleRef"]
    of = namespace if role["kind"] == "Role" else ""
    subjects = (_subject(namespace, subject) for subject in tree.get("subjects") or ())
    return AccessBinding(
        namespace,
        tree["metadata"]["name"],
        RoleKey(of, role["name"]),
        tuple(subject for subject in subjects if subject is not None),
    )


def _subject(namespace: str, tree: Mapping[str, Any]) -> BoundSubject | None:
    kind, name = tree["kind"], tree["name"]
    match kind:
        case "User":
            return BoundSubject(f"u:{name}", f"User {quote(name)}")
        case "Group":
            return BoundSubject(f"g:{name}", f"Group {quote(name)}")
        case "ServiceAccount":
            home = tree.get("namespace") or namespace
            shown = f"ServiceAccount {quote(f'{name}/{home}')}"
            return BoundSubject(f"u:{ACCOUNT}:{home}:{name}", shown) if home else None
    return None


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

    def allow(self, requested: Question) -> bool:
        """Whether the rules allow it."""
        for place in requested.places:
            for grant in self.places.get(place, ()):
                if grant.allow(requested.verb, requested.name):
                    return True
        return False


def uncovered(held: Sequence[AccessRule], granted: Iterable[AccessRule]) -> list[AccessRule]:
    """The smallest rules of `granted` that no rule of `held` covers, without doubles."""
    apart = dict.fromkeys(small for rule in granted for small in _taken_apart(rule))
    return [small for small in apart if not any(_covers(rule, small) for rule in held)]


def escalation(user: User, held: KnownRules, granted: Iterable[AccessRule]) -> str:
    """What is wrong with `user` granting these rules; ``""`` if nothing is."""
    missing = uncovered(held.rules, granted)
    if not missing:
        return ""
    lines = "\n".join(sorted(map(_shown, _compacted(missing))))
    resolution = f"; resolution errors: [{held.error}]" if held.error else ""
    who = f"user {quote(user.name)} (groups={_list(user.groups)})"
    return f"{who} is attempting to grant RBAC permissions not currently held:\n{lines}{resolution}"


def _taken_apart(rule: AccessRule) -> Iterator[AccessRule]:
    for group in rule.api_groups:
        for resource in rule.resources:
            for verb in rule.verbs:
                small = AccessRule((verb,), (group,), (resource,))
                if rule.resource_names:
                    yield from (replace(small, resource_names=(name,)) for name in rule.resource_names)
                else:
                    yield small
    for url in rule.non_resource_urls:
        yield from (AccessRule((verb,), non_resource_urls=(url,)) for verb in rule.verbs)


def _covers(held: AccessRule, small: AccessRule) -> bool:
    (verb,) = small.verbs
    if verb not in held.verbs and "*" not in held.verbs:
        return False
    if small.non_resource_urls:
        return any(_covers_path(url, small.non_resource_urls[0]) for url in held.non_resource_urls)
    (group,), (resource,) = small.api_groups, small.resources
    if group not in held.api_groups and "*" not in held.api_groups:
        return False
    if not _covers_resource(held.resources, resource):
        return False
    return not held.resource_names or (bool(small.resource_names) and small.resource_names[0] in held.resource_names)


def _covers_resource(held: tuple[str, ...], resource: str) -> bool:
    if resource in held or "*" in held:
        return True
    whole, slash, below = resource.partition("/")
    return bool(whole and slash) and f"*/{below}" in held


def _covers_path(held: str, path: str) -> bool:
    return held == path or (held.endswith("*") and path.startswith(held.rstrip("*")))


def _compacted(rules: Iterable[AccessRule]) -> list[AccessRule]:
    """Rules that differ in the verb only as one."""
    verbs: dict[AccessRule, tuple[str, ...]] = {}
    rest: list[AccessRule] = []
    for rule in rules:
        if rule.non_resource_urls:
            rest.append(rule)
            continue
        of = replace(rule, verbs=())
        verbs[of] = (*verbs.get(of, ()), *rule.verbs)
    return [*(replace(rule, verbs=all_of) for rule, all_of in verbs.items()), *rest]


def _shown(rule: AccessRule) -> str:
    fields = {
        "APIGroups": rule.api_groups,
        "Resources": rule.resources,
        "NonResourceURLs": rule.non_resource_urls,
        "ResourceNames": rule.resource_names,
        "Verbs": rule.verbs,
    }
    return "{" + ", ".join(f"{name}:{_list(values)}" for name, values in fields.items() if values) + "}"


def _list(values: Iterable[str]) -> str:
    return f"[{' '.join(map(quote, values))}]"
