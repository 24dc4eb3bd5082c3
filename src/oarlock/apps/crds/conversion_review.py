"""`ConversionReview`: what a conversion webhook is asked, and the checks of what it answers.

`AskedConversion` is the same from the webhook's side.

A webhook may change everything of an object but its identity. Of the metadata labels and annotations are taken; the
rest stays as it was. Must not know: HTTP, where the webhook is. See also: `conversion`.
Source: apiextensions.k8s.io/v1 and v1beta1 ConversionReview.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oarlock.codec import json
from oarlock.codec.errors import DecodeError
from oarlock.meta import names
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import BadRequest
from oarlock.meta.go.gotext import quote
from oarlock.meta.json_trees import Tree

GROUP = "apiextensions.k8s.io"
KIND = "ConversionReview"
REVIEW_VERSIONS = ("v1", "v1beta1")
"""The versions of reviews that are spoken here."""

SHOWN = 1024
"""How much of a webhook's own text is shown."""

_IDENTITY = (("name", "name"), ("namespace", "namespace"), ("uid", "UID"))
_CHANGEABLE = ("labels", "annotations")


class ReviewError(Exception):
    """The answer to a review can't be used. The text goes on the sentence "conversion webhook for KIND".

    `of_all`: it says nothing about the single objects.
    """

    def __init__(self, why: str, *, of_all: bool = False) -> None:
        super().__init__(why)
        self.of_all = of_all


def review_version(accepted: Sequence[str]) -> str:
    """The version of the reviews for a webhook that accepts these: the first that is spoken here."""
    return next((version for version in accepted if version in REVIEW_VERSIONS), REVIEW_VERSIONS[0])


@dataclass(frozen=True, slots=True)
class ConversionReview:
    """One question: `trees` as objects of `api_version`. `version` is that of the review itself."""

    version: str
    uid: str
    api_version: str
    trees: Sequence[Tree]

    def question(self) -> bytes:
        """The body of the request. The revision isn't in it: two readings of an object are alike to the webhook."""
        objects = [{**tree, "metadata": _without_revision(tree["metadata"])} for tree in self.trees]
        return json.encode(
            {
                "kind": KIND,
                "apiVersion": f"{GROUP}/{self.version}",
                "request": {"uid": self.uid, "desiredAPIVersion": self.api_version, "objects": objects},
                "response": {"uid": "", "convertedObjects": None, "result": {"metadata": {}}},
            }
        )

    def converted(self, answer: bytes) -> list[Tree]:
        """The objects in the answer, with the metadata of those that were sent. Raises ReviewError."""
        try:
            review = json.decode(answer)
        except DecodeError as error:
            raise ReviewError(f"failed: the answer is no {KIND}: {error}", of_all=True) from None
        objects = self._objects(review)
        if len(objects) != len(self.trees):
            raise ReviewError(f"returned {len(objects)} objects, expected {len(self.trees)}", of_all=True)
        if len(objects) == 1:
            return [self._checked(self.trees[0], objects[0], "", "")]
        pairs = enumerate(zip(self.trees, objects, strict=True))
        return [self._checked(tree, new, "converted ", f" at index {at}") for at, (tree, new) in pairs]

    def _objects(self, review: Any) -> list[Any]:
        """The converted objects of an answer that is one to this question."""
        expected = f"{GROUP}/{self.version}, Kind={KIND}"
        if not isinstance(review, dict):
            raise ReviewError(f"failed: expected webhook response of {expected}, got no object", of_all=True)
        got = f"{review.get('apiVersion') or ''}, Kind={review.get('kind') or ''}"
        if got != expected:
            raise ReviewError(f"failed: expected webhook response of {expected}, got {got[:SHOWN]}", of_all=True)
        response = review.get("response")
        if not isinstance(response, dict):
            raise ReviewError("failed: no response provided", of_all=True)
        uid = _text(response.get("uid"))
        if self.version == "v1" and uid != self.uid:
            raise ReviewError(f"failed: expected response.uid={quote(self.uid)}, got {quote(uid)}", of_all=True)
        result = response.get("result")
        status, message = (result.get("status"), result.get("message")) if isinstance(result, dict) else ("", "")
        if status != "Success":
            raise ReviewError(f"failed: {_text(message) or _not_successful(status)}")
        objects = response.get("convertedObjects")
        return objects if isinstance(objects, list) else []

    def _checked(self, tree: Tree, new: Any, which: str, at: str) -> Tree:
        """The converted object with the metadata of the original. `which` and `at` are for errors about one of many."""
        wrong = f"returned invalid {which}object{at}: "
        if not isinstance(new, dict):
            raise ReviewError(f"{wrong}it is no object")
        api_version, kind, metadata = _text(new.get("apiVersion")), _text(new.get("kind")), new.get("metadata")
        if api_version != self.api_version:
            raise ReviewError(f"{wrong}invalid groupVersion (expected {self.api_version}, received {api_version})")
        if kind != tree["kind"]:
            raise ReviewError(f"{wrong}invalid kind (expected {tree['kind']}, received {kind})")
        about_metadata = "returned invalid metadata" + (f" in object{at}: " if at else ": ")
        if not isinstance(metadata, dict):
            what = "missing" if metadata is None else "invalid"
            raise ReviewError(f"{about_metadata}{what} metadata in converted object")
        original = tree["metadata"]
        for field, word in _IDENTITY:
            had, has = original.get(field) or "", _text(metadata.get(field))
            if had != has:
                raise ReviewError(f"{wrong}must have the same {word}: {had} != {has}")
        new["metadata"] = _restored(original, metadata, about_metadata)
        return new


def _text(value: Any) -> str:
    """A text of the webhook, as much of it as is shown."""
    return str(value)[:SHOWN] if value else ""


def _not_successful(status: Any) -> str:
    return f"response.result.status was '{_text(status)}', not 'Success'"


def _without_revision(metadata: Tree) -> Tree:
    return {key: value for key, value in metadata.items() if key != "resourceVersion"}


def _restored(original: Tree, metadata: Tree, wrong: str) -> Tree:
    """The metadata of the original, with the labels and annotations of the converted object."""
    restored = dict(original)
    for field in _CHANGEABLE:
        values = metadata.get(field)
        before = restored.pop(field, None) or {}
        if values is None:
            continue
        if not isinstance(values, dict):
            raise ReviewError(f"{wrong}invalid metadata.{field} in converted object: it is no map")
        for key, value in values.items():
            if before.get(key) != value:
                _check_changed(field, key, value, wrong)
        if values:
            restored[field] = values
    return restored


def _check_changed(field: str, key: str, value: Any, wrong: str) -> None:
    """Refuse a changed label or annotation that validation wouldn't accept."""
    if not isinstance(value, str):
        raise ReviewError(f"{wrong}metadata.{field}[{key[:SHOWN]}] must be a string in converted object")
    complaints = names.qualified_name(key.lower() if field == "annotations" else key)
    if field == "labels":
        complaints = complaints + names.label_value(value)
    if complaints:
        raise ReviewError(f"{wrong}metadata.{field}[{key[:SHOWN]}] in converted object: {complaints[0]}")


@dataclass(frozen=True, slots=True)
class AskedConversion:
    """A question that a webhook is asked: `trees` as objects of `group` in `to_version`."""

    version: str
    uid: str
    group: str
    to_version: str
    trees: list[Tree]

    def answer(self, converted: Sequence[Tree]) -> bytes:
        """The body of the answer, with all objects in their order."""
        return self._answer({"status": "Success"}, list(converted))

    def failure(self, why: str) -> bytes:
        """The body of the answer when not all objects can be converted."""
        return self._answer({"status": "Failure", "message": why}, [])

    def _answer(self, result: Tree, objects: list[Tree]) -> bytes:
        response = {"uid": self.uid, "result": result, "convertedObjects": objects}
        return json.encode({"kind": KIND, "apiVersion": f"{GROUP}/{self.version}", "response": response})


def asked_conversion(data: bytes) -> AskedConversion:
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
    request = request if isinstance(request, dict) else {}
    uid, wanted, trees = request.get("uid"), request.get("desiredAPIVersion"), request.get("objects")
    if not (isinstance(uid, str) and isinstance(wanted, str) and isinstance(trees, list)):
        raise BadRequest(f"the {KIND} has no request with uid, desiredAPIVersion and objects")
    if not all(isinstance(tree, dict) and isinstance(tree.get("metadata"), dict) for tree in trees):
        raise BadRequest(f"the {KIND} has an object without metadata")
    group, _, to_version = wanted.rpartition("/")
    return AskedConversion(version, uid, group, to_version, trees)
