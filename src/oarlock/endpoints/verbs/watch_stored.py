"""The events of a watch of a stored resource: from the cache, with initial objects or events that were missed.

A `Watcher` connects the cache, which calls it on the event loop for each batch of events, to the stream, which buffers
without waiting. A watcher that isn't behind needs no task and no queue. See also: ``watching.event_frames`` for the
encoding of events. Source: "Watch" in the API concepts; KEP-3157.
"""

from __future__ import annotations

from typing import NamedTuple

from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.routing.route import ResourceRoute
from oarlock.endpoints.verbs.watch import OpenStream, StreamStart, WatchRequest
from oarlock.endpoints.watching.event_frames import EventFrames
from oarlock.endpoints.watching.watcher import Start, Watcher
from oarlock.meta import fields
from oarlock.meta.errors import BadRequest
from oarlock.meta.options import ListOptions
from oarlock.registry.read import recipes as read
from oarlock.registry.stored.resource import StoredResource

__all__ = ["stored_events"]


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
        selection = await read.select(resource, route.version, options)
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
