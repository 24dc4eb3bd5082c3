"""List answers, produced while they are sent.

A list in the stored version as JSON only joins the cache's bytes, which all clients share. Tables, metadata lists and
other versions cost a few microseconds per object, with pauses for the event loop. A small list is made at once, a large
one piece by piece. A form that can only be made as a whole (protobuf, YAML) counts against the budget of unsent bytes.
Must not know: selectors, revisions. See also: `list_forms`, ``verbs.list``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from oarlock.codec import protobuf
from oarlock.endpoints import tables
from oarlock.endpoints.http import Response
from oarlock.endpoints.in_protobuf import object_message
from oarlock.endpoints.joined import Items, JoinedBody, bodies_of, measure_of
from oarlock.endpoints.list_forms import (
    ListForm,
    as_cbor,
    in_yaml,
    indented,
    list_head,
    list_meta,
    metadata_form,
    plain_form,
    separator,
    table_form,
)
from oarlock.endpoints.negotiation import CBOR, JSON, PROTOBUF, Accepted, wrong_plurality
from oarlock.endpoints.pacing import offload
from oarlock.endpoints.partial_metadata import partial
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.respond import compressed, include_object, is_pretty
from oarlock.endpoints.route import Route
from oarlock.meta.errors import StatusError
from oarlock.registry.results import Item, Listing
from oarlock.registry.served import Tree
from oarlock.registry.stored_resource import StoredResource
from oarlock.registry.workers import weight
from oarlock.storage.cache.entry import Entry
from oarlock.storage.pacing import Pacer

__all__ = ["list_response"]

WHOLE_BYTES = 128 * 1024
"""A list whose objects have no more bytes is made at once."""

PIECE_BYTES = 64 * 1024
"""The approximate size of the pieces of a longer list."""

STEP = 50
"""After how many converted objects the clock is looked at."""

AWAITED_STEP = 250
"""How many objects are converted at once if conversion has to wait."""

OVERHEAD = 3
"""The memory for making a whole list, as a multiple of its objects' bytes."""


@dataclass(frozen=True, slots=True)
class _Found:
    """The objects of a list: entries of the stored version, or bytes of the requested one. `size` is in bytes."""

    listing: Listing
    chunks: Sequence[Items]
    count: int
    size: int


async def list_response(state: RequestState, route: Route, listing: Listing, accepted: Accepted) -> Response:
    """A list in the negotiated form. Raises TooManyRequests if the budget of unsent bytes is exhausted."""
    entry = route.entry
    assert entry is not None
    wrong = wrong_plurality(accepted.as_kind, listed=True, group=entry.gvk.group, kind=entry.list_kind)
    if wrong is not None:
        raise wrong
    found = await _found(listing)
    if accepted.media_type not in (JSON, CBOR):
        return await _whole(state, route, found, accepted)
    content_type = [("content-type", accepted.response_content_type)]
    pretty = is_pretty(state, route, accepted)
    if accepted.media_type == JSON and accepted.as_kind is None and not pretty and not _converts(route):
        return await compressed(state, Response(200, content_type, _joined(route, found)))
    form = _form(state, route, listing, accepted)
    if accepted.media_type == CBOR:
        form = as_cbor(form)
    elif pretty:
        form = indented(form)
    if found.size <= WHOLE_BYTES:
        return await compressed(state, Response(200, content_type, await _made(route, form, found)))
    if _converts(route):
        # Convert all objects before the answer begins: an error halfway couldn't be reported.
        async for _ in _bodies(route, found):
            pass
    return await compressed(state, Response(200, content_type, _pieces(route, form, found)))


async def _found(listing: Listing) -> _Found:
    pacer = Pacer()
    chunks: list[Items] = []
    count = size = 0
    for chunk in listing.chunks:
        if not chunk:
            continue
        items = _encoded(chunk)
        chunks.append(items)
        count += len(items)
        size += measure_of(items).size
        await pacer.turn()
    return _Found(listing, chunks, count, size)


def _encoded(chunk: Sequence[Item]) -> Items:
    """A list has either the cache's entries or trees, which are encoded at once: nothing else holds them."""
    if isinstance(chunk[0], Entry):
        return cast("Sequence[Entry]", chunk)
    return [StoredResource.encode(item) for item in cast("Sequence[Tree]", chunk)]


def _converts(route: Route) -> bool:
    """Whether the requested version isn't the stored one."""
    resource = route.stored()
    return resource is not None and resource.definition.stored_as != route.version


def _joined(route: Route, found: _Found) -> bytes | JoinedBody:
    assert route.entry is not None
    head, opening = list_head(route.entry, found.listing), separator(route)
    if not found.count:
        return head + b"]}\n"
    length = len(head) + found.size + found.count * (len(opening) + 1) + 2
    body = JoinedBody(head + opening, found.chunks, b"," + opening, b"]}\n", length)
    return body.read(length) if found.size <= WHOLE_BYTES else body


def _form(state: RequestState, route: Route, listing: Listing, accepted: Accepted) -> ListForm:
    if accepted.as_kind == "Table":
        return table_form(
            route, listing, tables.TableOptions(include_object(route), accepted.as_version, state.clock.now())
        )
    if accepted.as_kind is not None:
        return metadata_form(accepted.as_version, listing)
    return plain_form(route, listing)


async def _aside(route: Route, size: int, step: Callable[[bytes], bytes], body: bytes) -> bytes:
    """Run `step` on a large object in a thread."""
    assert route.resource is not None
    return await route.resource.settings.workers.go_on(size, step, body)


async def _made(route: Route, form: ListForm, found: _Found) -> bytes:
    return b"".join([piece async for piece in _pieces(route, form, found)])


async def _pieces(route: Route, form: ListForm, found: _Found) -> AsyncIterator[bytes]:
    if not found.count:
        yield form.empty
        return
    parts = [form.before(found.count)]
    size, between = 0, b""
    async for bodies in _bodies(route, found):
        for body in bodies:
            size_aside = weight(body)
            item = await _aside(route, size_aside, form.item, body) if size_aside else form.item(body)
            parts += (between, item)
            between = form.between
            size += len(item)
        if size >= PIECE_BYTES:
            yield b"".join(parts)
            parts, size = [], 0
    parts.append(form.after)
    yield b"".join(parts)


async def _bodies(route: Route, found: _Found) -> AsyncIterator[list[bytes]]:
    """All objects as bodies in the requested version, a few at a time, with pauses for the event loop."""
    pacer = Pacer()
    resource, version, converts = route.stored(), route.version, _converts(route)
    step = AWAITED_STEP if converts and resource is not None and resource.served.converter.waits else STEP
    for chunk in found.chunks:
        for items in _few(chunk, step):
            await pacer.turn()
            if not converts or isinstance(items[0], bytes):
                yield bodies_of(items)
            else:
                assert resource is not None
                yield await _converted(resource, cast("Sequence[Entry]", items), version)


def _few(chunk: Items, step: int) -> Iterable[Items]:
    """Up to `step` objects at a time, fewer if they are large."""
    start = size = 0
    for at, item in enumerate(chunk):
        size += len(item if isinstance(item, bytes) else cast(Entry, item).body)
        if size >= PIECE_BYTES or at - start >= step - 1:
            yield chunk[start : at + 1]
            start, size = at + 1, 0
    if start < len(chunk):
        yield chunk[start:]


async def _body(resource: StoredResource, entry: Entry, version: str) -> bytes:
    made = resource.body_now(entry, version) if not weight(entry.body) else None
    return await resource.body(entry, version) if made is None else made


async def _converted(resource: StoredResource, entries: Sequence[Entry], version: str) -> list[bytes]:
    """Convert entries. Raises the error of the first that can't be converted."""
    if not resource.served.converter.waits:
        return [await _body(resource, entry, version) for entry in entries]
    bodies: list[bytes] = []
    for body in await resource.bodies_of(entries, version):
        if isinstance(body, StatusError):
            raise body
        bodies.append(body)
    return bodies


async def _whole(state: RequestState, route: Route, found: _Found, accepted: Accepted) -> Response:
    """A list in a form that is made as a whole. Raises TooManyRequests if too many bytes are unsent already."""
    size = OVERHEAD * found.size if found.size > WHOLE_BYTES else 0
    state.unsent.reserve(size)
    try:
        if accepted.media_type == PROTOBUF:
            response = await _in_protobuf(state, route, found, accepted)
        else:
            form = _form(state, route, found.listing, accepted)
            items = [form.item(body) async for bodies in _bodies(route, found) for body in bodies]
            data = await offload(found.size, in_yaml, form, items)
            response = await compressed(state, Response(200, [("content-type", accepted.response_content_type)], data))
    except BaseException:
        state.unsent.add(-size)
        raise
    response.on_sent(lambda whole: state.unsent.add(-size))
    return response


async def _in_protobuf(state: RequestState, route: Route, found: _Found, accepted: Accepted) -> Response:
    entry = route.entry
    assert entry is not None
    message, version = entry.protobuf, accepted.as_version
    if accepted.as_kind is None:
        assert message is not None

    def made(body: bytes) -> bytes:
        if message is None or accepted.as_kind is not None:
            return protobuf.message_of(partial(body, version))
        return object_message(message, b"{" + body)

    items: list[bytes] = []
    async for bodies in _bodies(route, found):
        items += [await _aside(route, size, made, body) if (size := weight(body)) else made(body) for body in bodies]
    kind = (f"meta.k8s.io/{version}", "PartialObjectMetadataList")
    if accepted.as_kind is None:
        kind = (entry.api_version, entry.list_kind)
    data = protobuf.list_of(*kind, list_meta(found.listing), items)
    return await compressed(state, Response(200, [("content-type", PROTOBUF)], data))
