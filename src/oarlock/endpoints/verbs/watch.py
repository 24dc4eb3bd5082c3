"""GET with ``watch``: the events of a resource, sent as they happen.

The verb settles where the watch begins and answers with a stream. A `Watcher` then connects the cache, which calls it
on the event loop for each batch of events, to the stream, which buffers without waiting. A watcher that isn't behind
needs no task and no queue. See also: `event_frames` for the encoding of events.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from oarlock.endpoints import respond
from oarlock.endpoints.channels.upgrades import wants_websocket
from oarlock.endpoints.http import Response, Stream
from oarlock.endpoints.negotiation import Accepted
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.route import Route
from oarlock.endpoints.verbs.watch_virtual import watch_virtual
from oarlock.endpoints.watching.event_frames import EventForm, EventFrames
from oarlock.endpoints.watching.over_websocket import over_websocket
from oarlock.endpoints.watching.watcher import Start, Watcher
from oarlock.meta import fields, options_parse
from oarlock.meta.errors import BadRequest, NotAcceptable
from oarlock.meta.options import ListOptions
from oarlock.registry import read
from oarlock.registry.selection import Selection
from oarlock.registry.stored_resource import StoredResource
from oarlock.registry.virtual_resource import VirtualResource

__all__ = ["watch"]

SHORTEST_S = 1800.0
"""In seconds. A watch without timeoutSeconds ends after a random time between this and twice this."""


@dataclass(frozen=True, slots=True)
class _Begin:
    """`initial`: send existing objects first, as ADDED. `after`: the revision the events follow (None: now)."""

    initial: bool
    after: int | None
    annotated: bool


async def watch(state: RequestState, route: Route) -> Response:
    """Answer with a stream. Errors in the request are ordinary answers; later errors are ERROR events."""
    accepted = respond.accept(state, stream=True)
    response = await _stream(state, route, accepted)
    return over_websocket(state, response, accepted.media_type) if wants_websocket(state.request) else response


async def _stream(state: RequestState, route: Route, accepted: Accepted) -> Response:
    if accepted.as_kind == "PartialObjectMetadataList":
        raise NotAcceptable("a watch gives single objects: ask for PartialObjectMetadata")
    include = respond.include_object(route) if accepted.as_kind == "Table" else ""
    options = options_parse.list_options(route.pairs, watch=True)
    headers = [("content-type", accepted.response_content_type)]
    timeout_s = float(options.timeout_seconds or SHORTEST_S * (1 + random.random()))
    if isinstance(route.resource, VirtualResource):
        form = EventForm(route, accepted, include, state.clock)
        return await watch_virtual(state, route, options, headers, timeout_s, form)
    resource = route.stored()
    assert resource is not None
    read.check_ready(resource)
    selection = await read.select(resource, route.version, options)
    if selection.name and route.target.name not in ("", fields.parse(options.field_selector).exact("metadata.name")):
        raise BadRequest("fieldSelector metadata.name doesn't match requested name")
    begin = await _begin(resource, options)
    frames = EventFrames(route, EventForm(route, accepted, include, state.clock))

    def start(stream: Stream) -> None:
        Watcher(route, stream, frames, _start(route, options, selection, begin, timeout_s)).run()

    return Response(200, headers, stream=start)


def _start(route: Route, options: ListOptions, selection: Selection, begin: _Begin, timeout_s: float) -> Start:
    name = route.target.name
    return Start(
        namespace=route.target.namespace,
        name=name if not selection.name else "",
        selection=selection,
        initial=begin.initial,
        after=begin.after,
        bookmarks=options.allow_watch_bookmarks,
        annotated=begin.annotated,
        timeout_s=timeout_s,
    )


async def _begin(resource: StoredResource, options: ListOptions) -> _Begin:
    """Where the watch begins. Raises BadRequest, TooLargeResourceVersion."""
    text = options.resource_version
    rev = read.revision(text)
    wants_initial = options.send_initial_events
    if wants_initial is None:
        wants_initial = not rev
    if not wants_initial:
        if rev:
            return _Begin(False, rev, False)
        await resource.fresh()
        return _Begin(False, None, False)
    if not text:
        await resource.fresh()
    elif rev:
        await read.wait_for(resource, rev)
    return _Begin(True, None, bool(options.send_initial_events))
