"""The authorizers of an ``AuthorizationConfiguration`` (``apiserver.config.k8s.io/v1``), decoded strictly and checked.

Every mistake is found at once, with its field. Must not know: files, connections. See also: `assembly`.
Source: k8s.io/apiserver ``apis/apiserver/validation``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from oarlock.meta.gotext import quote
from oarlock.meta.names import dns1123_subdomain
from oarlock.meta.times import TimeError, parse_go_duration
from oarlock.policy.authz.conditions import ExpressionCondition
from oarlock.policy.authz.webhook import ReviewCondition, WebhookRules
from oarlock.schema.cel.problems import CompileError
from oarlock.server.options.groups.authorization import ALWAYS_ALLOW, ALWAYS_DENY, RBAC, WEBHOOK

__all__ = ["ConfiguredAuthorizer", "authorizers_of"]

API_VERSIONS = ("apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1")
KIND = "AuthorizationConfiguration"
MOST_TIMEOUT_S = 30.0
MOST_CONDITIONS = 64
_TYPES = (ALWAYS_ALLOW, ALWAYS_DENY, RBAC, WEBHOOK)
_WEBHOOK_FIELDS = (
    "authorizedTTL",
    "cacheAuthorizedRequests",
    "unauthorizedTTL",
    "cacheUnauthorizedRequests",
    "timeout",
    "subjectAccessReviewVersion",
    "matchConditionSubjectAccessReviewVersion",
    "failurePolicy",
    "connectionInfo",
    "matchConditions",
)
Tree = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ConfiguredAuthorizer:
    """One of the authorizers; a webhook has `rules`, and a `kubeconfig` or, without one, the cluster of this pod."""

    type: str
    name: str
    rules: WebhookRules | None = None
    kubeconfig: Path | None = None


def authorizers_of(tree: Any) -> tuple[list[ConfiguredAuthorizer], list[str]]:
    """The authorizers in order, and what is wrong with them, one line each; use them if nothing is."""
    decoder = _ConfigurationReader()
    return decoder.configuration(tree), decoder.problems


class _ConfigurationReader:
    """Collects problems instead of raising."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def configuration(self, tree: Any) -> list[ConfiguredAuthorizer]:
        tree = self._map("", tree, ("apiVersion", "kind", "authorizers"))
        if tree.get("apiVersion") not in API_VERSIONS or tree.get("kind") != KIND:
            self._wrong("kind", f"write apiVersion: {API_VERSIONS[0]} and kind: {KIND}")
        found = [self._authorizer(f"authorizers[{at}]", one) for at, one in enumerate(self._list("authorizers", tree))]
        if not found:
            self._wrong("authorizers", "at least one authorization mode must be defined")
        for field, values in (("type", [one.type for one in found if one.type != WEBHOOK]), ("name", _names(found))):
            for value in dict.fromkeys(value for value in values if values.count(value) > 1):
                self._wrong("authorizers", f"{field} {quote(value)} is there twice")
        return found

    def _authorizer(self, path: str, tree: Any) -> ConfiguredAuthorizer:
        tree = self._map(path, tree, ("type", "name", "webhook"))
        kind, name = self._text(path, tree, "type"), self._text(path, tree, "name")
        if kind not in _TYPES:
            self._wrong(f"{path}.type", f"{quote(kind)} is not one of {', '.join(_TYPES)}")
        if not name:
            self._wrong(f"{path}.name", "give it a name")
        elif dns1123_subdomain(name):
            self._wrong(f"{path}.name", f"{quote(name)} is not a lowercase RFC 1123 subdomain")
        if kind != WEBHOOK:
            if "webhook" in tree:
                self._wrong(f"{path}.webhook", f"may only be given when type is {WEBHOOK}")
            return ConfiguredAuthorizer(kind, name)
        return self._webhook(f"{path}.webhook", name, tree.get("webhook"))

    def _webhook(self, path: str, name: str, tree: Any) -> ConfiguredAuthorizer:
        tree = self._map(path, tree, _WEBHOOK_FIELDS)
        timeout_s = self._duration(path, tree, "timeout", None)
        if not 0 < timeout_s <= MOST_TIMEOUT_S:
            self._wrong(f"{path}.timeout", "must be more than 0s and at most 30s")
        rules = WebhookRules(
            name=name,
            version=self._one_of(path, tree, "subjectAccessReviewVersion", ("v1", "v1beta1")),
            authorized_s=self._duration(path, tree, "authorizedTTL", 300.0),
            unauthorized_s=self._duration(path, tree, "unauthorizedTTL", 30.0),
            timeout_s=timeout_s,
            conditions=self._conditions(path, tree),
        )
        if tree.get("cacheAuthorizedRequests") is False:
            rules = replace(rules, authorized_s=0.0)
        if tree.get("cacheUnauthorizedRequests") is False:
            rules = replace(rules, unauthorized_s=0.0)
        if self._one_of(path, tree, "failurePolicy", ("NoOpinion", "Deny")) == "Deny":
            rules = replace(rules, failure="Deny")
        return ConfiguredAuthorizer(WEBHOOK, name, rules, self._kubeconfig(f"{path}.connectionInfo", tree))

    def _kubeconfig(self, path: str, tree: Tree) -> Path | None:
        info = self._map(path, tree.get("connectionInfo"), ("type", "kubeConfigFile"))
        kind, file = self._text(path, info, "type"), self._text(path, info, "kubeConfigFile")
        if kind == "InClusterConfig":
            if file:
                self._wrong(f"{path}.kubeConfigFile", "may only be given when type is KubeConfigFile")
            return None
        if kind != "KubeConfigFile":
            self._wrong(f"{path}.type", f"{quote(kind)} is not one of InClusterConfig, KubeConfigFile")
        if not file.startswith("/"):
            self._wrong(f"{path}.kubeConfigFile", "give an absolute path")
        return Path(file)

    def _conditions(self, path: str, tree: Tree) -> list[ReviewCondition]:
        given = self._list("matchConditions", tree, path)
        if not given:
            return []
        self._one_of(path, tree, "matchConditionSubjectAccessReviewVersion", ("v1",))
        if len(given) > MOST_CONDITIONS:
            self._wrong(f"{path}.matchConditions", f"at most {MOST_CONDITIONS} are allowed")
        made: list[ReviewCondition] = []
        seen: set[str] = set()
        for at, one in enumerate(given):
            place = f"{path}.matchConditions[{at}].expression"
            expression = self._text(place, self._map(place.rpartition(".")[0], one, ("expression",)), "expression")
            if expression in seen:
                self._wrong(place, "is there twice")
            seen.add(expression)
            try:
                made.append(ExpressionCondition(expression))
            except (CompileError, ValueError) as error:
                self._wrong(place, str(error).partition("\n")[0])
        return made

    def _map(self, path: str, tree: Any, known: tuple[str, ...]) -> Tree:
        if not isinstance(tree, dict):
            self._wrong(path, "must be an object" if tree is not None else "is required")
            return {}
        for key in tree:
            if key not in known:
                self._wrong(f"{path}.{key}" if path else str(key), "unknown field")
        return tree

    def _list(self, field: str, tree: Tree, path: str = "") -> list[Any]:
        value = tree.get(field, [])
        if isinstance(value, list):
            return value
        self._wrong(f"{path}.{field}" if path else field, "must be a list")
        return []

    def _text(self, path: str, tree: Tree, field: str) -> str:
        value = tree.get(field, "")
        if isinstance(value, str):
            return value
        self._wrong(f"{path}.{field}", "must be a text")
        return ""

    def _one_of(self, path: str, tree: Tree, field: str, known: tuple[str, ...]) -> str:
        value = self._text(path, tree, field)
        if value not in known:
            self._wrong(f"{path}.{field}", f"{quote(value)} is not {' or '.join(known)}")
        return value

    def _duration(self, path: str, tree: Tree, field: str, default: float | None) -> float:
        text = self._text(path, tree, field)
        if not text and default is not None:
            return default
        try:
            seconds = parse_go_duration(text)
        except TimeError:
            self._wrong(f"{path}.{field}", f"{quote(text)} is not a duration, such as 3s")
            return 1.0
        if seconds < 0:
            self._wrong(f"{path}.{field}", "must not be negative")
        return seconds

    def _wrong(self, path: str, why: str) -> None:
        self.problems.append(f"{path}: {why}" if path else why)


def _names(found: list[ConfiguredAuthorizer]) -> list[str]:
    return [one.name for one in found if one.name]
