"""`AuditPolicy`: decides at which level a request is recorded. The first rule that matches decides.

`policy_of` decodes a policy strictly. Must not know: files, HTTP. See also: `event`, what is recorded.
Source: audit.k8s.io/v1 Policy; k8s.io/apiserver ``audit/policy``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import field
from enum import Enum, IntEnum
from typing import Any, TypeVar

from oarlock.meta.context import Target, User
from oarlock.meta.dataclass import dataclass
from oarlock.meta.memo import Memo
from oarlock.meta.names import dns1123_subdomain


class Level(IntEnum):
    """How much is recorded of a request; each level has what the one before has."""

    NONE = 0
    METADATA = 1
    REQUEST = 2
    REQUEST_RESPONSE = 3

    @property
    def word(self) -> str:
        """The level as Kubernetes spells it."""
        return _WORDS[self]


_WORDS = ("None", "Metadata", "Request", "RequestResponse")


class Stage(Enum):
    """When an event is recorded; `RESPONSE_STARTED` only of requests that go on, such as watches."""

    REQUEST_RECEIVED = "RequestReceived"
    RESPONSE_STARTED = "ResponseStarted"
    RESPONSE_COMPLETE = "ResponseComplete"
    PANIC = "Panic"

    def __init__(self, word: str) -> None:
        self.wire = word.encode()


@dataclass(frozen=True, slots=True)
class Recording:
    """What is recorded of one request."""

    level: Level
    omitted: frozenset[Stage] = frozenset()
    omit_managed_fields: bool = False
    head: bytes = field(default=b"", init=False, compare=False, repr=False)
    """What every event at this level begins with, up to the audit id."""

    def __post_init__(self) -> None:
        head = f'{{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"{self.level.word}","auditID":'
        object.__setattr__(self, "head", head.encode())


@dataclass(frozen=True, slots=True)
class AuditedResources:
    """Resources of a group: ``pods``, ``pods/log``, ``pods/*``, ``*/scale``, ``*``; none names all of the group."""

    group: str = ""
    resources: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()

    def matches(self, target: Target) -> bool:
        if self.group not in ("*", target.group):
            return False
        if not self.resources:
            return True
        if self.names and target.name not in self.names:
            return False
        below = target.subresource
        whole = f"{target.resource}/{below}" if below else target.resource
        for pattern in self.resources:
            if pattern in (whole, "*", f"{target.resource}/*") or (below and pattern == f"*/{below}"):
                return True
        return False


@dataclass(frozen=True, slots=True)
class AuditRule:
    """Matches a request that every part which isn't empty matches."""

    recording: Recording
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    verbs: frozenset[str] = frozenset()
    resources: tuple[AuditedResources, ...] = ()
    namespaces: frozenset[str] = frozenset()
    paths: tuple[str, ...] = ()

    def matches(self, user: User, target: Target) -> bool:
        if self.users and user.name not in self.users:
            return False
        if self.groups and self.groups.isdisjoint(user.groups):
            return False
        if self.verbs and target.verb not in self.verbs:
            return False
        if self.namespaces or self.resources:
            if not target.resource or (self.namespaces and target.namespace not in self.namespaces):
                return False
            return not self.resources or any(resource.matches(target) for resource in self.resources)
        if self.paths:
            return not target.resource and any(_covers(pattern, target.path) for pattern in self.paths)
        return True


def _covers(pattern: str, path: str) -> bool:
    return pattern == path or (pattern.endswith("*") and path.startswith(pattern.rstrip("*")))


SECRET_RESOURCES = frozenset(
    {("", "secrets", ""), ("", "serviceaccounts", "token"), ("authentication.k8s.io", "tokenreviews", "")}
)
"""Group, resource and subresource of what holds credentials: it is recorded at `Level.METADATA` at most."""

DECISIONS_BYTES = 2 * 1024 * 1024
_FEW = 4
"""So many rules are faster asked than looked up."""


class AuditPolicy:
    """Rules in order. What no rule matches isn't recorded."""

    def __init__(self, rules: Sequence[AuditRule]) -> None:
        self.rules = tuple(rules)
        self._none = Recording(Level.NONE)
        self._decided: Memo[tuple[str, tuple[str, ...], Target], Recording] = Memo(
            DECISIONS_BYTES, entry_bytes=1024, per_byte=2
        )

    def decide(self, user: User, target: Target) -> Recording:
        """What is recorded of a request of `user`."""
        if len(self.rules) <= _FEW:
            return self._decide(user, target)
        key = (user.name, user.groups, target)
        recording = self._decided.get(key)
        if recording is None:
            recording = self._decide(user, target)
            texts = (user.name, *user.groups, target.namespace, target.name, target.resource, target.path)
            self._decided.put(key, recording, sum(map(len, texts)))
        return recording

    def _decide(self, user: User, target: Target) -> Recording:
        for rule in self.rules:
            if rule.matches(user, target):
                recording = rule.recording
                if recording.level > Level.METADATA and _holds_secrets(target):
                    return Recording(Level.METADATA, recording.omitted)
                return recording
        return self._none


def _holds_secrets(target: Target) -> bool:
    return (target.group, target.resource, target.subresource) in SECRET_RESOURCES


API_VERSION = "audit.k8s.io/v1"
_LEVELS = {level.word: level for level in Level}
_STAGES = {stage.value: stage for stage in Stage}
_RULE = (
    *("level", "users", "userGroups", "verbs", "resources", "namespaces", "nonResourceURLs", "omitStages"),
    "omitManagedFields",
)
_SHOWN = 128
_MOST_SHOWN = 10
T = TypeVar("T")


class AuditPolicyError(ValueError):
    """The policy can't be used; one line names every field and says what to write."""


def policy_of(tree: Any) -> AuditPolicy:
    """Raises `AuditPolicyError`."""
    decoder = _PolicyDecoder()
    rules = decoder.policy(tree)
    problems = decoder.problems
    if problems:
        more = len(problems) - _MOST_SHOWN
        raise AuditPolicyError("; ".join(problems[:_MOST_SHOWN]) + (f"; and {more} more" if more > 0 else ""))
    return AuditPolicy(rules)


class _PolicyDecoder:
    """Collects problems instead of raising."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def policy(self, tree: Any) -> list[AuditRule]:
        fields = self._mapping(tree, "", ("apiVersion", "kind", "metadata", "rules", "omitStages", "omitManagedFields"))
        for name, expected in (("apiVersion", API_VERSION), ("kind", "Policy")):
            if fields.get(name) != expected:
                self._invalid(name, fields.get(name), f"write {expected}")
        omitted = self._stages(fields.get("omitStages"), "omitStages")
        omit_managed_fields = self._bool(fields.get("omitManagedFields"), "omitManagedFields") or False
        rules = self._list(fields.get("rules"), "rules")
        if not rules and not self.problems:
            self.problems.append("rules: Required value: a policy without rules records nothing; write at least one")
        return [self._rule(rule, f"rules[{i}]", omitted, omit_managed_fields) for i, rule in enumerate(rules)]

    def _rule(self, tree: Any, path: str, omitted: frozenset[Stage], omit_managed_fields: bool) -> AuditRule:
        fields = self._mapping(tree, path, _RULE)
        level = self._level(fields.get("level"), f"{path}.level")
        texts = {
            name: self._texts(fields.get(name), f"{path}.{name}")
            for name in ("users", "userGroups", "verbs", "namespaces", "nonResourceURLs")
        }
        urls = texts["nonResourceURLs"]
        self._check_urls(urls, f"{path}.nonResourceURLs")
        listed = self._list(fields.get("resources"), f"{path}.resources")
        resources = tuple(self._resources(entry, f"{path}.resources[{i}]") for i, entry in enumerate(listed))
        if urls and (resources or texts["namespaces"]):
            why = "rules cannot apply to both regular resources and non-resource URLs: make two rules"
            self._invalid(f"{path}.nonResourceURLs", list(urls), why)
        own = self._bool(fields.get("omitManagedFields"), f"{path}.omitManagedFields")
        stages = omitted | self._stages(fields.get("omitStages"), f"{path}.omitStages")
        return AuditRule(
            Recording(level, stages, omit_managed_fields if own is None else own),
            users=frozenset(texts["users"]),
            groups=frozenset(texts["userGroups"]),
            verbs=frozenset(texts["verbs"]),
            resources=resources,
            namespaces=frozenset(texts["namespaces"]),
            paths=urls,
        )

    def _level(self, tree: Any, path: str) -> Level:
        known = ", ".join(_LEVELS)
        if tree is None or tree == "":
            self.problems.append(f"{path}: Required value: write one of {known}")
        elif not isinstance(tree, str) or tree not in _LEVELS:
            self.problems.append(f"{path}: Unsupported value: {_shown(tree)}: supported values: {known}")
        else:
            return _LEVELS[tree]
        return Level.NONE

    def _resources(self, tree: Any, path: str) -> AuditedResources:
        fields = self._mapping(tree, path, ("group", "resources", "resourceNames"))
        group = fields.get("group") or ""
        if not isinstance(group, str):
            self._invalid(f"{path}.group", group, "write a text")
            group = ""
        elif group not in ("", "*") and dns1123_subdomain(group):
            why = 'a group has no version and is a DNS name, such as apps or rbac.authorization.k8s.io; "" is core'
            self._invalid(f"{path}.group", group, why)
        resources = self._texts(fields.get("resources"), f"{path}.resources")
        names = self._texts(fields.get("resourceNames"), f"{path}.resourceNames")
        if names and not resources:
            self._invalid(f"{path}.resourceNames", list(names), "using resourceNames requires at least one resource")
        return AuditedResources(group, resources, frozenset(names))

    def _check_urls(self, urls: Sequence[str], path: str) -> None:
        for i, url in enumerate(urls):
            if url != "*" and not url.startswith("/"):
                self._invalid(f"{path}[{i}]", url, "non-resource URL rules must begin with a '/' character")
            if "*" in url[:-1]:
                why = "non-resource URL wildcards '*' must be the final character of the rule"
                self._invalid(f"{path}[{i}]", url, why)

    def _stages(self, tree: Any, path: str) -> frozenset[Stage]:
        stages = set()
        for i, text in enumerate(self._texts(tree, path)):
            if text in _STAGES:
                stages.add(_STAGES[text])
            else:
                self._invalid(f"{path}[{i}]", text, "allowed stages are " + ",".join(_STAGES))
        return frozenset(stages)

    def _mapping(self, tree: Any, path: str, known: Sequence[str]) -> dict[str, Any]:
        if not isinstance(tree, dict):
            self.problems.append(f"{path or 'the document'}: must be a mapping")
            return {}
        for name in tree:
            if name not in known:
                where = f"{path}.{name}" if path else str(name)
                self.problems.append(f"unknown field {_shown(where)}: leave it out, or write one of {', '.join(known)}")
        return tree

    def _list(self, tree: Any, path: str) -> list[Any]:
        return self._of_type(tree, path, list, "a list") or []

    def _texts(self, tree: Any, path: str) -> tuple[str, ...]:
        items = self._list(tree, path)
        wrong = [i for i, item in enumerate(items) if not isinstance(item, str)]
        for i in wrong:
            self._invalid(f"{path}[{i}]", items[i], "write a text, in quotes if need be")
        return () if wrong else tuple(items)

    def _bool(self, tree: Any, path: str) -> bool | None:
        return self._of_type(tree, path, bool, "true or false")

    def _of_type(self, tree: Any, path: str, kind: Callable[..., T], what: str) -> T | None:
        if tree is None or isinstance(tree, kind):  # type: ignore[arg-type]
            return tree
        self._invalid(path, tree, f"write {what}")
        return None

    def _invalid(self, path: str, value: Any, why: str) -> None:
        self.problems.append(f"{path}: Invalid value: {_shown(value)}: {why}")


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
