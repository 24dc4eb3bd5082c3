"""The authorizers of an ``AuthorizationConfiguration`` (``apiserver.config.k8s.io/v1``), decoded strictly and checked.

Every mistake is found at once, with its field. Must not know: files, connections. See also: `assembly`.
Source: k8s.io/apiserver ``apis/apiserver/validation``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from oarlock.meta.dataclass import dataclass
from oarlock.meta.go.gotext import quote
from oarlock.meta.json_trees import Tree
from oarlock.meta.names import dns1123_subdomain
from oarlock.meta.times import TimeError, parse_go_duration
from oarlock.policy.authz.webhook import ReviewCondition, WebhookRules
from oarlock.schema.cel import types
from oarlock.schema.cel.declared import declare
from oarlock.schema.cel.expression import CONDITION_BUDGET, DeclaredVariable, check_text
from oarlock.schema.cel.problems import CompileError
from oarlock.schema.structural.nodes import parse
from oarlock.server.files.strict_reader import StrictReader
from oarlock.server.options.groups.authorization import ALWAYS_ALLOW, ALWAYS_DENY, RBAC, WEBHOOK

_TEXT, _TEXTS = {"type": "string"}, {"type": "array", "items": {"type": "string"}}


def _object(**properties: Tree) -> Tree:
    return {"type": "object", "properties": properties}


def _texts(*names: str) -> dict[str, Tree]:
    return dict.fromkeys(names, _TEXT)


_REQUIREMENT = {"type": "array", "items": _object(**_texts("key", "operator"), values=_TEXTS)}
_SELECTOR = _object(rawSelector=_TEXT, requirements=_REQUIREMENT)
_ABOUT = ("namespace", "verb", "group", "version", "resource", "subresource", "name")
_REQUEST = declare(
    parse(
        _object(
            **_texts("user", "uid"),
            groups=_TEXTS,
            extra={"type": "object", "additionalProperties": _TEXTS},
            resourceAttributes=_object(**_texts(*_ABOUT), fieldSelector=_SELECTOR, labelSelector=_SELECTOR),
            nonResourceAttributes=_object(**_texts("path", "verb")),
        )
    ),
    path="request",
)


class ExpressionCondition:
    """A compiled expression. Raises CompileError for one that isn't valid, ValueError for one that is no condition."""

    def __init__(self, source: str) -> None:
        assert _REQUEST is not None
        checked = check_text(source, {"request": DeclaredVariable(_REQUEST.type, _REQUEST)})
        if checked.type != types.BOOL:
            raise ValueError(f"{source!r} must evaluate to bool")
        self._program = checked.program()

    def holds(self, spec: Tree) -> bool:
        """Whether it holds. Raises CelError."""
        value, _ = self._program.run((_complete(spec),), CONDITION_BUDGET)
        return value is True


def _complete(spec: Tree) -> Tree:
    whole: Tree = {"user": "", "uid": "", "groups": [], "extra": {}, **spec}
    about = whole.get("resourceAttributes")
    if about is not None:
        whole["resourceAttributes"] = {**dict.fromkeys(_ABOUT, ""), **about}
    return whole


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


@dataclass(frozen=True, slots=True)
class ConfiguredAuthorizer:
    """One of the authorizers; a webhook has `rules`, and a `kubeconfig` or, without one, the cluster of this pod."""

    type: str
    name: str
    rules: WebhookRules | None = None
    kubeconfig: Path | None = None


def authorizers_of(tree: Any) -> tuple[list[ConfiguredAuthorizer], list[str]]:
    """The authorizers in order, and what is wrong with them, one line each; use them if nothing is."""
    decoder = _AuthorizationReader()
    return decoder.configuration(tree), decoder.problems


class _AuthorizationReader(StrictReader):
    def configuration(self, tree: Any) -> list[ConfiguredAuthorizer]:
        tree = self.map("", tree, ("apiVersion", "kind", "authorizers"))
        if tree.get("apiVersion") not in API_VERSIONS or tree.get("kind") != KIND:
            self.wrong("kind", f"write apiVersion: {API_VERSIONS[0]} and kind: {KIND}")
        found = [
            self._authorizer(f"authorizers[{at}]", entry) for at, entry in enumerate(self.list("authorizers", tree))
        ]
        if not found:
            self.wrong("authorizers", "at least one authorization mode must be defined")
        for field, values in (
            ("type", [authorizer.type for authorizer in found if authorizer.type != WEBHOOK]),
            ("name", _names(found)),
        ):
            for value in dict.fromkeys(value for value in values if values.count(value) > 1):
                self.wrong("authorizers", f"{field} {quote(value)} is there twice")
        return found

    def _authorizer(self, path: str, tree: Any) -> ConfiguredAuthorizer:
        tree = self.map(path, tree, ("type", "name", "webhook"))
        kind, name = self.text(path, tree, "type"), self.text(path, tree, "name")
        if kind not in _TYPES:
            self.wrong(f"{path}.type", f"{quote(kind)} is not one of {', '.join(_TYPES)}")
        if not name:
            self.wrong(f"{path}.name", "give it a name")
        elif dns1123_subdomain(name):
            self.wrong(f"{path}.name", f"{quote(name)} is not a lowercase RFC 1123 subdomain")
        if kind != WEBHOOK:
            if "webhook" in tree:
                self.wrong(f"{path}.webhook", f"may only be given when type is {WEBHOOK}")
            return ConfiguredAuthorizer(kind, name)
        return self._webhook(f"{path}.webhook", name, tree.get("webhook"))

    def _webhook(self, path: str, name: str, tree: Any) -> ConfiguredAuthorizer:
        tree = self.map(path, tree, _WEBHOOK_FIELDS)
        timeout_s = self._duration(path, tree, "timeout", None)
        if not 0 < timeout_s <= MOST_TIMEOUT_S:
            self.wrong(f"{path}.timeout", "must be more than 0s and at most 30s")
        rules = WebhookRules(
            name=name,
            version=self.one_of(path, tree, "subjectAccessReviewVersion", ("v1", "v1beta1")),
            authorized_s=self._duration(path, tree, "authorizedTTL", 300.0),
            unauthorized_s=self._duration(path, tree, "unauthorizedTTL", 30.0),
            timeout_s=timeout_s,
            conditions=self._conditions(path, tree),
        )
        if tree.get("cacheAuthorizedRequests") is False:
            rules = replace(rules, authorized_s=0.0)
        if tree.get("cacheUnauthorizedRequests") is False:
            rules = replace(rules, unauthorized_s=0.0)
        if self.one_of(path, tree, "failurePolicy", ("NoOpinion", "Deny")) == "Deny":
            rules = replace(rules, failure="Deny")
        return ConfiguredAuthorizer(WEBHOOK, name, rules, self._kubeconfig(f"{path}.connectionInfo", tree))

    def _kubeconfig(self, path: str, tree: Tree) -> Path | None:
        info = self.map(path, tree.get("connectionInfo"), ("type", "kubeConfigFile"))
        kind, file = self.text(path, info, "type"), self.text(path, info, "kubeConfigFile")
        if kind == "InClusterConfig":
            if file:
                self.wrong(f"{path}.kubeConfigFile", "may only be given when type is KubeConfigFile")
            return None
        if kind != "KubeConfigFile":
            self.wrong(f"{path}.type", f"{quote(kind)} is not one of InClusterConfig, KubeConfigFile")
        if not file.startswith("/"):
            self.wrong(f"{path}.kubeConfigFile", "give an absolute path")
        return Path(file)

    def _conditions(self, path: str, tree: Tree) -> list[ReviewCondition]:
        given = self.list("matchConditions", tree, path)
        if not given:
            return []
        self.one_of(path, tree, "matchConditionSubjectAccessReviewVersion", ("v1",))
        if len(given) > MOST_CONDITIONS:
            self.wrong(f"{path}.matchConditions", f"at most {MOST_CONDITIONS} are allowed")
        made: list[ReviewCondition] = []
        seen: set[str] = set()
        for at, condition in enumerate(given):
            place = f"{path}.matchConditions[{at}].expression"
            expression = self.text(place, self.map(place.rpartition(".")[0], condition, ("expression",)), "expression")
            if expression in seen:
                self.wrong(place, "is there twice")
            seen.add(expression)
            try:
                made.append(ExpressionCondition(expression))
            except (CompileError, ValueError) as error:
                self.wrong(place, str(error).partition("\n")[0])
        return made

    def _duration(self, path: str, tree: Tree, field: str, default: float | None) -> float:
        text = self.text(path, tree, field)
        if not text and default is not None:
            return default
        try:
            seconds = parse_go_duration(text)
        except TimeError:
            self.wrong(f"{path}.{field}", f"{quote(text)} is not a duration, such as 3s")
            return 1.0
        if seconds < 0:
            self.wrong(f"{path}.{field}", "must not be negative")
        return seconds


def _names(found: list[ConfiguredAuthorizer]) -> list[str]:
    return [authorizer.name for authorizer in found if authorizer.name]
