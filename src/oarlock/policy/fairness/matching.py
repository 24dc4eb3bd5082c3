"""Which flow schema a request belongs to: the matching one of the lowest precedence, then of the first name.

A `SchemaMatcher` is a schema with its rules compiled to sets. Source: KEP-1040, "Request categorization";
k8s.io/apiserver ``util/flowcontrol/rule``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from oarlock.meta.context import Target, User
from oarlock.meta.dataclass import dataclass
from oarlock.policy.fairness.settings import SchemaSettings

_ACCOUNT = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class _Names:
    """A list of names of a rule; `every` is for ``["*"]``."""

    every: bool
    names: frozenset[str]

    @classmethod
    def of(cls, given: Any) -> _Names:
        names = [name for name in given if isinstance(name, str)] if isinstance(given, list) else []
        return cls(names == ["*"], frozenset(names))

    def has(self, name: str) -> bool:
        return self.every or name in self.names


@dataclass(frozen=True, slots=True)
class _Subjects:
    """The users of a rule. `accounts` are prefixes of names: every service account of a namespace."""

    anybody: bool
    users: frozenset[str]
    groups: frozenset[str]
    accounts: tuple[str, ...]

    def include(self, user: User) -> bool:
        return (
            self.anybody
            or user.name in self.users
            or not self.groups.isdisjoint(user.groups)
            or (bool(self.accounts) and user.name.startswith(self.accounts))
        )


@dataclass(frozen=True, slots=True)
class _ResourceMatcher:
    verbs: _Names
    groups: _Names
    resources: _Names
    namespaces: _Names
    cluster_scope: bool

    def matches(self, target: Target) -> bool:
        resource = f"{target.resource}/{target.subresource}" if target.subresource else target.resource
        if not (self.verbs.has(target.verb) and self.resources.has(resource) and self.groups.has(target.group)):
            return False
        return self.namespaces.has(target.namespace) if target.namespace else self.cluster_scope


@dataclass(frozen=True, slots=True)
class _PathMatcher:
    """Paths outside the resources. A path of a rule also matches what is below it."""

    verbs: _Names
    every: bool
    paths: frozenset[str]
    folders: tuple[str, ...]

    def matches(self, target: Target, path: str) -> bool:
        return self.verbs.has(target.verb) and (self.every or path in self.paths or path.startswith(self.folders))


@dataclass(frozen=True, slots=True)
class _RuleMatcher:
    subjects: _Subjects
    resource_rules: tuple[_ResourceMatcher, ...]
    path_rules: tuple[_PathMatcher, ...]

    def matches(self, user: User, target: Target, path: str) -> bool:
        if not self.subjects.include(user):
            return False
        if target.resource:
            return any(rule.matches(target) for rule in self.resource_rules)
        return any(rule.matches(target, path) for rule in self.path_rules)


@dataclass(frozen=True, slots=True)
class SchemaMatcher:
    """A flow schema that can be asked."""

    settings: SchemaSettings
    rules: tuple[_RuleMatcher, ...]

    def matches(self, user: User, target: Target, path: str) -> bool:
        """Whether a request is for this schema. `path` is compared when `target` is no resource."""
        return any(rule.matches(user, target, path) for rule in self.rules)

    def distinguisher(self, user: User, target: Target) -> str:
        """What makes a flow of a request, beside the schema."""
        method = self.settings.distinguisher
        return user.name if method == "ByUser" else target.namespace if method == "ByNamespace" else ""


def compile_schema(settings: SchemaSettings) -> SchemaMatcher:
    """`settings` with their rules compiled. What makes no sense in a rule matches nothing."""
    rules = (
        _RuleMatcher(
            _subjects(_trees(rule, "subjects")),
            tuple(map(_resource_rule, _trees(rule, "resourceRules"))),
            tuple(map(_path_rule, _trees(rule, "nonResourceRules"))),
        )
        for rule in settings.rules
    )
    return SchemaMatcher(settings, tuple(rules))


def in_order(matchers: Iterable[SchemaMatcher]) -> list[SchemaMatcher]:
    """`matchers` in the order in which they are asked."""
    return sorted(matchers, key=lambda matcher: (matcher.settings.precedence, matcher.settings.name))


def _trees(rule: Mapping[str, Any], field: str) -> Sequence[Mapping[str, Any]]:
    given = rule.get(field)
    return [item for item in given if isinstance(item, dict)] if isinstance(given, list) else []


def _subjects(subjects: Sequence[Mapping[str, Any]]) -> _Subjects:
    anybody = False
    users: set[str] = set()
    groups: set[str] = set()
    accounts: list[str] = []
    for subject in subjects:
        kind = str(subject.get("kind"))
        name = _text(subject, {"User": "user", "Group": "group", "ServiceAccount": "serviceAccount"}.get(kind))
        if kind == "ServiceAccount":
            namespace = subject["serviceAccount"].get("namespace", "") if name else ""
            if name == "*":
                accounts.append(f"{_ACCOUNT}{namespace}:")
            elif name:
                users.add(f"{_ACCOUNT}{namespace}:{name}")
        elif name == "*":
            anybody = True
        elif name:
            (users if kind == "User" else groups).add(name)
    return _Subjects(anybody, frozenset(users), frozenset(groups), tuple(accounts))


def _text(subject: Mapping[str, Any], field: str | None) -> str:
    part = subject.get(field) if field else None
    name = part.get("name") if isinstance(part, dict) else None
    return name if isinstance(name, str) else ""


def _resource_rule(rule: Mapping[str, Any]) -> _ResourceMatcher:
    verbs, groups, resources, namespaces = (
        _Names.of(rule.get(field)) for field in ("verbs", "apiGroups", "resources", "namespaces")
    )
    return _ResourceMatcher(verbs, groups, resources, namespaces, rule.get("clusterScope") is True)


def _path_rule(rule: Mapping[str, Any]) -> _PathMatcher:
    paths = _Names.of(rule.get("nonResourceURLs")).names
    folders = tuple(path.removesuffix("*").rstrip("/") + "/" for path in paths)
    return _PathMatcher(_Names.of(rule.get("verbs")), "*" in paths, paths, folders)
