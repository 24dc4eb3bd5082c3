"""`ConversionWebhooks`: converts the versions of custom resources by the webhooks that their definitions name.

What comes out is pruned by the schema of its version, as with every custom resource (``registry.converting``).
Source: apiextensions.k8s.io/v1 CustomResourceDefinition spec.conversion.
"""

from __future__ import annotations

import asyncio
import logging
import random
import uuid
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, cast

from oarlock.apps.kinds.apiextensions import (
    CustomResourceColumnDefinition,
    CustomResourceDefinition,
    CustomResourceDefinitionVersion,
    CustomResourceSubresourceScale,
)
from oarlock.apps.service_endpoints import PortNotFound, ReadyEndpoint, ServiceNotFound, find_service
from oarlock.client.client import Client
from oarlock.client.clock import TimerClock
from oarlock.client.informers.remote_objects import ObjectLog
from oarlock.client.transport import TransportError
from oarlock.client.webhooks import WebhookCalls, WebhookError, WebhookService, WebhookTarget
from oarlock.codec import json
from oarlock.codec.errors import DecodeError
from oarlock.meta import errors, names
from oarlock.meta.context import Context
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import BadRequest, StatusError, TooManyRequests
from oarlock.meta.go.gotext import quote
from oarlock.meta.json_trees import Tree
from oarlock.registry.conversions import ConversionError, Converter, NoConversion, name_of
from oarlock.registry.served import Hooks, Served
from oarlock.schema.definition import Column, Names, ResourceDefinition, Scale, VersionDefinition

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


Converters = Callable[[CustomResourceDefinition], Converter]
"""Makes what converts the objects of a definition with the strategy ``Webhook``. Raises CannotServe."""

TERMINATING = "create not allowed while custom resource definition is terminating"


class CannotServe(Exception):
    """A stored definition that makes no resource. The message says why."""


def no_webhooks(crd: CustomResourceDefinition) -> Converter:
    """The conversion webhooks of a server that asks none."""
    raise CannotServe("this server doesn't convert by webhook")


def resource_of(crd: CustomResourceDefinition, converters: Converters = no_webhooks) -> Served:
    """What `crd` makes the server serve, under its accepted names. Shares the schemas. Raises CannotServe."""
    definition = definition_of_crd(crd)
    conversion = crd.spec.conversion
    converter = NoConversion() if conversion is None or conversion.strategy != "Webhook" else converters(crd)
    hooks = Hooks(prepare=_no_new_objects, threadsafe=True) if crd.metadata.deletion_timestamp else Hooks()
    return Served(definition, converter, hooks)


def definition_of_crd(crd: CustomResourceDefinition) -> ResourceDefinition:
    """`crd` as a definition. Raises CannotServe for one that no server can have accepted.

    One that is being deleted serves the stored version anyway: its objects can be deleted with nothing to convert.
    """
    spec, names = crd.spec, crd.status.accepted_names
    versions = spec.versions or []
    stored = [version.name for version in versions if version.storage]
    if len(stored) != 1:
        raise CannotServe("not exactly one version is the storage version")
    if spec.scope not in ("Namespaced", "Cluster"):
        raise CannotServe(f"spec.scope is {spec.scope!r}, neither Namespaced nor Cluster")
    if not (names.plural and names.kind):
        raise CannotServe("status.acceptedNames has no plural or no kind")
    return ResourceDefinition(
        group=spec.group,
        names=Names(
            plural=names.plural,
            kind=names.kind,
            singular=names.singular,
            list_kind=names.list_kind,
            short_names=tuple(names.short_names),
            categories=tuple(names.categories),
        ),
        scope=cast("Any", spec.scope),
        versions=tuple(map(_version, _versions_of(crd))),
        hub=stored[0],
        stored_as=stored[0],
        typed=False,
    )


def _versions_of(crd: CustomResourceDefinition) -> list[CustomResourceDefinitionVersion]:
    versions = crd.spec.versions or []
    if not crd.metadata.deletion_timestamp:
        return versions
    shown = [copy(version) for version in versions]
    for version in shown:
        version.served = version.served or version.storage
    return shown


def _version(version: CustomResourceDefinitionVersion) -> VersionDefinition:
    schema = None if version.validation is None else version.validation.open_api_v3_schema
    if not isinstance(schema, dict):
        raise CannotServe(f"version {version.name} has no schema")
    below = version.subresources
    return VersionDefinition(
        name=version.name,
        schema=schema,
        served=version.served,
        deprecated=version.deprecated,
        deprecation_warning=version.deprecation_warning or "",
        columns=tuple(map(_column, version.additional_printer_columns)),
        selectable=tuple(field.json_path for field in version.selectable_fields),
        status=below is not None and below.status is not None,
        scale=None if below is None or below.scale is None else _scale(below.scale),
    )


def _column(column: CustomResourceColumnDefinition) -> Column:
    return Column(
        name=column.name,
        json_path=column.json_path,
        type=cast("Any", column.type),
        format=column.format,
        description=column.description or f"Custom resource definition column (in JSONPath format): {column.json_path}",
        priority=column.priority,
    )


def _scale(scale: CustomResourceSubresourceScale) -> Scale:
    return Scale(scale.spec_replicas_path, scale.status_replicas_path, scale.label_selector_path or "")


def _no_new_objects(new: Tree, old: Tree | None, ctx: Context) -> Tree:
    if old is None:
        raise errors.Forbidden(ctx.target.group_resource, new["metadata"].get("name", ""), TERMINATING)
    return new


class StoredServices:
    """Finds Services through a client of the server itself. Without one, which is before it serves, none is found.

    Each call goes to one of the ready endpoints, by chance unless `choose` says which, so that one that can't be
    reached is in the way of some calls only.
    """

    def __init__(self, choose: Callable[[Sequence[ReadyEndpoint]], ReadyEndpoint] = random.choice) -> None:
        self._choose = choose
        self.client: Client | None = None

    async def __call__(self, service: WebhookService) -> str:
        """``host:port``. Raises `WebhookError`."""
        if self.client is None:
            raise WebhookError(f'service "{service.name}" is not known yet: the server is starting')
        try:
            return await self._address(self.client, service)
        except (StatusError, TransportError) as error:
            raise WebhookError(f'service "{service.name}" cannot be read: {error}') from None

    async def _address(self, client: Client, service: WebhookService) -> str:
        try:
            found = await find_service(client, service.namespace, service.name, service.port, self._choose)
        except ServiceNotFound:
            raise WebhookError(f'service "{service.name}" not found') from None
        except PortNotFound:
            raise WebhookError(f'no service port {service.port} found for service "{service.name}"') from None
        if found.external is not None:
            return f"{found.external.host}:{found.external.port}"
        if found.endpoint is not None:
            return _joined(found.endpoint.host, found.endpoint.port)
        if not found.cluster_ip:
            raise WebhookError(f'no endpoints available for service "{service.name}"')
        return _joined(found.cluster_ip, service.port)


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


log = logging.getLogger("oarlock.crds")
TIMEOUT_S = 30.0
SMALL_BYTES = 128 * 1024
"""An answer that is larger is read in a thread."""

MANY = 50
"""The question about more objects is written in a thread."""

SPARE_BYTES = 1024 * 1024
GROWTH = 8
"""An answer may have so many times the bytes of the question, and `SPARE_BYTES`."""


class ConversionWebhookError(ConversionError):
    """500: a conversion webhook fails. Like Kubernetes' it has no reason."""

    reason = ""

    def __init__(self, trees: list[Tree], to_version: str, why: str, *, of_all: bool) -> None:
        super().__init__(name_of(trees[0]), to_version, why)
        api_version, kind = trees[0].get("apiVersion"), trees[0].get("kind")
        self.message = f"conversion webhook for {api_version}, Kind={kind} {why}"
        self.details = None
        self.of_all = of_all


class ConversionWebhooks:
    """The webhooks of all definitions of a server: makes their converters, and has the connections to them.

    A `Runnable`: running, it waits for the end to close them.
    """

    def __init__(self) -> None:
        self._services = StoredServices()
        self._calls = WebhookCalls(self._services)

    def converter(self, crd: CustomResourceDefinition) -> Converter:
        """What converts the objects of a definition with the strategy ``Webhook``. Raises CannotServe."""
        conversion = crd.spec.conversion
        webhook = None if conversion is None else conversion.webhook
        config = None if webhook is None else webhook.client_config
        if webhook is None or config is None or (config.url is None) is (config.service is None):
            raise CannotServe("spec.conversion.webhook names neither a URL nor a Service, or both")
        service = None
        if config.service is not None:
            named = config.service
            service = WebhookService(named.namespace, named.name, named.port or 443, named.path or "")
        target = WebhookTarget.of(config.url or "", service, config.ca_bundle)
        review = review_version(webhook.conversion_review_versions or ())
        return WebhookConverter(crd.spec.group, target, review, self._calls)

    async def start(self, client: Client) -> None:
        """Find Services through `client` from now on."""
        self._services.client = client

    async def run(self, client: Client, clock: TimerClock) -> None:
        """Wait until cancelled; then close the connections."""
        try:
            await asyncio.Event().wait()
        finally:
            await self._calls.close()


class WebhookConverter(Converter):
    """Asks a webhook with ConversionReviews, for all given objects in one call.

    What it returned isn't remembered here, but by the server, for each revision of an object. It is equal to
    another one that asks the same webhook in the same way.
    """

    def __init__(self, group: str, target: WebhookTarget, review: str, calls: WebhookCalls) -> None:
        self._group = group
        self._target = target
        self._review = review
        self._calls = calls
        self._log = ObjectLog(log)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WebhookConverter) and other._asked == self._asked

    def __hash__(self) -> int:
        return hash(self._asked)

    @property
    def _asked(self) -> tuple[object, ...]:
        return self._group, self._target, self._review

    async def convert(self, trees: list[Tree], from_version: str, to_version: str) -> list[Tree]:
        if not trees:
            return []
        try:
            return await self._converted(trees, f"{self._group}/{to_version}")
        except WebhookError as error:
            if error.busy:
                raise TooManyRequests(f"conversion webhook of {self._group}: {error}", retry_after_s=1) from None
            why, of_all = f"failed: {error}", True
        except ReviewError as error:
            why, of_all = str(error), error.of_all
        failure = ConversionWebhookError(trees, to_version, why, of_all=of_all)
        kind = f"{trees[0].get('kind')}.{self._group}"
        self._log.warn(kind, (to_version, why[:80]), f"its conversion webhook {why}")
        raise failure

    async def _converted(self, trees: list[Tree], to_api_version: str) -> list[Tree]:
        review = ConversionReview(self._review, str(uuid.uuid4()), to_api_version, trees)
        question = await asyncio.to_thread(review.question) if len(trees) > MANY else review.question()
        most = SPARE_BYTES + GROWTH * len(question)
        answer = await self._calls.post(self._target, question, timeout_s=TIMEOUT_S, most_bytes=most)
        if len(answer) > SMALL_BYTES:
            return await asyncio.to_thread(review.converted, answer)
        return review.converted(answer)
