"""`WebhookCaller`, what sends a review to a webhook, and `ask`: one question, and an answer that can be used.

See also: `review`, what is sent; ``client.webhooks``, which implements `WebhookCaller`.
"""

from __future__ import annotations

import logging
import uuid
from typing import Protocol

from oarlock.client.informers.remote_objects import ObjectLog
from oarlock.client.webhooks import WebhookError, WebhookTarget
from oarlock.meta.context import Context
from oarlock.meta.errors import InternalError, StatusError, Timeout, TooManyRequests
from oarlock.meta.go.gotext import quote
from oarlock.meta.json_trees import Tree
from oarlock.policy.admission.webhooks.review import BadWebhookAnswer, WebhookAnswer, answer_of, question
from oarlock.policy.admission.webhooks.rules import ConfiguredWebhook
from oarlock.registry.workers import Offload

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
