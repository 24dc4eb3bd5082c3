"""`MutatingAdmissionWebhook` and `ValidatingAdmissionWebhook`: the members of the admission chain that call webhooks.

Mutating ones are called one after the other, each with what the one before has made; validating ones concurrently.
See also: `rules`, which are called.
Source: k8s.io/apiserver ``admission/plugin/webhook/mutating`` and ``webhook/validating``.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from time import perf_counter
from typing import Any, Protocol

from oarlock.client.informers.remote_objects import ObjectLog
from oarlock.client.webhooks import WebhookError, WebhookTarget
from oarlock.codec import json
from oarlock.meta.context import Context
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import Forbidden, InternalError, StatusError, Timeout, TooManyRequests
from oarlock.meta.go.gotext import quote
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupResource
from oarlock.patch import json_patch
from oarlock.patch.errors import PatchError, PatchFormatError
from oarlock.policy.admission.chain import Mutating, Reinvocable, ReinvokedPlugin, ValidatingPlugin
from oarlock.policy.admission.counts import AdmissionCounts, CallLabels, ErrorType
from oarlock.policy.admission.expressions import ExpressionRunner, ReviewedRequest, UndecidedConditions
from oarlock.policy.admission.webhooks.review import (
    BadWebhookAnswer,
    RefusedByWebhook,
    WebhookAnswer,
    about_request,
    answer_of,
    question,
)
from oarlock.policy.admission.webhooks.rules import (
    ConfiguredWebhook,
    RequestKind,
    ReviewedObjects,
    WebhookMatch,
    WebhookSet,
    is_asked,
    reviewed_place,
)
from oarlock.registry.workers import Offload
from oarlock.registry.write.write_request import NOT_AT_HAND, AdmissionRequest, Hub

Objects = tuple[Tree | None, Tree | None]
"""The new and the old object."""

log = logging.getLogger("oarlock.admission")
SPARE_BYTES = 1024 * 1024
GROWTH = 8
"""An answer may have so many times the bytes of the question, and `SPARE_BYTES`."""

_failures = ObjectLog(log)


class WebhookFailure(Exception):
    """A webhook has given no answer that can be used. `refusal` is what that means unless it is ignored.

    `code` is what it is counted as: that of the answer, 503 without one.
    """

    def __init__(self, refusal: StatusError, code: int = 503) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal
        self.code = code


class WebhookCaller(Protocol):
    """Sends a body to a webhook."""

    async def post(self, target: WebhookTarget, body: bytes, *, timeout_s: float, most_bytes: int) -> bytes:
        """The body of a successful answer. Raises WebhookError; ends after `timeout_s`."""
        ...


async def ask(
    hook: ConfiguredWebhook,
    caller: WebhookCaller,
    about: Tree,
    objects: Objects,
    ctx: Context,
    offload: Offload,
) -> WebhookAnswer:
    """What the webhook answers. What it says besides (warnings, audit annotations) is noted. Raises WebhookFailure, and
    StatusError if there is no time left to ask."""
    left = ctx.deadline - ctx.clock.monotonic()
    if left <= 0:
        raise Timeout("request did not complete within requested timeout")
    timeout_s = hook.timeout_s if left >= hook.timeout_s else left
    uid = str(uuid.uuid4())
    mutating = hook.mutating
    try:
        body = await offload(question, hook.review_version, uid, about, objects, ctx)
        most = SPARE_BYTES + GROWTH * len(body)
        data = await caller.post(hook.target, body, timeout_s=timeout_s, most_bytes=most)
        answer = await offload(_answer, data, hook.review_version, uid, mutating)
    except WebhookError as error:
        if error.busy:
            why = f"admission webhook {quote(hook.name)}: {error}"
            raise WebhookFailure(TooManyRequests(why, retry_after_s=1), 429) from None
        raise failed(hook, f"failed to call webhook: {error}", error.code or 503) from None
    except BadWebhookAnswer as error:
        raise failed(hook, str(error)) from None
    for key, value in answer.annotations.items():
        ctx.notes.audit(f"{hook.name}/{key}", value)
    for text in answer.warnings:
        ctx.warn(text)
    return answer


def leave_out(hook: ConfiguredWebhook, failure: WebhookFailure, ctx: Context) -> None:
    """Log that the webhook failed, and go on without it. Raises StatusError if that refuses the request."""
    why = failure.refusal.message
    _failures.warn(f"{hook.configuration}/{hook.name}", (why[:200],), why)
    if hook.fails:
        raise failure.refusal
    if ctx.clock.monotonic() >= ctx.deadline:
        raise Timeout("request did not complete within requested timeout")


def _answer(data: bytes, version: str, uid: str, mutating: bool) -> WebhookAnswer:
    return answer_of(data, version, uid, may_patch=mutating)


def failed(hook: ConfiguredWebhook, why: str, code: int = 503) -> WebhookFailure:
    return WebhookFailure(InternalError(f"failed calling webhook {quote(hook.name)}: {why}"), code)


ObjectLabels = Mapping[str, str]
_NAMESPACES = GroupResource("", "namespaces")


@dataclass(frozen=True, slots=True)
class _Pair:
    """The new and the old object, in the version of the request."""

    new: Tree | None
    old: Tree | None


class _WebhookPlugin:
    """The base of both plugins. `hooks` are those that are configured now; `labels_of` gives the labels of a namespace.

    `runner` runs their match conditions, and calls are counted in `counts`.
    """

    waits = True
    step = "admit"

    def __init__(
        self,
        hooks: Callable[[], WebhookSet],
        caller: WebhookCaller,
        labels_of: Callable[[str], ObjectLabels],
        runner: ExpressionRunner,
        counts: AdmissionCounts,
    ) -> None:
        self._counts = counts
        self._hooks = hooks
        self._caller = caller
        self._labels_of = labels_of
        self._runner = runner

    def handles(self, request: AdmissionRequest) -> bool:
        hooks = self._hooks()
        return bool(hooks.hooks) and bool(_matching(hooks, request))

    def _selected(self, request: AdmissionRequest, objects: _Pair) -> list[WebhookMatch]:
        """The webhooks that the rules and selectors name."""
        return [match for match in _matching(self._hooks(), request) if self._selects(match.hook, request, objects)]

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
        place = reviewed_place(request, objects.new, final=not match.hook.mutating)
        new = await reviewed.new_shown(objects.new, objects.old, match.version, place)
        old = await reviewed.shown(objects.old, match.version)
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

    async def _answer(self, match: WebhookMatch, asked: _Asked, request: AdmissionRequest, offload: Offload) -> bytes:
        """The patch that the webhook answers with. Raises what refuses, and WebhookFailure."""
        hook, pair = match.hook, asked.shown
        answer = await ask(hook, self._caller, asked.about, (pair.new, pair.old), request.ctx, offload)
        if not answer.allowed:
            raise RefusedByWebhook(hook.name, answer.status)
        return answer.patch

    @contextmanager
    def _counted(self, hook: ConfiguredWebhook, request: AdmissionRequest, failed_open: str) -> Iterator[None]:
        """Counts a call, and swallows a failure that is ignored: that is noted under `failed_open`."""
        call, began = CallLabels(hook.name, self.step, request.operation), perf_counter()
        code = 200
        rejected: ErrorType | None = None
        try:
            yield
        except WebhookFailure as failure:
            code, rejected = failure.code, "calling_webhook_error" if hook.fails else None
            if not hook.fails:
                self._counts.failed_open(call)
                request.ctx.notes.audit(failed_open, hook.name)
            leave_out(hook, failure, request.ctx)
        except RefusedByWebhook as refusal:
            code, rejected = refusal.code, "no_error"
            raise
        except StatusError:
            code, rejected = 0, "apiserver_internal_error"
            raise
        finally:
            self._counts.called(call, perf_counter() - began, code, rejected)


@dataclass(frozen=True, slots=True)
class _Asked:
    """One question: what it is about, and the objects as the webhook is shown them."""

    reviewed: ReviewedObjects
    about: Tree
    shown: _Pair


class ValidatingAdmissionWebhook(_WebhookPlugin, ValidatingPlugin):
    """Asks webhooks, all at once, whether the final object may be written. The refusal of the first is reported."""

    name = "ValidatingAdmissionWebhook"
    step = "validating"

    async def validate(
        self, request: AdmissionRequest, new: Tree | None, old: Tree | None, offload: Offload, hub: Hub = NOT_AT_HAND
    ) -> None:
        pair, shared = _Pair(new, old), ReviewedRequest(request.ctx, offload)
        questions: list[tuple[int, WebhookMatch, _Asked]] = []
        for match in self._selected(request, pair):
            asked = await self._question(match, shared, request, pair, offload)
            if asked is not None:
                questions.append((len(questions), match, asked))
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
        key = f"failed-open.validating.webhook.admission.k8s.io/round_0_index_{at}"
        with self._counted(match.hook, request, key):
            await self._answer(match, asked, request, offload)


class MutatingAdmissionWebhook(_WebhookPlugin, ReinvokedPlugin):
    """Asks webhooks, one after the other, what to change. Those that want it are asked again about later changes."""

    name = "MutatingAdmissionWebhook"

    def mutating(self, request: AdmissionRequest, offload: Offload) -> Mutating:
        return _Asking(self, request, offload)

    async def validate(
        self, request: AdmissionRequest, new: Tree | None, old: Tree | None, offload: Offload, hub: Hub = NOT_AT_HAND
    ) -> None:
        return

    async def asked(
        self, request: AdmissionRequest, rounds: _Rounds, objects: _Pair, offload: Offload, *, again: bool
    ) -> Tree | None:
        """The object after one round of all webhooks."""
        asked, new = rounds.asked, objects.new
        asked.begin(new, again=again)
        for match in _matching(self._hooks(), request):
            if not asked.due(match.hook, again=again):
                continue
            before, turn = new, _Turn(match, int(again), rounds)
            new = await self._asked(turn, request, _Pair(new, objects.old), offload)
            if new is not before:
                asked.changed()
            if turn.done and match.hook.again:
                asked.asked(match.hook)
        asked.end(new)
        return new

    async def _asked(self, turn: _Turn, request: AdmissionRequest, objects: _Pair, offload: Offload) -> Tree | None:
        """The object after one webhook."""
        match, hook, notes = turn.match, turn.match.hook, request.ctx.notes
        if not self._selects(match.hook, request, objects):
            return objects.new
        question = await self._question(match, turn.rounds.shared, request, objects, offload)
        if question is None:
            return objects.new
        turn.done = True
        place, new = f"webhook.admission.k8s.io/round_{turn.round}_index_{match.place}", objects.new
        about = {"configuration": hook.configuration, "webhook": hook.name}
        try:
            with self._counted(hook, request, f"failed-open.mutation.{place}"):
                patch = _WebhookPatch.of(hook, await self._answer(match, question, request, offload))
                if patch is not None:
                    new = await _patched(match, question, objects.new, patch.operations, offload)
                    text = json.encode({**about, "patch": patch.tree, "patchType": "JSONPatch"}).decode()
                    notes.audit(f"patch.{place}", text, detailed=True)
        finally:
            text = json.encode({**about, "mutated": new is not objects.new}).decode()
            notes.audit(f"mutation.{place}", text)
        return new


@dataclass(slots=True)
class _Rounds:
    """What is remembered of a request from round to round."""

    shared: ReviewedRequest
    asked: Reinvocable[ConfiguredWebhook] = field(default_factory=Reinvocable)


class _Asking:
    """Asks about one request, up to twice."""

    __slots__ = ("_plugin", "_request", "_rounds")

    def __init__(self, plugin: MutatingAdmissionWebhook, request: AdmissionRequest, offload: Offload) -> None:
        self._plugin = plugin
        self._request = request
        self._rounds = _Rounds(ReviewedRequest(request.ctx, offload))

    async def mutate(self, new: Tree | None, old: Tree | None, offload: Offload, *, again: bool) -> Tree | None:
        return await self._plugin.asked(self._request, self._rounds, _Pair(new, old), offload, again=again)


@dataclass(slots=True)
class _Turn:
    """One question of a round; `done` when the webhook was asked."""

    match: WebhookMatch
    round: int
    rounds: _Rounds
    done: bool = False


@dataclass(frozen=True, slots=True)
class _WebhookPatch:
    """The patch of a webhook: as operations, and as the audit log shows it."""

    operations: json_patch.Patch
    tree: Any

    @staticmethod
    def of(hook: ConfiguredWebhook, patch: bytes) -> _WebhookPatch | None:
        """None if it has no operations. Raises WebhookFailure."""
        if not patch:
            return None
        try:
            operations = json_patch.parse(patch)
        except PatchFormatError as error:
            raise failed(hook, f"received undecodable patch in webhook response: {error}") from None
        if not operations:
            return None
        return _WebhookPatch(operations, [dict(sorted(operation.items())) for operation in json.decode(patch)])


async def _patched(
    match: WebhookMatch,
    asked: _Asked,
    new: Tree | None,
    operations: json_patch.Patch,
    offload: Offload,
) -> Tree | None:
    """The object with the patch that a webhook answered with; itself if that changes nothing."""
    shown = asked.shown.new
    if new is None or shown is None:
        why = "attempted to modify the object, which is not supported for this operation"
        raise InternalError(f"admission webhook {quote(match.hook.name)} {why}")
    try:
        patched: Any = await offload(json_patch.apply, shown, operations)
    except PatchError as error:
        raise InternalError(_path_quoted(str(error))) from None
    if patched == shown:
        return new
    if not isinstance(patched, dict) or ("metadata" in shown and not isinstance(patched.get("metadata"), dict)):
        raise InternalError(f"admission webhook {quote(match.hook.name)} has made something else of the object")
    patched["apiVersion"], patched["kind"] = shown.get("apiVersion"), shown.get("kind")
    try:
        return await asked.reviewed.changed(new, shown, patched, match.version)
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


def _path_quoted(text: str) -> str:
    """What is wrong with a patch, in the words of Kubernetes' admission, where a path is quoted."""
    head, missing, path = text.partition("doc is missing path: ")
    return f"{head}{missing}{quote(path)}: missing value" if missing else text


def _labels(tree: Tree) -> ObjectLabels:
    labels = (tree.get("metadata") or {}).get("labels")
    return labels if isinstance(labels, dict) else {}
