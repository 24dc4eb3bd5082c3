"""The AdmissionReview that a webhook is sent, and the checks of what it answers.

Must not know: HTTP, which webhooks are asked. See also: `asking`, which sends it.
Source: admission.k8s.io/v1 and v1beta1; k8s.io/apiserver ``admission/plugin/webhook/request``.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from oarlock.codec import json
from oarlock.codec.errors import DecodeError
from oarlock.meta.context import Context
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import StatusError
from oarlock.meta.go.gotext import quote
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupVersionKind
from oarlock.policy.admission.request_parts import options_tree, user_tree

GROUP = "admission.k8s.io"
REVIEW_VERSIONS = ("v1", "v1beta1")
"""The versions of reviews that are spoken here."""

SHOWN = 1024
"""How much of a webhook's own text is shown."""

MOST_NOTES = 100
"""The most warnings, and the most audit annotations, that are taken of one answer."""

_GO_TYPE = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'


class BadWebhookAnswer(Exception):
    """The answer to a review can't be used. The text says why."""


class RefusedByWebhook(StatusError):
    """A webhook refuses a request, with the code, reason and details that it gave."""

    def __init__(self, name: str, status: Any) -> None:
        given: Mapping[str, Any] = status if isinstance(status, dict) else {}
        text, reason, details = given.get("message"), given.get("reason"), given.get("details")
        self.reason = reason if isinstance(reason, str) else ""
        why = text if isinstance(text, str) and text else self.reason
        head = f"admission webhook {quote(name)} denied the request"
        super().__init__(f"{head}: {why}" if why else f"{head} without explanation")
        self.details = details if isinstance(details, dict) else None
        code = given.get("code")
        self.code = code if isinstance(code, int) and 400 <= code <= 599 else 400


@dataclass(frozen=True, slots=True)
class WebhookAnswer:
    """What a webhook has answered. `patch` is a JSON patch, empty if it changes nothing."""

    allowed: bool
    status: Any
    patch: bytes
    warnings: tuple[str, ...]
    annotations: Mapping[str, str]


# The question -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReviewedKind:
    """A kind and its resource as reviews name them."""

    kind: GroupVersionKind
    group: str
    version: str
    resource: str

    def trees(self) -> tuple[Tree, Tree]:
        kind = self.kind
        return (
            {"group": kind.group, "version": kind.version, "kind": kind.kind},
            {"group": self.group, "version": self.version, "resource": self.resource},
        )


def about_request(
    ctx: Context, operation: str, place: tuple[str, str], sent: ReviewedKind, asked: ReviewedKind
) -> Tree:
    """The request of a review without uid, objects and options. `place` is namespace and name; what isn't there is left
    out. `asked` is what the user asked for, and `sent` what the webhook is sent."""
    target = ctx.target
    kind, resource = sent.trees()
    request_kind, request_resource = asked.trees()
    tree: Tree = {"kind": kind, "resource": resource}
    if target.subresource:
        tree["subResource"] = target.subresource
    tree["requestKind"], tree["requestResource"] = request_kind, request_resource
    if target.subresource:
        tree["requestSubResource"] = target.subresource
    namespace, name = place
    if name:
        tree["name"] = name
    if namespace:
        tree["namespace"] = namespace
    tree["operation"] = operation
    tree["userInfo"] = user_tree(ctx.user)
    tree["dryRun"] = ctx.dry_run
    return tree


def question(version: str, uid: str, about: Tree, objects: tuple[Tree | None, Tree | None], ctx: Context) -> bytes:
    """The body of a request to a webhook. `objects` are the new and the old one."""
    operation = about["operation"]
    request = {"uid": uid, **about, "object": objects[0], "oldObject": objects[1]}
    request["options"] = options_tree(ctx, operation)
    if operation == "CONNECT":
        request["object"] = _connection(ctx, about["kind"])
    return json.encode({"kind": "AdmissionReview", "apiVersion": f"{GROUP}/{version}", "request": request})


def _connection(ctx: Context, kind: Tree) -> Tree:
    """What a connection is asked for, as Kubernetes' options of its subresource are: ``PodExecOptions``."""
    version = "/".join(filter(None, (kind["group"], kind["version"])))
    given = ctx.options if isinstance(ctx.options, Mapping) else {}
    return {"kind": kind["kind"], "apiVersion": version, **given}


# The answer ---------------------------------------------------------------------------------------


def answer_of(data: bytes, version: str, uid: str, *, may_patch: bool) -> WebhookAnswer:
    """The answer, if it is one to this question. Raises BadWebhookAnswer."""
    review = _review(data)
    response = review.get("response")
    if not isinstance(response, dict):
        raise _invalid("webhook response was absent")
    if version == "v1":
        got = _text(response.get("uid"))
        if got != uid:
            raise _invalid(f"expected response.uid={quote(uid)}, got {quote(got)}")
    expected = f"{GROUP}/{version}, Kind=AdmissionReview"
    named = f"{_text(review.get('apiVersion'))}, Kind={_text(review.get('kind'))}"
    if named != expected:
        raise _invalid(f"expected webhook response of {expected}, got {named}")
    allowed = response.get("allowed", False)
    if not isinstance(allowed, bool):
        raise _unreadable(f"response.allowed is {_text(allowed)}, not true or false")
    return WebhookAnswer(
        allowed,
        response.get("status"),
        _patch(response, version, may_patch=may_patch),
        tuple(warning for warning in _list(response, "warnings") if isinstance(warning, str))[:MOST_NOTES],
        _annotations(response),
    )


def _review(data: bytes) -> Tree:
    try:
        review = json.decode(data)
    except DecodeError as error:
        raise _unreadable(f"couldn't get version/kind; json parse error: {error}") from None
    if not isinstance(review, dict):
        what = {str: "string", bool: "bool", list: "array"}.get(type(review), "number")
        why = f"json: cannot unmarshal {what} into Go value of type {_GO_TYPE}"
        raise _unreadable(f"couldn't get version/kind; json parse error: {why}")
    return review


def _patch(response: Tree, version: str, *, may_patch: bool) -> bytes:
    given, kind = response.get("patch"), response.get("patchType")
    if not may_patch:
        for field, value in (("patch", given), ("patchType", kind)):
            if value:
                raise _invalid(f"validating webhook may not return response.{field}")
        return b""
    if given and not kind and version != "v1":
        kind = "JSONPatch"
    if given and not kind:
        raise _invalid("webhook returned response.patch but not response.patchType")
    if kind and not given:
        raise _invalid("webhook returned response.patchType but not response.patch")
    if kind and kind != "JSONPatch":
        raise _invalid(f"webhook returned invalid response.patchType of {quote(_text(kind))}")
    if not given:
        return b""
    try:
        return base64.b64decode(given, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise _unreadable("response.patch is not base64") from None


def _annotations(response: Tree) -> dict[str, str]:
    given = response.get("auditAnnotations") or {}
    if not isinstance(given, dict):
        raise _unreadable("response.auditAnnotations is not an object")
    return {key: value for key, value in [*given.items()][:MOST_NOTES] if isinstance(value, str)}


def _list(response: Tree, field: str) -> list[Any]:
    given = response.get(field) or []
    if not isinstance(given, list):
        raise _unreadable(f"response.{field} is not a list")
    return given


def _text(value: Any) -> str:
    """A text of the webhook, as much of it as is shown."""
    return str(value)[:SHOWN] if value else ""


def _unreadable(why: str) -> BadWebhookAnswer:
    return BadWebhookAnswer(f"failed to call webhook: {why}")


def _invalid(why: str) -> BadWebhookAnswer:
    return BadWebhookAnswer(f"received invalid webhook response: {why}")
