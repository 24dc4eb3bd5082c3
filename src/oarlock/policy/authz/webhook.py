"""`WebhookAuthorizer`: asks another service with a SubjectAccessReview, and remembers its answers for a while.

Must not know: HTTP. It is handed a `Caller`, which has a deadline of its own. See also: `union`.
Source: k8s.io/apiserver ``plugin/pkg/authorizer/webhook``.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from oarlock.meta import fields, labels
from oarlock.meta.context import Clock, Target, User
from oarlock.meta.dataclass import dataclass
from oarlock.meta.json_trees import Tree
from oarlock.net.futures import shared
from oarlock.policy.authz.authorizer import (
    ALLOWED,
    NO_OPINION,
    AccessCounts,
    Authorizer,
    AuthorizerLabels,
    CannotDecide,
    Decision,
    KnownRules,
    Outcome,
)
from oarlock.registry.workers import ensure_task

_OPERATORS = {
    **dict.fromkeys(("=", "==", "in"), "In"),
    **dict.fromkeys(("!=", "notin"), "NotIn"),
    "exists": "Exists",
    "!": "DoesNotExist",
}


def spec_of(user: User, target: Target) -> Tree:
    """The spec that asks whether `user` may do what `target` says. A selector that can't be parsed is left out."""
    spec: Tree = {}
    if target.resource:
        about = {
            "namespace": target.namespace,
            "verb": target.verb,
            "group": target.group,
            "version": target.version,
            "resource": target.resource,
            "subresource": target.subresource,
            "name": target.name,
            "fieldSelector": _field_requirements(target.field_selector),
            "labelSelector": _label_requirements(target.label_selector),
        }
        spec["resourceAttributes"] = {key: value for key, value in about.items() if value}
    else:
        spec["nonResourceAttributes"] = {"path": target.path, "verb": target.verb}
    if user.name:
        spec["user"] = user.name
    if user.groups:
        spec["groups"] = list(user.groups)
    if user.extra:
        spec["extra"] = {key: list(values) for key, values in user.extra.items()}
    if user.uid:
        spec["uid"] = user.uid
    return spec


def target_of(spec: Mapping[str, Any]) -> Target:
    """What the spec of a review asks about: its resource, or else its path."""
    about = spec.get("resourceAttributes")
    if about is None:
        path = spec.get("nonResourceAttributes") or {}
        return Target(path.get("verb", ""), path=path.get("path", ""))
    texts = ("verb", "group", "version", "resource", "subresource", "namespace", "name")
    return Target(
        **{text: about.get(text, "") for text in texts},
        field_selector=_field_text(about.get("fieldSelector")),
        label_selector=_label_text(about.get("labelSelector")),
    )


def user_of(spec: Mapping[str, Any]) -> User:
    """Whom the spec of a review asks about."""
    extra = {key.lower(): tuple(values) for key, values in (spec.get("extra") or {}).items()}
    return User(spec.get("user", ""), spec.get("uid", ""), tuple(spec.get("groups") or ()), extra)


def _field_requirements(text: str) -> Tree:
    try:
        parsed = fields.parse(text)
    except fields.FieldSelectorError:
        return {}
    terms = [
        {"key": requirement.field, "operator": _OPERATORS[requirement.operator], "values": [requirement.value]}
        for requirement in parsed.requirements
    ]
    return {"requirements": terms} if terms else {}


def _label_requirements(text: str) -> Tree:
    try:
        parsed = labels.parse(text)
    except labels.SelectorError:
        return {}
    terms: list[Tree] = []
    for requirement in parsed.requirements:
        operator = _OPERATORS.get(requirement.operator)
        if operator is not None:
            terms.append(
                {
                    "key": requirement.key,
                    "operator": operator,
                    **({"values": [*requirement.values]} if requirement.values else {}),
                }
            )
    return {"requirements": terms} if terms else {}


def _field_text(tree: Mapping[str, Any] | None) -> str:
    """A field selector as it would be sent; what can't be sent so is left out."""
    texts = []
    for requirement in (tree or {}).get("requirements") or ():
        values: list[str] = requirement.get("values") or []
        sign = {"In": "=", "NotIn": "!="}.get(requirement.get("operator", ""))
        if sign is not None and len(values) == 1:
            texts.append(f"{requirement.get('key', '')}{sign}{fields.escape(values[0])}")
    return (tree or {}).get("rawSelector") or ",".join(texts)


def _label_text(tree: Mapping[str, Any] | None) -> str:
    """A label selector as it would be sent; what can't be sent so is left out."""
    texts = []
    for requirement in (tree or {}).get("requirements") or ():
        key, values = requirement.get("key", ""), ",".join(requirement.get("values") or ())
        match requirement.get("operator"):
            case "In":
                texts.append(f"{key} in ({values})")
            case "NotIn":
                texts.append(f"{key} notin ({values})")
            case "Exists":
                texts.append(key)
            case "DoesNotExist":
                texts.append(f"!{key}")
    return (tree or {}).get("rawSelector") or ",".join(texts)


log = logging.getLogger("oarlock.authz")

Caller = Callable[[Tree], Awaitable[Any]]
"""Sends a tree to a service, and returns the tree it answers with."""

LONGEST_BYTES = 10_000
"""The longest question whose answer is remembered."""
LONGEST_REASON = 1024
_ENTRY_BYTES = 700
_HEAD = {"kind": "SubjectAccessReview", "metadata": {}}


class ReviewCondition(Protocol):
    """Says whether a webhook is asked about a question."""

    def holds(self, spec: Tree) -> bool:
        """Whether it holds for the spec of a SubjectAccessReview. Raises an exception when that can't be evaluated."""
        ...


@dataclass(frozen=True, slots=True)
class WebhookRules:
    """How a service is asked, and what its silence means.

    Answers are remembered for `authorized_s` and `unauthorized_s` seconds, up to `entries` of them that take
    `limit_bytes`. A service that fails, or doesn't answer within `timeout_s`, has no opinion, or denies.
    """

    name: str = "webhook"
    version: str = "v1"
    authorized_s: float = 300.0
    unauthorized_s: float = 30.0
    timeout_s: float = 10.0
    failure: Literal["NoOpinion", "Deny"] = "NoOpinion"
    conditions: Sequence[ReviewCondition] = ()
    entries: int = 1024
    limit_bytes: int = 4 * 1024 * 1024


class _Answered(NamedTuple):
    decision: Decision
    until: float
    size: int


class WebhookAuthorizer(Authorizer):
    """Asks `ask`. Requests that ask the same at the same time share one call."""

    waits = False  # only a question that isn't remembered gets a task

    def __init__(self, ask: Caller, rules: WebhookRules, clock: Clock, counts: AccessCounts | None = None) -> None:
        self.labels = AuthorizerLabels("Webhook", rules.name)
        self._counts = counts or AccessCounts()
        self._ask = ask
        self._rules = rules
        self._clock = clock
        self._answers: OrderedDict[bytes, _Answered] = OrderedDict()
        self._calls: dict[bytes, asyncio.Task[Decision]] = {}
        self.remembered_bytes = 0

    async def decide(self, user: User, target: Target) -> Decision:
        spec = spec_of(user, target)
        if self._rules.conditions:
            concerns = self._concerns(spec)
            if concerns is None and self._rules.failure == "Deny":
                return Decision(Outcome.DENY, f"a match condition of {self._rules.name} failed")
            if not concerns:
                return NO_OPINION
        question = msgspec.json.encode(spec)
        remembered = self._remembered(question)
        if remembered is not None:
            return remembered
        await ensure_task()
        call = self._calls.get(question)
        if call is None:
            call = self._calls[question] = asyncio.create_task(self._decide(question, spec))
            call.add_done_callback(lambda _: self._calls.pop(question, None))
        return await shared(call)  # others may wait for the same answer

    async def rules(self, user: User, namespace: str) -> KnownRules:
        return KnownRules(incomplete=True, error="webhook authorizer does not support user rule resolution")

    def _concerns(self, spec: Tree) -> bool | None:
        """Whether every condition holds; None if none is false and one can't be evaluated."""
        failure: Exception | None = None
        for condition in self._rules.conditions:
            try:
                if not condition.holds(spec):
                    self._counts.exclusions[self._rules.name] += 1
                    return False
            except Exception as error:
                failure = error
        if failure is None:
            return True
        self._counts.condition_errors[self._rules.name] += 1
        self._failed(f"a match condition can't be evaluated: {failure}")
        return None

    async def _decide(self, question: bytes, spec: Tree) -> Decision:
        rules = self._rules
        version = rules.version
        body = {"apiVersion": f"authorization.k8s.io/{version}", **_HEAD, "spec": _of_version(spec, version)}
        began = self._clock.monotonic()
        result, why = "success", ""
        try:
            async with asyncio.timeout(rules.timeout_s):
                answer = await self._ask(body)
            decision = _decision(answer)
        except TimeoutError:
            result, why = "timeout", f"no answer within {rules.timeout_s:g} s"
        except asyncio.CancelledError:
            result = "canceled"
            raise
        except Exception as error:
            result, why = "error", f"{type(error).__name__}: {error}"
        finally:
            self._counts.called(rules.name, result, self._clock.monotonic() - began)
        if why:
            return self._unanswered(result, why)
        self._remember(question, decision)
        return decision

    def _unanswered(self, result: str, why: str) -> Decision:
        """What counts instead of an answer. Raises `CannotDecide` if it is no opinion."""
        self._failed(why)
        if self._rules.failure != "Deny":
            self._counts.open_failures[self._rules.name, result] += 1
        else:
            return Decision(Outcome.DENY, f"{self._rules.name}, which decides, doesn't answer")
        raise CannotDecide(self._rules.name)

    def _failed(self, why: str) -> None:
        log.error("the authorizer %s: %.500s", self._rules.name, why)

    def _remembered(self, question: bytes) -> Decision | None:
        found = self._answers.get(question)
        if found is None:
            return None
        if found.until <= self._clock.monotonic():
            self._drop(question)
            return None
        self._answers.move_to_end(question)
        return found.decision

    def _remember(self, question: bytes, decision: Decision) -> None:
        rules = self._rules
        for_s = rules.authorized_s if decision.allowed else rules.unauthorized_s
        if for_s <= 0 or len(question) > LONGEST_BYTES:
            return
        self._drop(question)
        size = _ENTRY_BYTES + len(question) + 4 * len(decision.reason)
        self._answers[question] = _Answered(decision, self._clock.monotonic() + for_s, size)
        self.remembered_bytes += size
        while len(self._answers) > rules.entries or self.remembered_bytes > rules.limit_bytes:
            self._drop(next(iter(self._answers)))

    def _drop(self, question: bytes) -> None:
        dropped = self._answers.pop(question, None)
        if dropped is not None:
            self.remembered_bytes -= dropped.size


def _of_version(spec: Tree, version: str) -> Tree:
    """The spec as a version has it: groups were called group in v1beta1."""
    if version == "v1beta1" and "groups" in spec:
        return {**{key: value for key, value in spec.items() if key != "groups"}, "group": spec["groups"]}
    return spec


def _decision(answer: Any) -> Decision:
    """The decision in a SubjectAccessReview. Raises ValueError for anything else, or one that contradicts itself."""
    status = answer.get("status") if isinstance(answer, dict) else None
    if not isinstance(status, dict) or answer.get("kind", "SubjectAccessReview") != "SubjectAccessReview":
        raise ValueError("it answered with something else than a SubjectAccessReview with a status")
    allowed, denied, reason = status.get("allowed", False), status.get("denied", False), status.get("reason", "")
    if not isinstance(allowed, bool) or not isinstance(denied, bool) or not isinstance(reason, str):
        raise ValueError("the status that it answered with has fields of a wrong type")
    if allowed and denied:
        raise ValueError("it both allows and denies")
    reason = reason[:LONGEST_REASON]
    if allowed:
        return Decision(Outcome.ALLOW, reason) if reason else ALLOWED
    return Decision(Outcome.DENY if denied else Outcome.NO_OPINION, reason)
