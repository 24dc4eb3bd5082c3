"""`MutatingAdmissionWebhook` and `ValidatingAdmissionWebhook`: the members of the admission chain that ask webhooks.

Mutating ones are asked one after the other, each about what the one before has made; validating ones side by side.
See also: `rules`, which are asked; `asking`, how.
Source: k8s.io/apiserver ``admission/plugin/webhook/mutating`` and ``webhook/validating``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from oarlock.codec import json
from oarlock.meta.errors import Forbidden, InternalError, StatusError
from oarlock.meta.gotext import quote
from oarlock.meta.kinds import GroupResource
from oarlock.patch import json_patch
from oarlock.patch.errors import PatchError, PatchFormatError
from oarlock.policy.admission.expressions.conditions import UndecidedConditions
from oarlock.policy.admission.expressions.waiting import ExpressionRunner, ReviewedRequest
from oarlock.policy.admission.validating import ValidatingPlugin
from oarlock.policy.admission.webhooks.asking import WebhookCaller, ask
from oarlock.policy.admission.webhooks.conditions import is_asked
from oarlock.policy.admission.webhooks.objects import ReviewedObjects
from oarlock.policy.admission.webhooks.review import RefusedByWebhook, about_request
from oarlock.policy.admission.webhooks.rules import ConfiguredWebhook, RequestKind, WebhookMatch, WebhookSet
from oarlock.registry.conversion import Tree
from oarlock.registry.gate import NOT_AT_HAND, AdmissionRequest, Hub
from oarlock.registry.workers import Offload

__all__ = ["MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"]

Labels = Mapping[str, str]

_NAMESPACES = GroupResource("", "namespaces")

SUFFIX = 5
MOST_OF_BASE = 58
"""A generated name is at most so many characters of the base, and `SUFFIX` more."""


@dataclass(frozen=True, slots=True)
class _Pair:
    """The new and the old object, in the version of the request."""

    new: Tree | None
    old: Tree | None


class _WebhookPlugin:
    """What both have in common. `hooks` are those that are configured now; `labels_of` tells those of a namespace.

    `runner` runs their match conditions.
    """

    waits = True

    def __init__(
        self,
        hooks: Callable[[], WebhookSet],
        caller: WebhookCaller,
        labels_of: Callable[[str], Labels],
        runner: ExpressionRunner,
    ) -> None:
        self._hooks = hooks
        self._caller = caller
        self._labels_of = labels_of
        self._runner = runner

    def handles(self, request: AdmissionRequest) -> bool:
        hooks = self._hooks()
        return bool(hooks.hooks) and bool(_matching(hooks, request))

    def _selected(self, request: AdmissionRequest, objects: _Pair) -> list[tuple[int, WebhookMatch]]:
        """The webhooks that the rules and selectors name, with their places among those of all configurations."""
        return [
            (at, match)
            for at, match in enumerate(_matching(self._hooks(), request))
            if self._selects(match.hook, request, objects)
        ]

    def _selects(self, hook: ConfiguredWebhook, request: AdmissionRequest, objects: _Pair) -> bool:
        if not hook.objects.empty:
            trees = [tree for tree in (objects.new, objects.old) if tree is not None]
            if not any(hook.objects.matches(_labels(tree)) for tree in trees):
                return False
        if hook.namespaces.empty:
            return True
        target = request.ctx.target
        if target.namespace:
            return hook.namespaces.matches(self._labels_of(target.namespace))
        if target.group_resource != _NAMESPACES:
            return True
        own = objects.new if objects.new is not None and not target.subresource else objects.old
        return hook.namespaces.matches(_labels(own) if own is not None else self._labels_of(target.name))

    async def _question(
        self, match: WebhookMatch, shared: ReviewedRequest, request: AdmissionRequest, objects: _Pair, offload: Offload
    ) -> _Asked | None:
        """What to ask the webhook; None if its conditions don't hold. Raises Forbidden if that can't be told."""
        ctx, reviewed = request.ctx, ReviewedObjects(request, offload)
        place = _place(request, objects, final=not match.hook.mutating)
        new = await reviewed.new_shown(objects.new, objects.old, match, place)
        old = await reviewed.shown(objects.old, match)
        about = about_request(ctx, request.operation, place, reviewed.sent(match), reviewed.asked())
        hook = match.hook
        if hook.conditions:
            try:
                if not await is_asked(hook, (new, old), about, self._runner, shared):
                    return None
            except UndecidedConditions as error:
                if not hook.fails:
                    return None
                raise Forbidden(ctx.target.group_resource, place[1] or "Unknown", str(error)) from None
        return _Asked(reviewed, about, _Pair(new, old))

    async def _answer(
        self, match: WebhookMatch, asked: _Asked, request: AdmissionRequest, offload: Offload
    ) -> bytes | None:
        """The patch that the webhook answers with, None if it failed and that doesn't count. Raises what refuses."""
        hook, pair = match.hook, asked.shown
        answer = await ask(hook, self._caller, asked.about, (pair.new, pair.old), request.ctx, offload)
        if answer is None:
            return None
        if not answer.allowed:
            raise RefusedByWebhook(hook.name, answer.status)
        return answer.patch


@dataclass(frozen=True, slots=True)
class _Asked:
    """One question: what it is about, and the objects as the webhook is shown them."""

    reviewed: ReviewedObjects
    about: Tree
    shown: _Pair


class ValidatingAdmissionWebhook(_WebhookPlugin, ValidatingPlugin):
    """Asks webhooks, all at once, whether the final object may be written. The first that refuses is told of."""

    name = "ValidatingAdmissionWebhook"

    async def validate(
        self, request: AdmissionRequest, new: Tree | None, old: Tree | None, offload: Offload, hub: Hub = NOT_AT_HAND
    ) -> None:
        pair, shared = _Pair(new, old), ReviewedRequest(request.ctx, offload)
        questions: list[tuple[int, WebhookMatch, _Asked]] = []
        for at, match in self._selected(request, pair):
            asked = await self._question(match, shared, request, pair, offload)
            if asked is not None:
                questions.append((at, match, asked))
        if len(questions) == 1:
            await self._ask(*questions[0], request, offload)
            return
        asking = (self._ask(*question, request, offload) for question in questions)
        results = await asyncio.gather(*asking, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _ask(
        self, at: int, match: WebhookMatch, asked: _Asked, request: AdmissionRequest, offload: Offload
    ) -> None:
        if await self._answer(match, asked, request, offload) is None:
            key = f"failed-open.validating.webhook.admission.k8s.io/round_0_index_{at}"
            request.ctx.notes.audit(key, match.hook.name)


class MutatingAdmissionWebhook(_WebhookPlugin):
    """Asks webhooks, one after the other, what to change. Those that want it are asked again about later changes."""

    name = "MutatingAdmissionWebhook"

    async def mutate(
        self, request: AdmissionRequest, new: Tree | None, old: Tree | None, offload: Offload
    ) -> Tree | None:
        asked: set[ConfiguredWebhook] = set()
        again: set[ConfiguredWebhook] = set()
        shared = ReviewedRequest(request.ctx, offload)
        for number, match in enumerate(_matching(self._hooks(), request)):
            before = new
            new = await self._asked(_Turn(match, 0, number, asked, shared), request, _Pair(new, old), offload)
            if new is not before:
                again |= {hook for hook in asked if hook.again and hook is not match.hook}
        if again:
            for number, match in enumerate(_matching(self._hooks(), request)):
                if match.hook in again:
                    new = await self._asked(_Turn(match, 1, number, asked, shared), request, _Pair(new, old), offload)
        return new

    async def validate(
        self, request: AdmissionRequest, new: Tree | None, old: Tree | None, offload: Offload, hub: Hub = NOT_AT_HAND
    ) -> None:
        return

    async def _asked(self, turn: _Turn, request: AdmissionRequest, objects: _Pair, offload: Offload) -> Tree | None:
        """The object after one webhook."""
        match, notes = turn.match, request.ctx.notes
        if not self._selects(match.hook, request, objects):
            return objects.new
        question = await self._question(match, turn.shared, request, objects, offload)
        if question is None:
            return objects.new
        turn.asked.add(match.hook)
        place = f"round_{turn.round}_index_{turn.number}"
        patch = await self._answer(match, question, request, offload)
        if patch is None:
            notes.audit(f"failed-open.mutation.webhook.admission.k8s.io/{place}", match.hook.name)
            return objects.new
        new = await _patched(match, question, objects.new, patch, offload)
        changed = new is not objects.new
        note = {"configuration": match.hook.configuration, "webhook": match.hook.name, "mutated": changed}
        notes.audit(f"mutation.webhook.admission.k8s.io/{place}", json.encode(note).decode())
        return new


@dataclass(frozen=True, slots=True)
class _Turn:
    """One question of a round; `asked` are the webhooks that have been asked."""

    match: WebhookMatch
    round: int
    number: int
    asked: set[ConfiguredWebhook]
    shared: ReviewedRequest


async def _patched(match: WebhookMatch, asked: _Asked, new: Tree | None, patch: bytes, offload: Offload) -> Tree | None:
    """The object with the patch that a webhook answered with; itself if that changes nothing."""
    if not patch:
        return new
    shown = asked.shown.new
    try:
        operations = json_patch.parse(patch)
        if not operations:
            return new
        if new is None or shown is None:
            why = "attempted to modify the object, which is not supported for this operation"
            raise InternalError(f"admission webhook {quote(match.hook.name)} {why}")
        patched: Any = await offload(json_patch.apply, shown, operations)
    except PatchFormatError as error:
        raise InternalError(f"error decoding patch: {error}") from None
    except PatchError as error:
        raise InternalError(_path_quoted(str(error))) from None
    if patched == shown:
        return new
    if not isinstance(patched, dict) or ("metadata" in shown and not isinstance(patched.get("metadata"), dict)):
        raise InternalError(f"admission webhook {quote(match.hook.name)} has made something else of the object")
    patched["apiVersion"], patched["kind"] = shown.get("apiVersion"), shown.get("kind")
    try:
        return await asked.reviewed.changed(new, shown, patched, match)
    except StatusError:
        raise
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        why = f"has made something of the object that can't be converted: {error}"
        raise InternalError(f"admission webhook {quote(match.hook.name)} {why}") from None


def _matching(hooks: WebhookSet, request: AdmissionRequest) -> tuple[WebhookMatch, ...]:
    target = request.ctx.target
    kind = RequestKind(
        request.operation, target.group, target.version, target.resource, target.subresource, bool(target.namespace)
    )
    return hooks.matching(kind, request.served.definition)


def _place(request: AdmissionRequest, objects: _Pair, *, final: bool) -> tuple[str, str]:
    """The namespace and name that a review says. A namespace is in itself; of a collection no names are said.

    A generated name is said of the `final` object only.
    """
    target = request.ctx.target
    name = target.name
    if not name and request.operation == "CREATE" and objects.new is not None:
        metadata = objects.new.get("metadata") or {}
        if final or not _is_generated(metadata):
            name = metadata.get("name") or ""
    if target.verb == "deletecollection":
        name = ""
    return target.namespace or (name if target.group_resource == _NAMESPACES else ""), name


def _is_generated(metadata: Tree) -> bool:
    base, name = (metadata.get("generateName") or "")[:MOST_OF_BASE], metadata.get("name") or ""
    return bool(base) and name.startswith(base) and len(name) == len(base) + SUFFIX


def _path_quoted(text: str) -> str:
    """What is wrong with a patch, in the words of Kubernetes' admission, where a path is quoted."""
    head, missing, path = text.partition("doc is missing path: ")
    return f"{head}{missing}{quote(path)}: missing value" if missing else text


def _labels(tree: Tree) -> Labels:
    labels = (tree.get("metadata") or {}).get("labels")
    return labels if isinstance(labels, dict) else {}
