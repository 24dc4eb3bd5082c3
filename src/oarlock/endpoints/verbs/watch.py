"""GET with ``watch``: the events of a resource, sent as they happen.

The verb checks the request and answers with a stream. See also: `watch_stored` and `watch_virtual`, where the
events come from; ``watching.over_websocket``.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from oarlock.endpoints import respond
from oarlock.endpoints.channels.upgrades import wants_websocket
from oarlock.endpoints.http import Response, Stream
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.routing.route import ResourceRoute, Verb
from oarlock.endpoints.verbs.initialized import check_may_see
from oarlock.endpoints.watching.event_frames import EventForm
from oarlock.endpoints.watching.over_websocket import over_websocket
from oarlock.meta import options_parse
from oarlock.meta.errors import NotAcceptable
from oarlock.meta.options import ListOptions

__all__ = ["OpenStream", "StreamStart", "WatchRequest", "watch"]

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
        options = options_parse.list_options(route.pairs, watch=True)
        await check_may_see(state, route, options)
        timeout_s = float(options.timeout_seconds or SHORTEST_S * (1 + random.random()))
        form = EventForm(route, accepted, include, state.clock)
        start = await source(state, route, WatchRequest(options, form, timeout_s))
        if wants_websocket(state.request):
            return over_websocket(state, start, accepted.media_type)
        return Response(200, [("content-type", accepted.response_content_type)], stream=start)

    return answer_with_events
