"""Lists as bytes: joins of what the cache keeps where possible, made in slices where not.

A list in the stored version as JSON is nothing but joins; a long one is sent while it is being joined.
Tables, metadata lists and other versions cost a few microseconds per object and give the loop back between.
Must not know: selectors, revisions. Next: ``verbs.list``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import msgspec

from oarlock.codec import cbor, protobuf
from oarlock.endpoints import tables
from oarlock.endpoints.exchange import Exchange
from oarlock.endpoints.http import Response
from oarlock.endpoints.in_protobuf import object_message
from oarlock.endpoints.negotiation import CBOR, JSON, PROTOBUF, Accepted, wrong_plurality
from oarlock.endpoints.pacing import Pacer
from oarlock.endpoints.partial_metadata import partial, partial_list
from oarlock.endpoints.respond import compressed, encoded, include_object, is_pretty
from oarlock.endpoints.route import Route
from oarlock.registry.outcome import Item, Listing
from oarlock.registry.resource import Resource
from oarlock.storage.cache.entry import Entry

__all__ = ["list_response"]

_encode = msgspec.json.Encoder().encode

STREAMED_ABOVE = 2048
"""A list of more objects than this is sent in pieces while it is joined."""

STEP = 50
"""After how many objects that had to be made the clock is looked at."""


async def list_response(x: Exchange, route: Route, listing: Listing, accepted: Accepted) -> Response:
    """A list in the form agreed on."""
    entry = route.entry
    assert entry is not None
    wrong = wrong_plurality(accepted.as_kind, listed=True, group=entry.gvk.group, kind=entry.list_kind)
    if wrong is not None:
        raise wrong
    if accepted.as_kind == "Table":
        return await encoded(x, route, await _table(x, route, listing, accepted), accepted)
    if accepted.as_kind is not None:
        return await _metadata(x, route, listing, accepted)
    if accepted.media_type == JSON and not is_pretty(x, route, accepted) and _spliced(route):
        return await _joined(x, route, listing, accepted)
    bodies = await _bodies(route, listing.chunks)
    if accepted.media_type == CBOR:
        return await _in_cbor(x, route, listing, bodies)
    if accepted.media_type == PROTOBUF:
        return await _in_protobuf(x, route, listing, bodies)
    return await encoded(x, route, _head(route, listing) + _joined_items(route, bodies) + b"]}", accepted)


async def _metadata(x: Exchange, route: Route, listing: Listing, accepted: Accepted) -> Response:
    items = await _bodies(route, listing.chunks)
    version, meta = accepted.as_version, _meta(listing)
    in_protobuf = accepted.media_type == PROTOBUF
    pacer, views = Pacer(), []
    for start in range(0, len(items), STEP):
        made = [partial(body, version) for body in items[start : start + STEP]]
        views += [protobuf.message_of(view) for view in made] if in_protobuf else made
        await pacer.turn()
    if not in_protobuf:
        return await encoded(x, route, partial_list(views, meta, version), accepted)
    data = protobuf.list_of(f"meta.k8s.io/{version}", "PartialObjectMetadataList", meta, views)
    return await compressed(x, Response(200, [("content-type", PROTOBUF)], data))


async def _in_cbor(x: Exchange, route: Route, listing: Listing, bodies: list[bytes]) -> Response:
    """Item by item, because the library that writes CBOR doesn't let go of the interpreter."""
    opening, pacer, items = _separator(route), Pacer(), []
    for start in range(0, len(bodies), STEP):
        items += [cbor.from_json(opening + body) for body in bodies[start : start + STEP]]
        await pacer.turn()
    data = cbor.list_of(_head(route, listing) + b"]}", items)
    return await compressed(x, Response(200, [("content-type", CBOR)], data))


async def _in_protobuf(x: Exchange, route: Route, listing: Listing, bodies: list[bytes]) -> Response:
    entry = route.entry
    assert entry is not None
    message = entry.protobuf
    assert message is not None
    pacer, items = Pacer(), []
    for start in range(0, len(bodies), STEP):
        items += [object_message(message, b"{" + body) for body in bodies[start : start + STEP]]
        await pacer.turn()
    data = protobuf.list_of(entry.api_version, entry.list_kind, _meta(listing), items)
    return await compressed(x, Response(200, [("content-type", PROTOBUF)], data))


def _meta(listing: Listing) -> dict[str, Any]:
    meta: dict[str, Any] = {"resourceVersion": listing.resource_version}
    if listing.continue_token:
        meta["continue"] = listing.continue_token
        if listing.remaining:
            meta["remainingItemCount"] = listing.remaining
    return meta


def _head(route: Route, listing: Listing) -> bytes:
    entry = route.entry
    assert entry is not None
    return b'{"kind":%s,"apiVersion":%s,"metadata":%s,"items":[' % (
        _encode(entry.list_kind),
        _encode(entry.api_version),
        _encode(_meta(listing)),
    )


def _spliced(route: Route) -> bool:
    """Whether the cache's bytes are those of the version asked for."""
    resource = route.stored()
    return resource is not None and resource.definition.stored_as == route.version


def _separator(route: Route) -> bytes:
    """What stands before each item: typed kinds' items carry no kind and apiVersion."""
    assert route.entry is not None
    return b"{" if route.entry.definition.typed else route.head


async def _joined(x: Exchange, route: Route, listing: Listing, accepted: Accepted) -> Response:
    chunks = cast("list[Sequence[Entry]]", list(listing.chunks))  # _spliced: nothing but entries
    head, opening = _head(route, listing), _separator(route)
    count = sum(map(len, chunks))
    between = b"," + opening
    if count <= STREAMED_ABOVE or "gzip" in x.request.headers.get("accept-encoding", ""):
        bodies = [entry.body for chunk in chunks for entry in chunk]
        data = head + opening + between.join(bodies) + b"]}\n" if bodies else head + b"]}\n"
        return await encoded(x, route, data, accepted)
    pieces = _pieces(head, opening, chunks)
    return Response(200, [("content-type", accepted.response_content_type)], pieces)


async def _pieces(head: bytes, opening: bytes, chunks: Sequence[Sequence[Entry]]) -> AsyncIterator[bytes]:
    between = b"," + opening
    before = head + opening
    for chunk in chunks:
        if chunk:
            yield before + between.join([entry.body for entry in chunk])
            before = between
    yield b"]}\n"


async def _bodies(route: Route, chunks: Any) -> list[bytes]:
    """Every item as a body in the version asked for, in slices."""
    pacer, bodies = Pacer(), []
    resource, version = route.stored(), route.version
    for chunk in chunks:
        if resource is not None and resource.definition.stored_as == version:
            bodies += [entry.body for entry in chunk if isinstance(entry, Entry)]
            continue
        for i, item in enumerate(chunk):
            if i % STEP == 0:
                await pacer.turn()
            bodies.append(await _body(resource, item, version))
    return bodies


async def _body(resource: Resource | None, item: Item, version: str) -> bytes:
    if not isinstance(item, Entry):
        return Resource.encode(item)
    assert resource is not None
    made = resource.body_now(item, version)
    return await resource.body(item, version) if made is None else made


def _joined_items(route: Route, bodies: list[bytes]) -> bytes:
    if not bodies:
        return b""
    opening = _separator(route)
    return opening + (b"," + opening).join(bodies)


async def _table(x: Exchange, route: Route, listing: Listing, accepted: Accepted) -> bytes:
    entry = route.entry
    assert entry is not None
    options = tables.TableOptions(include_object(route), accepted.as_version, x.clock.now())
    pacer, rows = Pacer(), []
    bodies = await _bodies(route, listing.chunks)
    for start in range(0, len(bodies), STEP):
        rows += [tables.row_of_json(entry, route.head + body, options) for body in bodies[start : start + STEP]]
        await pacer.turn()
    return tables.table_of_rows(entry, rows, _meta(listing), options)
