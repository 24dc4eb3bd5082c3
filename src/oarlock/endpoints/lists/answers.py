"""List answers, produced while they are sent.

A list in the stored version as JSON only joins the cache's bytes, which all clients share. Tables, metadata lists and
other versions cost a few microseconds per object, with pauses for the event loop. A small list is made at once, a large
one piece by piece. A form that can only be made as a whole (protobuf, YAML) counts against the budget of unsent bytes.
Must not know: selectors, revisions. See also: `lists.forms`, ``verbs.read``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence

from oarlock.codec import protobuf
from oarlock.endpoints.http import Response
from oarlock.endpoints.in_protobuf import MessageEncoder, MetadataEncoder
from oarlock.endpoints.lists import forms
from oarlock.endpoints.lists.forms import (
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
from oarlock.endpoints.lists.packed_lists import BodyPart, JoinedBody, ListText, packed_list
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.respond import (
    CBOR,
    JSON,
    PROTOBUF,
    Accepted,
    accepts_gzip,
    compressed,
    include_object,
    is_pretty,
    offload,
    wrong_plurality,
)
from oarlock.endpoints.routing.route import ResourceRoute
from oarlock.meta.dataclass import dataclass
from oarlock.registry.conversions import Encode
from oarlock.registry.read.recipes import Listing, ListItem
from oarlock.registry.workers import offload_bytes
from oarlock.storage.cache.state import measure
from oarlock.storage.pacing import Pacer

WHOLE_BYTES = 128 * 1024
"""A list whose objects have no more bytes is made at once."""

PIECE_BYTES = 64 * 1024
"""The approximate size of the pieces of a longer list."""

STEP = 50
"""After how many converted objects the clock is looked at."""

AWAITED_BYTES = 4 * 1024 * 1024
"""About how many bytes of objects are converted in one call if conversion has to wait."""

OVERHEAD = 3
"""The memory for making a whole list, as a multiple of its objects' bytes."""


@dataclass(frozen=True, slots=True)
class _Contents:
    """The objects of a list. `size` is in bytes."""

    listing: Listing
    chunks: Sequence[Sequence[ListItem]]
    count: int
    size: int


async def list_response(state: RequestState, route: ResourceRoute, listing: Listing, accepted: Accepted) -> Response:
    """A list in the negotiated form. Raises TooManyRequests if the budget of unsent bytes is exhausted."""
    entry = route.entry
    wrong = wrong_plurality(accepted.as_kind, listed=True, group=entry.gvk.group, kind=entry.list_kind)
    if wrong is not None:
        raise wrong
    contents = await _collect(listing)
    if listing.version != route.target.version:
        # Convert all objects before the answer begins: an error halfway couldn't be reported.
        await _convert_all(route, contents)
    if accepted.media_type not in (JSON, CBOR):
        return await _whole(state, route, contents, accepted)
    content_type = [("content-type", accepted.response_content_type)]
    pretty = is_pretty(state, route, accepted)
    if (
        accepted.media_type == JSON
        and accepted.as_kind is None
        and not pretty
        and listing.version == route.target.version
    ):
        return await _plain(state, route, contents, content_type)
    form = _form(state, route, listing, accepted)
    if accepted.media_type == CBOR:
        form = as_cbor(form)
    elif pretty:
        form = indented(form)
    if contents.size <= WHOLE_BYTES:
        return await compressed(state, Response(200, content_type, await _whole_body(route, form, contents)))
    return await compressed(state, Response(200, content_type, _pieces(route, form, contents)))


async def _collect(listing: Listing) -> _Contents:
    pacer: Pacer | None = None
    chunks: list[Sequence[ListItem]] = []
    count = size = 0
    for chunk in listing.chunks:
        if not chunk:
            continue
        if chunks:  # most lists have one chunk
            pacer = pacer or Pacer()
            await pacer.turn()
        chunks.append(chunk)
        count += len(chunk)
        size += measure(chunk).size
    return _Contents(listing, chunks, count, size)


async def _plain(
    state: RequestState, route: ResourceRoute, contents: _Contents, headers: list[tuple[str, str]]
) -> Response:
    """A list that joins the cache's bytes, in gzip that of its leaves."""
    head, opening = list_head(route.entry, contents.listing), separator(route)
    if not contents.count:
        return Response(200, headers, head + b"]}\n")
    text = ListText(head + opening, b"," + opening, b"]}\n")
    if contents.size <= WHOLE_BYTES:
        return await compressed(state, Response(200, headers, _joined(text, contents.chunks)))
    length = len(head) + contents.size + contents.count * (len(opening) + 1) + 2
    response = Response(200, headers, JoinedBody(text.before, contents.chunks, text.between, text.after, length))
    accepts = accepts_gzip(state.request.headers.get("accept-encoding", ""))
    if accepts and await packed_list(state.unsent, response, text, contents.chunks, contents.size):
        return response
    return await compressed(state, response)


def _joined(text: ListText, chunks: Sequence[Sequence[ListItem]]) -> bytes:
    """The whole list, copied once."""
    bodies = [item.body for chunk in chunks for item in chunk]
    bodies[0] = text.before + bodies[0]
    bodies[-1] += text.after
    return text.between.join(bodies)


def _form(state: RequestState, route: ResourceRoute, listing: Listing, accepted: Accepted) -> ListForm:
    if accepted.as_kind == "Table":
        return table_form(
            route, listing, forms.TableOptions(include_object(route), accepted.as_version, state.clock.now())
        )
    if accepted.as_kind is not None:
        return metadata_form(accepted.as_version, listing)
    return plain_form(route, listing)


async def _in_thread(route: ResourceRoute, size: int, step: Callable[[bytes], bytes], body: bytes) -> bytes:
    """Run `step` on a large object in a thread."""
    return await route.resource.settings.workers.go_on(size, step, body)


async def _whole_body(route: ResourceRoute, form: ListForm, contents: _Contents) -> bytes:
    return b"".join([piece async for piece in _pieces(route, form, contents)])


async def _pieces(route: ResourceRoute, form: ListForm, contents: _Contents) -> AsyncIterator[bytes]:
    if not contents.count:
        yield form.empty
        return
    parts = [form.before(contents.count)]
    size, between = 0, b""
    async for bodies in _bodies(route, contents):
        for body in bodies:
            large = offload_bytes(body)
            item = await _in_thread(route, large, form.item, body) if large else form.item(body)
            parts += (between, item)
            between = form.between
            size += len(item)
        if size >= PIECE_BYTES:
            yield b"".join(parts)
            parts, size = [], 0
    parts.append(form.after)
    yield b"".join(parts)


async def _bodies(route: ResourceRoute, contents: _Contents) -> AsyncIterator[Sequence[bytes]]:
    """All objects as bodies in the requested version, a few at a time, with pauses for the event loop."""
    pacer = Pacer()
    for chunk in contents.chunks:
        for items in _batches(chunk):
            await pacer.turn()
            yield await route.resource.list_bodies(items, route.target.version)


async def _convert_all(route: ResourceRoute, contents: _Contents) -> None:
    """Convert all objects, so that their bodies are in the cache. Raises the error of the first that can't be."""
    if not route.resource.served.converter.waits:
        if contents.size > WHOLE_BYTES:
            async for _ in _bodies(route, contents):
                pass
        return
    items: list[ListItem] = []
    size = 0
    for chunk in contents.chunks:
        for item in chunk:
            items.append(item)
            size += len(item.body)
            if size >= AWAITED_BYTES:
                await route.resource.list_bodies(items, route.target.version)
                items, size = [], 0
    if items:
        await route.resource.list_bodies(items, route.target.version)


def _batches(chunk: Sequence[ListItem]) -> Iterable[Sequence[ListItem]]:
    """Up to `STEP` objects at a time, fewer if they are large."""
    start = size = 0
    for at, item in enumerate(chunk):
        size += len(item.body)
        if size >= PIECE_BYTES or at - start >= STEP - 1:
            yield chunk[start : at + 1]
            start, size = at + 1, 0
    if start < len(chunk):
        yield chunk[start:]


async def _whole(state: RequestState, route: ResourceRoute, contents: _Contents, accepted: Accepted) -> Response:
    """A list in a form that is made as a whole. Raises TooManyRequests if too many bytes are unsent already."""
    size = OVERHEAD * contents.size if contents.size > WHOLE_BYTES else 0
    state.unsent.reserve(size)
    try:
        if accepted.media_type == PROTOBUF:
            response = await _in_protobuf(state, route, contents, accepted)
        else:
            form = _form(state, route, contents.listing, accepted)
            items = [form.item(body) async for bodies in _bodies(route, contents) for body in bodies]
            data = await offload(contents.size, in_yaml, form, items)
            response = await compressed(state, Response(200, [("content-type", accepted.response_content_type)], data))
    except BaseException:
        state.unsent.add(-size)
        raise
    response.on_sent(lambda whole: state.unsent.add(-size))
    return response


async def _in_protobuf(state: RequestState, route: ResourceRoute, contents: _Contents, accepted: Accepted) -> Response:
    entry, version = route.entry, accepted.as_version
    message = entry.protobuf if accepted.as_kind is None else None
    kind = (f"meta.k8s.io/{version}", "PartialObjectMetadataList")
    encode: Encode = MetadataEncoder(version)
    if message is not None:
        kind = (entry.api_version, entry.list_kind)
        encode = MessageEncoder(message)
    pacer = Pacer()
    pieces: list[bytes] = []
    for chunk in contents.chunks:
        for batch in _batches(chunk):
            await pacer.turn()
            pieces.append(protobuf.listed(await route.resource.list_encoded(batch, route.target.version, encode)))
    size = sum(map(len, pieces))
    before, after = protobuf.list_ends(*kind, list_meta(contents.listing), size)
    response = Response(200, [("content-type", PROTOBUF)])
    if size <= WHOLE_BYTES:
        response.body = b"".join((before, *pieces, after))
    else:  # joined while it is sent: one copy of a long list would hold the event loop
        parts = [[BodyPart(piece) for piece in pieces]]
        response.body = JoinedBody(before, parts, b"", after, len(before) + size + len(after))
    return await compressed(state, response)
