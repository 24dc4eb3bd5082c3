"""GET with ``watch``: the events of a resource, sent as they happen.

The verb checks the request and answers with a stream. Events of a stored resource come from the cache, with initial
objects or events that were missed: a `Watcher` connects the cache, which calls it on the event loop for each batch of
events, to the stream, which buffers without waiting. Those of a virtual resource are read from the user's `watch` by a
task. See also: ``watching``. Source: "Watch" in the API concepts; KEP-3157.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple

from oarlock.codec import json as json_codec
from oarlock.endpoints import respond
from oarlock.endpoints.channels.upgrades import wants_websocket
from oarlock.endpoints.errors import as_status_error
from oarlock.endpoints.http import Response, Stream
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.routing.route import ResourceRoute, Verb
from oarlock.endpoints.verbs.read import check_may_see
from oarlock.endpoints.watching.event_frames import EventForm, EventFrames
from oarlock.endpoints.watching.watcher import Start, Watcher
from oarlock.meta import fields, options_parse
from oarlock.meta.errors import BadRequest, InternalError, InvalidObject, MethodNotAllowed, NotAcceptable
from oarlock.meta.fielderrors import Forbidden
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupKind
from oarlock.meta.options import ListOptions
from oarlock.registry.read import recipes as read
from oarlock.registry.stored.form import encode_body
from oarlock.registry.stored.resource import StoredResource
from oarlock.registry.virtual.resource import VirtualResource
from oarlock.storage.pacing import Pacer

SHORTEST_S = 1800.0
"""In seconds. A watch without timeoutSeconds ends after a random time between this and twice this."""


class WatchRequest(NamedTuple):
    """What a client asks of a watch: which events, in which form, and for how long."""

    options: ListOptions
    form: EventForm
    timeout_s: float


StreamStart = Callable[[Stream], None]
"""Called when the head of the answer was sent: begins to write to the stream."""

OpenStream = Callable[[RequestState, ResourceRoute, WatchRequest], Awaitable[StreamStart]]
"""Settles where a watch begins. What it raises is an ordinary answer."""


def watch(source: OpenStream) -> Verb:
    """The verb that answers with a stream of the events of `source`. Errors after its begin are ERROR events."""

    async def answer_with_events(state: RequestState, route: ResourceRoute) -> Response:
        accepted = respond.accept(state, route, stream=True)
        if accepted.as_kind == "PartialObjectMetadataList":
            raise NotAcceptable("a watch gives single objects: ask for PartialObjectMetadata")
        include = respond.include_object(route) if accepted.as_kind == "Table" else ""
        options = route.options
        if options is None:
            options = route.options = options_parse.list_options(route.pairs, watch=True)
        await check_may_see(state, route, options)
        timeout_s = float(options.timeout_seconds or SHORTEST_S * (1 + random.random()))
        form = EventForm(route, accepted, include, state.clock)
        start = await source(state, route, WatchRequest(options, form, timeout_s))
        if wants_websocket(state.request):
            # Imported here, because few clients watch so, and the WebSocket code takes a tenth of a server's start.
            from oarlock.endpoints.watching.over_websocket import over_websocket  # noqa: PLC0415 (see above)

            return over_websocket(state, start, accepted.media_type)
        return Response(200, [("content-type", accepted.response_content_type)], stream=start)

    return answer_with_events


class _Begin(NamedTuple):
    """`initial`: send existing objects first, as ADDED. `after`: the revision the events follow (None: now)."""

    initial: bool
    after: int | None
    annotated: bool


def stored_events(resource: StoredResource) -> OpenStream:
    """The events of `resource`."""

    async def source(state: RequestState, route: ResourceRoute, watch: WatchRequest) -> StreamStart:
        options, target = watch.options, route.target
        read.check_ready(resource)
        selection = await read.select(resource, route.target.version, options)
        if selection.name and target.name not in ("", fields.parse(options.field_selector).exact("metadata.name")):
            raise BadRequest("fieldSelector metadata.name doesn't match requested name")
        begin = await _begin(resource, options)
        frames = EventFrames(resource, route, watch.form)
        start = Start(
            namespace=target.namespace,
            name=target.name if not selection.name else "",
            selection=selection,
            initial=begin.initial,
            after=begin.after,
            bookmarks=options.allow_watch_bookmarks,
            annotated=begin.annotated,
            timeout_s=watch.timeout_s,
            on_initial_sent=state.on_initial_sent,
        )
        return lambda stream: Watcher(resource, route, stream, frames, start).run()

    return source


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


log = logging.getLogger("oarlock.endpoints")

AHEAD_BYTES = 256 * 1024


def virtual_events(resource: VirtualResource) -> OpenStream:
    """The events that the `watch` of `resource` yields, until the timeout, which cancels the method."""

    async def source(state: RequestState, route: ResourceRoute, watch: WatchRequest) -> StreamStart:
        if resource.methods.watch is None:
            raise MethodNotAllowed(route.target.group_resource, "watch")
        await _check_initial_events(resource, state, route, watch)
        events = await resource.watch(state.context(options=watch.options), route.target.version, watch.options)
        book = route.watches

        def start(stream: Stream) -> None:
            loop = asyncio.get_running_loop()
            task = loop.create_task(_send(state, stream, watch.form, events))
            timer = loop.call_later(watch.timeout_s, stream.close)
            forget = resource.on_end(stream.close)

            def ended() -> None:
                task.cancel()
                timer.cancel()
                forget()
                book.release(stream.close)

            stream.on_close(ended)
            book.add(stream.close)

        return start

    return source


async def _check_initial_events(
    resource: VirtualResource, state: RequestState, route: ResourceRoute, watch: WatchRequest
) -> None:
    """Refuse sendInitialEvents if their end can't be known. Raises InvalidObject.

    The client then falls back to list and watch, as before KEP-3157.
    """
    options = watch.options
    if route.query("sendInitialEvents") is None or not options.send_initial_events:
        return
    if not await resource.knows_when_all_was_told(state.context(options=options), route.target.version):
        why = (
            "sendInitialEvents is forbidden for watch unless the resource is stored, or its list has a resourceVersion"
        )
        raise InvalidObject(GroupKind("meta.k8s.io", "ListOptions"), "", [Forbidden("sendInitialEvents", why)])


async def _send(state: RequestState, stream: Stream, form: EventForm, events: AsyncIterator[tuple[str, Tree]]) -> None:
    pacer = Pacer()
    try:
        async for kind, tree in events:
            body = form.bookmark(tree["metadata"]) if kind == "BOOKMARK" else form.object(encode_body(tree))
            stream.write(form.frame(kind, body))
            if stream.buffered > AHEAD_BYTES:
                await stream.drained()
            await pacer.turn()  # let others run: a method that never waits would block the event loop
    except Exception as error:  # an error of users' code ends its own watch only
        status = as_status_error(error, state)
        if status is None:
            log.exception("the watch of %s failed", state.target.group_resource)
            status = InternalError("the server's log has more")
        stream.write(form.frame("ERROR", json_codec.encode(status.status())))
    stream.close()
