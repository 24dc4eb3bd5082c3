"""The events of a watch of a virtual resource: a task reads them from the user's `watch` and writes them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

from oarlock.codec import json as json_codec
from oarlock.endpoints.errors import as_status_error
from oarlock.endpoints.http import Stream
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.routing.route import ResourceRoute
from oarlock.endpoints.verbs.watch import OpenStream, StreamStart, WatchRequest
from oarlock.endpoints.watching.event_frames import EventForm
from oarlock.meta.errors import InternalError, InvalidObject, MethodNotAllowed
from oarlock.meta.fielderrors import Forbidden
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupKind
from oarlock.registry.stored.form import encode_body
from oarlock.registry.virtual.resource import VirtualResource
from oarlock.storage.pacing import Pacer

__all__ = ["virtual_events"]

log = logging.getLogger("oarlock.endpoints")

AHEAD_BYTES = 256 * 1024


def virtual_events(resource: VirtualResource) -> OpenStream:
    """The events that the `watch` of `resource` yields, until the timeout, which cancels the method."""

    async def source(state: RequestState, route: ResourceRoute, watch: WatchRequest) -> StreamStart:
        if resource.methods.watch is None:
            raise MethodNotAllowed(route.target.group_resource, "watch")
        await _check_initial_events(resource, state, route, watch)
        events = await resource.watch(state.context(options=watch.options), route.version, watch.options)
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
    if not await resource.knows_when_all_was_told(state.context(options=options), route.version):
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
