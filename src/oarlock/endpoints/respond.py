"""Makes a `Response` from the result of a recipe.

Usually joins bytes of the cache; Tables, metadata, YAML, indented JSON and other versions are made on demand.
Must not know: how the item was found. See also: `lists`; `errors`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from oarlock.codec import cbor as cbor_codec
from oarlock.codec import json as json_codec
from oarlock.codec import yaml as yaml_codec
from oarlock.codec.protobuf import envelope
from oarlock.endpoints.catalog import CatalogEntry
from oarlock.endpoints.http import Response
from oarlock.endpoints.in_protobuf import MessageEncoder, OwnMessage, object_from_json
from oarlock.endpoints.lists import tables
from oarlock.endpoints.lists.compressing import GZIP_ABOVE, gzipped
from oarlock.endpoints.lists.joined import one_body
from oarlock.endpoints.lists.partial_metadata import partial
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
from oarlock.endpoints.request_state import ANONYMOUS, RequestState, Route
from oarlock.endpoints.routing.route import ResourceRoute
from oarlock.meta.errors import BadRequest
from oarlock.meta.memo import Memo
from oarlock.registry.read.recipes import EntryItem, Item
from oarlock.registry.workers import offload_bytes

__all__ = [
    "LARGE_BYTES",
    "accept",
    "accept_answer",
    "compressed",
    "encoded",
    "include_object",
    "is_pretty",
    "item_response",
    "negotiated",
    "own_message",
]

LARGE_BYTES = 64 * 1024
"""An object with more bytes is sent without copying it."""

JSON_HEADERS = ("content-type", JSON)
_decode = msgspec.json.Decoder().decode


_CREATE_ONLY = ("create",)
_forms: Memo[tuple[str, bool, bool, bool, bool], Accepted] = Memo(1024 * 1024, entry_bytes=512, per_byte=2)


def negotiated(
    state: RequestState,
    header: str,
    *,
    protobuf: bool,
    transforms: bool = False,
    stream: bool = False,
    collection: bool = False,
) -> Accepted:
    """What `negotiate` finds, cached for authenticated users. Raises NotAcceptable."""
    key = (header, transforms, stream, collection, protobuf)
    found = _forms.get(key)
    if found is None:
        found = negotiate(header, transforms=transforms, stream=stream, collection=collection, protobuf=protobuf)
        if state.user is not ANONYMOUS:
            _forms.put(key, found, len(header))
    return found


def accept(state: RequestState, route: ResourceRoute, *, stream: bool = False, collection: bool = False) -> Accepted:
    """The negotiated form; without Accept, the media type of the body. Raises NotAcceptable.

    What can only be created, a review, has no Table and no PartialObjectMetadata.
    """
    protobuf, kept = route.entry.protobuf is not None, route.entry.verbs != _CREATE_ONLY
    return negotiated(state, _header(state), transforms=kept, stream=stream, collection=collection, protobuf=protobuf)


def accept_answer(state: RequestState, route: ResourceRoute) -> Accepted:
    """The same for the answer of a user's subresource, which has no Table and no PartialObjectMetadata.

    One that takes protobuf answers with it: with an object that has a message, or a Status.
    """
    protobuf = any(route.entry.sub_messages(route.target.subresource))
    return negotiated(state, _header(state), protobuf=protobuf)


def _header(state: RequestState) -> str:
    headers = state.request.headers
    header = headers.get("accept", "")
    if not header:
        sent = headers.get("content-type", "")
        return CBOR if sent.startswith(CBOR) else f"{PROTOBUF},{JSON}" if sent.startswith(PROTOBUF) else ""
    return header


def is_pretty(state: RequestState, route: Route | None, accepted: Accepted) -> bool:
    value = route.query("pretty") if route is not None and route.pairs else None
    return wants_pretty(accepted, value, state.request.headers.get("user-agent", ""))


async def item_response(
    state: RequestState, route: ResourceRoute, item: Item, accepted: Accepted, status: int = 200
) -> Response:
    """One object in the negotiated form."""
    entry = route.entry
    wrong = wrong_plurality(accepted.as_kind, listed=False, group=entry.gvk.group, kind=entry.gvk.kind)
    if wrong is not None:
        raise wrong
    shown = route.represents.item(item)
    if accepted.media_type == PROTOBUF and accepted.as_kind is None and isinstance(shown, EntryItem) and entry.protobuf:
        message = await shown.resource.derived(shown.entry, route.version, MessageEncoder(entry.protobuf))
        return await _answer(state, envelope(entry.api_version, entry.gvk.kind, message), accepted, status)
    body = await shown.body(route.version)
    if accepted.as_kind == "Table":
        options = tables.TableOptions(include_object(route), accepted.as_version, state.clock.now())
        data = await route.resource.settings.workers.go_on(
            offload_bytes(body), _table, route.head + body, entry, options
        )
        return await encoded(state, route, data, accepted, status)
    if accepted.as_kind is not None:
        return await encoded(state, route, partial(body, accepted.as_version), accepted, status)
    if len(body) > LARGE_BYTES and accepted.media_type == JSON and not is_pretty(state, route, accepted):
        headers = [("content-type", accepted.response_content_type)]
        return await compressed(state, Response(status, headers, one_body(route.head, body)))
    return await encoded(state, route, route.head + body, accepted, status)


def _table(data: bytes, entry: CatalogEntry, options: tables.TableOptions) -> bytes:
    tree = _decode(data)
    return tables.table_of(entry, [tree], _list_meta(tree), options)


def _list_meta(tree: dict[str, Any]) -> dict[str, Any]:
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
    return await _answer(state, data, accepted, status)


async def _answer(state: RequestState, data: bytes, accepted: Accepted, status: int) -> Response:
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
    value = route.query("includeObject") or "Metadata"
    if value not in ("None", "Metadata", "Object"):
        raise BadRequest(
            f'Unable to convert to Table as requested: includeObject: Invalid value: "{value}": '
            "must be 'Metadata', 'Object', 'None', or empty"
        )
    return value
