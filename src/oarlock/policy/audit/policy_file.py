"""Decodes an audit policy: a tree of ``audit.k8s.io/v1`` Policy as an `AuditPolicy`, with every mistake at once.

A field that isn't known is a mistake too. Kubernetes only logs it, and a misspelt rule records what nobody meant.
Must not know: files. Source: k8s.io/apiserver ``apis/audit/validation``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from oarlock.meta.names import dns1123_subdomain
from oarlock.policy.audit.policy import AuditedResources, AuditPolicy, AuditRule, Level, Recording, Stage

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
