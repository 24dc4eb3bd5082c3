"""Makes a `Response` from the result of a recipe, or from its error.

Usually joins bytes of the cache; Tables, metadata, YAML, indented JSON and other versions are made on demand.
Must not know: how the item was found. See also: `lists`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from oarlock.codec import cbor as cbor_codec
from oarlock.codec import json as json_codec
from oarlock.codec import protobuf as protobuf_codec
from oarlock.codec import yaml as yaml_codec
from oarlock.endpoints import tables
from oarlock.endpoints.catalog import CatalogEntry
from oarlock.endpoints.compressing import GZIP_ABOVE, gzipped
from oarlock.endpoints.http import BodyTooLarge, BrokenBody, Response
from oarlock.endpoints.in_protobuf import OwnMessage, object_from_json
from oarlock.endpoints.joined import one_body
from oarlock.endpoints.negotiation import (
    CBOR,
    JSON,
    PROTOBUF,
    YAML,
    Accepted,
    accepts_gzip,
    negotiate,
    wants_pretty,
    wrong_plurality,
)
from oarlock.endpoints.pacing import offload
from oarlock.endpoints.partial_metadata import partial
from oarlock.endpoints.request_state import ANONYMOUS, RequestState, Route
from oarlock.endpoints.route import ResourceRoute
from oarlock.meta.errors import (
    BadRequest,
    InternalError,
    InvalidObject,
    RequestEntityTooLarge,
    ServerTimeout,
    ServiceUnavailable,
    StatusError,
)
from oarlock.meta.fielderrors import FieldError
from oarlock.meta.memo import Memo
from oarlock.registry.results import Item
from oarlock.registry.workers import weight
from oarlock.storage.backend import OutcomeUnknown, StorageError, TooLarge, Unavailable

__all__ = [
    "LARGE_BYTES",
    "accept",
    "accept_answer",
    "as_status_error",
    "compressed",
    "encoded",
    "error_response",
    "include_object",
    "is_pretty",
    "item_response",
    "list_meta",
    "own_message",
    "status_response",
]

LARGE_BYTES = 64 * 1024
"""An object with more bytes is sent without copying it."""

JSON_HEADERS = ("content-type", JSON)
_decode = msgspec.json.Decoder().decode


_forms: Memo[tuple[str, bool, bool, bool, bool], Accepted] = Memo(1024 * 1024, entry_bytes=512, per_byte=2)


def _negotiated(
    state: RequestState, header: str, transforms: bool, stream: bool, collection: bool, protobuf: bool
) -> Accepted:
    """The negotiated form, cached for authenticated users. Raises NotAcceptable."""
    key = (header, transforms, stream, collection, protobuf)
    found = _forms.get(key)
    if found is None:
        found = negotiate(header, transforms=transforms, stream=stream, collection=collection, protobuf=protobuf)
        if state.user is not ANONYMOUS:
            _forms.put(key, found, len(header))
    return found


def accept(state: RequestState, route: ResourceRoute, *, stream: bool = False, collection: bool = False) -> Accepted:
    """The negotiated form; without Accept, the media type of the body. Raises NotAcceptable."""
    return _negotiated(state, _header(state), True, stream, collection, route.entry.protobuf is not None)


def accept_answer(state: RequestState, route: ResourceRoute) -> Accepted:
    """The same for the answer of a user's subresource, which has no Table and no PartialObjectMetadata."""
    protobuf = route.entry.sub_messages(route.target.subresource)[1] is not None
    return _negotiated(state, _header(state), False, False, False, protobuf)


def _header(state: RequestState) -> str:
    headers = state.request.headers
    header = headers.get("accept", "")
    if not header:
        sent = headers.get("content-type", "")
        return CBOR if sent.startswith(CBOR) else f"{PROTOBUF},{JSON}" if sent.startswith(PROTOBUF) else ""
    return header


def is_pretty(state: RequestState, route: Route | None, accepted: Accepted) -> bool:
    asked = route.query("pretty") if route is not None and route.pairs else None
    return wants_pretty(accepted, asked, state.request.headers.get("user-agent", ""))


async def item_response(
    state: RequestState, route: ResourceRoute, item: Item, accepted: Accepted, status: int = 200
) -> Response:
    """One object in the negotiated form."""
    entry = route.entry
    wrong = wrong_plurality(accepted.as_kind, listed=False, group=entry.gvk.group, kind=entry.gvk.kind)
    if wrong is not None:
        raise wrong
    body = await route.represents.item(item).body(route.version)
    if accepted.as_kind == "Table":
        options = tables.TableOptions(include_object(route), accepted.as_version, state.clock.now())
        data = await route.resource.settings.workers.go_on(weight(body), _table, route.head + body, entry, options)
        return await encoded(state, route, data, accepted, status)
    if accepted.as_kind is not None:
        return await encoded(state, route, partial(body, accepted.as_version), accepted, status)
    if len(body) > LARGE_BYTES and accepted.media_type == JSON and not is_pretty(state, route, accepted):
        headers = [("content-type", accepted.response_content_type)]
        return await compressed(state, Response(status, headers, one_body(route.head, body)))
    return await encoded(state, route, route.head + body, accepted, status)


def _table(data: bytes, entry: CatalogEntry, options: tables.TableOptions) -> bytes:
    tree = _decode(data)
    return tables.table_of(entry, [tree], list_meta(tree), options)


def list_meta(tree: dict[str, Any]) -> dict[str, Any]:
    version = tree["metadata"].get("resourceVersion")
    return {"resourceVersion": version} if version else {}


async def encoded(
    state: RequestState, route: ResourceRoute, data: bytes, accepted: Accepted, status: int = 200
) -> Response:
    """Compact JSON in the negotiated form: unchanged, indented, YAML, CBOR or protobuf; compressed if large.

    Protobuf is supported for the meta kinds and for objects of `route` whose fields have numbers.
    """
    if accepted.media_type == YAML:
        data = await offload(len(data), _yaml, data)
    elif accepted.media_type == CBOR:
        data = await offload(len(data), cbor_codec.from_json, data)
    elif accepted.media_type == PROTOBUF:
        data = await offload(len(data), object_from_json, own_message(route.entry), data)
    elif is_pretty(state, route, accepted):
        data = await offload(len(data), json_codec.pretty, data)
    elif data[-1:] != b"\n":
        data += b"\n"
    return await compressed(state, Response(status, [("content-type", accepted.response_content_type)], data))


def own_message(entry: CatalogEntry) -> OwnMessage:
    """The message of a version of a resource."""
    return OwnMessage(entry.api_version, entry.gvk.kind, entry.protobuf)


def _yaml(data: bytes) -> bytes:
    return yaml_codec.encode(_decode(data))


async def compressed(state: RequestState, response: Response) -> Response:
    body = response.body
    if isinstance(body, bytes) and len(body) <= GZIP_ABOVE:
        return response
    if not accepts_gzip(state.request.headers.get("accept-encoding", "")):
        return response
    packed = await gzipped(body)
    if packed is not None:
        response.body = packed
        response.headers += [("content-encoding", "gzip"), ("vary", "Accept-Encoding")]
    return response


def include_object(route: ResourceRoute) -> str:
    """Which part of each object a Table contains (``includeObject``). Raises BadRequest."""
    asked = route.query("includeObject") or "Metadata"
    if asked not in ("None", "Metadata", "Object"):
        raise BadRequest(
            f'Unable to convert to Table as requested: includeObject: Invalid value: "{asked}": '
            "must be 'Metadata', 'Object', 'None', or empty"
        )
    return asked


def as_status_error(error: Exception, state: RequestState) -> StatusError | None:
    """An error as a `StatusError`; None for one of an unknown type, which is a bug of the server."""
    match error:
        case StatusError():
            return error.about(state.target)
        case FieldError():
            return InvalidObject(state.target.group_kind, state.target.name, [error])
        case BodyTooLarge():
            return RequestEntityTooLarge(f"limit is {error.limit}")
        case BrokenBody():
            return BadRequest(f"the body of the request could not be read: {error}")
        case TooLarge():
            return RequestEntityTooLarge(str(error))
        case OutcomeUnknown():
            return ServerTimeout(state.target.group_resource, state.target.verb)
        case Unavailable():
            retry = max(1, round(error.retry_after_s))
            return ServiceUnavailable(f"the store is unavailable: {error}", retry_after_s=retry)
        case StorageError():
            return InternalError(str(error))
    return None


def error_response(error: Exception, state: RequestState) -> Response:
    """The Status of an error, in the form the client accepts. Raises the error again if its type is unknown."""
    known = as_status_error(error, state)
    if known is None:
        raise error
    return status_response(known, state)


def status_response(error: StatusError, state: RequestState) -> Response:
    """A Status; indented JSON for a client that accepts none of its forms, as a person probably reads it."""
    try:
        accepted = _negotiated(state, state.request.headers.get("accept", ""), False, False, False, True)
    except StatusError:
        accepted = Accepted(JSON, pretty=True)
    if error.code in (406, 415) and error.details == {}:
        state.notes.rewind((0, 0))  # the request reached no route of the resource, so no deprecation warning
    tree = error.status()
    if accepted.media_type == YAML:
        data, media = yaml_codec.encode(tree), YAML
    elif accepted.media_type == CBOR:
        data, media = cbor_codec.encode(tree), CBOR
    elif accepted.media_type == PROTOBUF:
        data, media = protobuf_codec.encode(tree), PROTOBUF
    elif is_pretty(state, state.route, accepted):
        data, media = json_codec.pretty(json_codec.encode(tree)), JSON
    else:
        data, media = json_codec.encode(tree) + b"\n", JSON
    headers = [("content-type", media)]
    if error.retry_after_s:
        headers.append(("retry-after", str(error.retry_after_s)))
    if error.code == 403:
        headers.append(("x-content-type-options", "nosniff"))
    return Response(error.code, headers, data)
