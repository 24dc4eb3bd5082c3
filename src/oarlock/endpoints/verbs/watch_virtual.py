"""A watch of a virtual resource: a task reads events from the user's `watch` and writes them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

from oarlock.codec import json as json_codec
from oarlock.endpoints.http import Response, Stream
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.respond import as_status_error
from oarlock.endpoints.route import Route
from oarlock.endpoints.watching.event_frames import EventForm
from oarlock.meta.errors import InternalError, InvalidObject, MethodNotAllowed
from oarlock.meta.fielderrors import Forbidden
from oarlock.meta.kinds import GroupKind
from oarlock.meta.options import ListOptions
from oarlock.registry.served import Tree
from oarlock.registry.stored_form import encode_body
from oarlock.registry.virtual_resource import VirtualResource
from oarlock.storage.pacing import Pacer

__all__ = ["watch_virtual"]

log = logging.getLogger("oarlock.endpoints")

AHEAD_BYTES = 256 * 1024


async def watch_virtual(
    state: RequestState,
    route: Route,
    options: ListOptions,
    headers: list[tuple[str, str]],
    timeout_s: float,
    form: EventForm,
) -> Response:
    """Answer with the events the user's `watch` yields, until the timeout, which cancels the method.

    If the end of the initial events can't be known, a request for sendInitialEvents is refused, and the client falls
    back to list and watch, as before KEP-3157. Raises MethodNotAllowed, InvalidObject.
    """
    resource = route.resource
    assert isinstance(resource, VirtualResource)
    if resource.methods.watch is None:
        raise MethodNotAllowed(route.target.group_resource, "watch")
    ctx = state.context(options=options)
    asked = route.query("sendInitialEvents") is not None and options.send_initial_events
    if asked and not await resource.knows_when_all_was_told(ctx, route.version):
        why = (
            "sendInitialEvents is forbidden for watch unless the resource is stored, or its list has a resourceVersion"
        )
        raise InvalidObject(GroupKind("meta.k8s.io", "ListOptions"), "", [Forbidden("sendInitialEvents", why)])
    events = await resource.watch(ctx, route.version, options)

    def start(stream: Stream) -> None:
        loop = asyncio.get_running_loop()
        task = loop.create_task(_follow(state, stream, form, events))
        timer = loop.call_later(timeout_s, stream.close)
        forget = resource.on_end(stream.close)
        assert route.watches is not None
        book = route.watches

        def ended() -> None:
            task.cancel()
            timer.cancel()
            forget()
            book.release(stream.close)

        stream.on_close(ended)
        book.add(stream.close)

    return Response(200, headers, stream=start)


async def _follow(
    state: RequestState, stream: Stream, form: EventForm, events: AsyncIterator[tuple[str, Tree]]
) -> None:
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
