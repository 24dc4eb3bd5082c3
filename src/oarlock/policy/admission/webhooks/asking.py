"""`WebhookCaller`, what sends a review to a webhook, and `ask`: one question, and an answer that can be used.

See also: `review`, what is sent; ``client.webhook_calls``, which implements `WebhookCaller`.
"""

from __future__ import annotations

import logging
import uuid
from typing import Any, Protocol

from oarlock.client.object_log import ObjectLog
from oarlock.client.webhook_calls import WebhookError, WebhookTarget
from oarlock.meta.context import Context
from oarlock.meta.errors import InternalError, StatusError, Timeout, TooManyRequests
from oarlock.meta.gotext import quote
from oarlock.policy.admission.webhooks.review import BadWebhookAnswer, WebhookAnswer, answer_of, question
from oarlock.policy.admission.webhooks.rules import ConfiguredWebhook
from oarlock.registry.workers import Offload

__all__ = ["WebhookCaller", "ask"]

Tree = dict[str, Any]
Objects = tuple[Tree | None, Tree | None]
"""The new and the old object."""

log = logging.getLogger("oarlock.admission")

SPARE_BYTES = 1024 * 1024
GROWTH = 8
"""An answer may have so many times the bytes of the question, and `SPARE_BYTES`."""

_failures = ObjectLog(log)


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
) -> WebhookAnswer | None:
    """What the webhook answers; None if it failed and its failurePolicy is Ignore.

    What it says besides (warnings, audit annotations) is noted. Raises StatusError if it failed and that refuses.
    """
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
        failure: StatusError
        if error.busy:
            failure = TooManyRequests(f"admission webhook {quote(hook.name)}: {error}", retry_after_s=1)
        else:
            failure = _failure(hook, f"failed to call webhook: {error}")
    except BadWebhookAnswer as error:
        failure = _failure(hook, str(error))
    else:
        for key, value in answer.annotations.items():
            ctx.notes.audit(f"{hook.name}/{key}", value)
        for text in answer.warnings:
            ctx.warn(text)
        return answer
    _failures.warn(f"{hook.configuration}/{hook.name}", (failure.message[:200],), failure.message)
    if hook.fails:
        raise failure
    if ctx.clock.monotonic() >= ctx.deadline:
        raise Timeout("request did not complete within requested timeout")
    return None


def _answer(data: bytes, version: str, uid: str, mutating: bool) -> WebhookAnswer:
    return answer_of(data, version, uid, may_patch=mutating)


def _failure(hook: ConfiguredWebhook, why: str) -> InternalError:
    return InternalError(f"failed calling webhook {quote(hook.name)}: {why}")
