"""The settings of priority levels and flow schemas, read from the objects that configure them, and the queues that
shuffle sharding deals to a flow by them.

The objects are trees of ``flowcontrol.apiserver.k8s.io/v1``: validated when they were written, but perhaps by another
release, so what can't be used is refused here too. See also: `builtin`, which has the objects every server begins with.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from oarlock.meta.context import Target, User
from oarlock.meta.dataclass import dataclass

MOST_BITS = 60
"""The most bits of a flow's number that a hand may use up."""


def bits_of_hand(queues: int, size: int) -> int:
    """How many bits of a random number it takes to deal `size` of `queues`; counted up to `MOST_BITS` + 1."""
    bits = 0.0
    for left in range(queues, queues - size, -1):
        bits += math.log2(left)
        if bits > MOST_BITS:
            return MOST_BITS + 1
    return math.ceil(bits)


def flow_number(schema: str, distinguisher: str) -> int:
    """The number of 64 bits that stands for a flow."""
    flow = f"{schema}\0{distinguisher}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(flow).digest()[:8], "little")


def hand(number: int, queues: int, size: int) -> tuple[int, ...]:
    """The `size` different indices below `queues` that `number` stands for."""
    places: list[int] = []
    cards: list[int] = []
    for left in range(queues, queues - size, -1):
        number, place = divmod(number, left)
        card = place
        for earlier in reversed(places):  # `place` counts the cards that are left, those dealt before aren't
            card += card >= earlier
        places.append(place)
        cards.append(card)
    return tuple(cards)


EXEMPT = "exempt"
"""The name of the only level without limits, and of the schema that nobody can change."""
CATCH_ALL = "catch-all"
"""The name of the level and the schema for requests that no other schema matches."""

DEFAULT_SHARES = 30
MOST_QUEUES = 10_000_000
MOST_INT32 = 2**31 - 1
_DISTINGUISHERS = ("", "ByUser", "ByNamespace")


class BrokenSettings(ValueError):
    """An object that configures nothing: what is wrong with it."""


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """Each flow is dealt `hand_size` of the `queues`, of which one may have up to `length_limit` requests."""

    queues: int
    hand_size: int
    length_limit: int


@dataclass(frozen=True, slots=True)
class LevelSettings:
    """A PriorityLevelConfiguration. Without `queuing`, requests over the limit are refused at once."""

    name: str
    uid: str
    exempt: bool
    shares: int
    lendable_percent: int
    borrowing_percent: int | None
    queuing: QueueSettings | None

    @classmethod
    def read(cls, tree: Mapping[str, Any]) -> LevelSettings:
        """The settings of an object. Raises BrokenSettings."""
        name, uid, spec = _head(tree)
        exempt = spec.get("type") == "Exempt"
        if exempt != (name == EXEMPT) or spec.get("type") not in ("Exempt", "Limited"):
            raise BrokenSettings("spec.type must be 'Exempt' if and only if the name is 'exempt', else 'Limited'")
        limits = spec.get("exempt" if exempt else "limited")
        if not isinstance(limits, dict):
            if not exempt:
                raise BrokenSettings("spec.limited must not be empty when type is Limited")
            limits = {}
        return cls(
            name,
            uid,
            exempt,
            shares=_number(limits, "nominalConcurrencyShares", 0 if exempt else DEFAULT_SHARES),
            lendable_percent=_number(limits, "lendablePercent", 0, most=100),
            borrowing_percent=(
                None if limits.get("borrowingLimitPercent") is None else _number(limits, "borrowingLimitPercent", 0)
            ),
            queuing=None if exempt else _queuing(limits.get("limitResponse")),
        )


@dataclass(frozen=True, slots=True)
class SchemaSettings:
    """A FlowSchema. `rules` are those of the object; ``matching`` compiles them."""

    name: str
    uid: str
    precedence: int
    level: str
    distinguisher: str
    rules: Sequence[Mapping[str, Any]]

    @classmethod
    def read(cls, tree: Mapping[str, Any]) -> SchemaSettings:
        """The settings of an object. Raises BrokenSettings."""
        name, uid, spec = _head(tree)
        method = spec.get("distinguisherMethod")
        distinguisher = method.get("type", "") if isinstance(method, dict) else ""
        if distinguisher not in _DISTINGUISHERS:
            raise BrokenSettings(f"spec.distinguisherMethod.type is {distinguisher!r}")
        level = spec.get("priorityLevelConfiguration")
        level_name = level.get("name") if isinstance(level, dict) else None
        if not isinstance(level_name, str) or not level_name:
            raise BrokenSettings("spec.priorityLevelConfiguration.name must reference a priority level")
        rules = spec.get("rules")
        if not isinstance(rules, list | type(None)) or not all(isinstance(rule, dict) for rule in rules or ()):
            raise BrokenSettings("spec.rules is no list of rules")
        return cls(name, uid, _number(spec, "matchingPrecedence", 1000), level_name, distinguisher, tuple(rules or ()))


def _head(tree: Mapping[str, Any]) -> tuple[str, str, Mapping[str, Any]]:
    metadata, spec = tree.get("metadata"), tree.get("spec")
    if not isinstance(metadata, dict) or not isinstance(spec, dict):
        raise BrokenSettings("spec must not be empty")
    name, uid = metadata.get("name", ""), metadata.get("uid", "")
    if not isinstance(name, str) or not isinstance(uid, str):
        raise BrokenSettings("metadata.name and metadata.uid must be strings")
    return name, uid, spec


def _number(tree: Mapping[str, Any], field: str, default: int, *, least: int = 0, most: int = MOST_INT32) -> int:
    value = tree.get(field)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise BrokenSettings(f"{field} is {value!r}")
    return value


def _queuing(response: Any) -> QueueSettings | None:
    kind = response.get("type") if isinstance(response, dict) else None
    queuing = response.get("queuing") if isinstance(response, dict) else None
    if kind not in ("Queue", "Reject") or (kind == "Queue") != isinstance(queuing, dict):
        raise BrokenSettings("spec.limited.limitResponse has a queuing if and only if its type is 'Queue'")
    if not isinstance(queuing, dict):
        return None
    settings = QueueSettings(
        _number(queuing, "queues", 64, least=1, most=MOST_QUEUES),
        _number(queuing, "handSize", 8, least=1),
        _number(queuing, "queueLengthLimit", 50, least=1),
    )
    if settings.hand_size > settings.queues or bits_of_hand(settings.queues, settings.hand_size) > MOST_BITS:
        raise BrokenSettings(f"handSize {settings.hand_size} doesn't go with {settings.queues} queues")
    return settings


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
    """A flow schema, compiled."""

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
    """`matchers` in the order in which they are tried."""
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
