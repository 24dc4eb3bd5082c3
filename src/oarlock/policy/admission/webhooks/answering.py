"""Answers AdmissionReviews: the other side of `review`, for clusters that ask this process about their objects.

A mutating review runs `default()`, plugins that change objects, and `prepare`; its answer is a JSON patch. A validating
one runs `validate` and plugins that refuse. Hooks can't tell where an object is kept: their context is made of the
review, with the user who asked the cluster.
Must not know: HTTP. See also: ``registry.write.review``, which runs the code.
Source: admission.k8s.io/v1 and v1beta1.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import msgspec

from oarlock.codec import json
from oarlock.codec.errors import DecodeError
from oarlock.meta.context import Context, Notes, Target, User
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import BadRequest, InvalidObject, StatusError
from oarlock.meta.fielderrors import FieldError
from oarlock.meta.json_trees import Tree
from oarlock.meta.options import CreateOptions, FieldValidation, UpdateOptions
from oarlock.meta.options_parse import delete_options_from_tree
from oarlock.patch.json_patch import difference
from oarlock.policy.admission.chain import AdmissionChain, AdmissionPlugin
from oarlock.policy.admission.counts import AdmissionCounts
from oarlock.policy.admission.plugin import Admission
from oarlock.policy.admission.typed import TypedPlugin
from oarlock.policy.admission.webhooks.review import GROUP, REVIEW_VERSIONS
from oarlock.registry.workers import offload_bytes
from oarlock.registry.write.review import ReviewedResource
from oarlock.registry.write.write_request import Gate, HookedRequest

KIND: Final = "AdmissionReview"
_VERBS: Final = {"CREATE": "create", "UPDATE": "update", "DELETE": "delete"}
_VALIDATIONS: Final[Mapping[Any, FieldValidation]] = {"Ignore": "Ignore", "Warn": "Warn", "Strict": "Strict"}

Step = Literal["mutate", "validate"]


@dataclass(frozen=True, slots=True)
class AskedReview:
    """The question of a review; `version` is that of the review itself, `offload_bytes` that of its bytes."""

    version: str
    request: Tree
    offload_bytes: int

    @property
    def resource(self) -> tuple[str, str]:
        """Group and plural of the resource that it is about."""
        named = _dict(self.request, "resource")
        return _text(named, "group"), _text(named, "resource")

    def tree(self, field: str) -> Tree | None:
        """An object in the review, None without one. Raises BadRequest."""
        tree = self.request.get(field)
        if tree is None:
            return None
        if not isinstance(tree, dict) or not isinstance(tree.get("metadata"), dict):
            raise BadRequest(f"the review's request.{field} is no object with metadata")
        return tree


def asked_review(data: bytes) -> AskedReview:
    """The question in a body. Raises BadRequest."""
    try:
        review = json.decode(data)
    except DecodeError as error:
        raise BadRequest(f"the body is no {KIND}: {error}") from None
    named = review.get("apiVersion") if isinstance(review, dict) else None
    version = next((known for known in REVIEW_VERSIONS if named == f"{GROUP}/{known}"), "")
    if not version or review.get("kind") != KIND:
        raise BadRequest(f"the body is no {KIND} of {GROUP}/{' or '.join(REVIEW_VERSIONS)}")
    request = review.get("request")
    if not isinstance(request, dict) or not request.get("uid"):
        raise BadRequest(f"the {KIND} has no request with a uid")
    return AskedReview(version, request, offload_bytes(data))


class AdmissionReviews:
    """Answers reviews about `resources`; `plugins` are asked as in a server, and counted in `counts`."""

    def __init__(
        self,
        resources: Iterable[ReviewedResource],
        plugins: Iterable[Admission[Any] | AdmissionPlugin],
        counts: AdmissionCounts,
    ) -> None:
        self._gate = AdmissionChain(map(_member, plugins), None, counts)
        self._resources = {
            (resource.definition.group, resource.definition.names.plural): resource for resource in resources
        }

    async def answer(self, step: Step, data: bytes, asked: Context) -> bytes:
        """The body of the answer. `asked` is the context of the request that brought `data`. Raises BadRequest."""
        review = asked_review(data)
        resource = self._resources.get(review.resource)
        if resource is None:
            group, plural = review.resource
            raise BadRequest(f"the review is about {plural}.{group}, of which nothing is known here")
        return await _answered(step, review, resource, self._gate, _context(review, resource, asked))


def _member(plugin: Admission[Any] | AdmissionPlugin) -> AdmissionPlugin:
    return TypedPlugin(plugin) if isinstance(plugin, Admission) else plugin


async def _answered(step: Step, review: AskedReview, resource: ReviewedResource, gate: Gate, ctx: Context) -> bytes:
    response: Tree = {"uid": review.request["uid"], "allowed": True}
    definition, target, operation = resource.definition, ctx.target, review.request["operation"]
    new, old = review.tree("object"), review.tree("oldObject")
    request = resource.request(ctx, definition.version_in(target.group, target.version), gate, operation)
    request.set_offload_bytes(review.offload_bytes)
    try:
        if target.subresource == "scale":
            pass  # what is reviewed is a Scale
        elif step == "validate":
            await resource.check(request, new, old)
        else:
            response |= await _patch(request, await resource.mutated(request, new, old))
    except FieldError as error:
        _refuse(response, InvalidObject(ctx.target.group_kind, ctx.target.name, [error]))
    except StatusError as error:
        _refuse(response, error.about(ctx.target))
    if ctx.notes.warnings:
        response["warnings"] = list(ctx.notes.warnings)
    if ctx.notes.annotations:
        # the cluster puts the webhook's name and a slash before each key, and takes no second slash
        response["auditAnnotations"] = {key.rpartition("/")[2]: value for key, value in ctx.notes.annotations}
    return json.encode({"kind": KIND, "apiVersion": f"{GROUP}/{review.version}", "response": response})


async def _patch(request: HookedRequest, made: tuple[Tree, Tree] | None) -> Tree:
    operations = [] if made is None else await request.offload(difference, *made)
    if not operations:
        return {}
    return {"patchType": "JSONPatch", "patch": base64.b64encode(json.encode(operations)).decode()}


def _refuse(response: Tree, error: StatusError) -> None:
    response["allowed"] = False
    response["status"] = error.status()


def _context(review: AskedReview, resource: ReviewedResource, asked: Context) -> Context:
    """The context of the request that is reviewed. Raises BadRequest."""
    request, definition = review.request, resource.definition
    operation, named = request.get("operation"), _dict(request, "resource")
    version, subresource = _text(named, "version"), _text(request, "subResource")
    if operation not in _VERBS:
        raise BadRequest(f"the review's operation is {operation!r:.40}: reviews of {', '.join(_VERBS)} are answered")
    group, plural = review.resource
    if not any(definition.version_in(group, version) == known.name for known in definition.versions):
        raise BadRequest(f"the review is about {plural}.{version}.{group}, and there is no such version")
    if (
        subresource
        and subresource != "scale"
        and subresource not in resource.parts[definition.version_in(group, version)]
    ):
        raise BadRequest(f"the review is about {plural}/{subresource}, and there is no such subresource")
    target = Target(
        verb=_VERBS[operation],
        group=group,
        version=version,
        resource=plural,
        subresource=subresource,
        namespace=_text(request, "namespace"),
        name=_text(request, "name"),
        kind=definition.names.kind,
    )
    return msgspec.structs.replace(
        asked,
        user=_user(_dict(request, "userInfo")),
        target=target,
        options=_options(operation, _dict(request, "options")),
        dry_run=bool(request.get("dryRun")),
        notes=Notes(),
        user_agent="",
    )


def _options(operation: str, given: Mapping[str, Any]) -> Any:
    if operation == "DELETE":
        return delete_options_from_tree(given)
    made = CreateOptions if operation == "CREATE" else UpdateOptions
    validation = _VALIDATIONS.get(given.get("fieldValidation"), "Warn")
    return made(bool(given.get("dryRun")), _text(given, "fieldManager"), validation)


def _user(given: Mapping[str, Any]) -> User:
    extra = _dict(given, "extra")
    values = {key: tuple(map(str, several)) for key, several in extra.items() if isinstance(several, list)}
    groups = given.get("groups")
    return User(
        _text(given, "username"),
        _text(given, "uid"),
        tuple(map(str, groups)) if isinstance(groups, list) else (),
        values,
    )


def _dict(tree: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    found = tree.get(field)
    return found if isinstance(found, dict) else {}


def _text(tree: Mapping[str, Any], field: str) -> str:
    found = tree.get(field)
    return found if isinstance(found, str) else ""
