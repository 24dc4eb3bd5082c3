"""`until_initialized`: waits for the end of an object's initialization, whichever server it happens on.

What waits follows the watch cache from the revision that the create made, so nothing is missed. See also:
`initializing`, the rules; ``endpoints.verbs.initialized``, the request that waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from oarlock.client.error_statuses import error_of_tree
from oarlock.meta.errors import InternalError, StatusError, Timeout
from oarlock.registry.stored.resource import StoredResource
from oarlock.registry.write.initializing import is_uninitialized
from oarlock.storage.backend import Unavailable
from oarlock.storage.cache.entry import Entry
from oarlock.storage.cache.events import CacheEvent, TooOld

__all__ = ["refusal", "until_initialized"]

_OnInitialized = Callable[[Entry | Exception], None]


def refusal(entry: Entry) -> StatusError | None:
    """The error that an initializer has left in the object, if one has refused it."""
    tree = msgspec.json.decode(b"{" + entry.body)
    result = (tree["metadata"].get("initializers") or {}).get("result")
    if result is None:
        return None
    code = result.get("code")
    known = {**result, "code": code if isinstance(code, int) and 400 <= code < 600 else 500}
    return error_of_tree(known)


async def until_initialized(resource: StoredResource, entry: Entry, timeout_s: float) -> Entry:
    """The object once it is initialized; `entry` is what it was when it was created.

    Raises the error it was refused with; Timeout after `timeout_s`; InternalError if it was deleted meanwhile.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Entry] = loop.create_future()
    what = f"the initialization of {resource.definition.group_resource} {entry.name}"
    late = Timeout(f"server has timed out waiting for {what}")

    def end(outcome: Entry | Exception) -> None:
        if done.done():
            return
        if isinstance(outcome, Entry):
            done.set_result(outcome)
        else:
            done.set_exception(outcome)

    def look(events: Sequence[CacheEvent]) -> None:
        for event in events:
            if event.entry.key == entry.key and (event.type == "DELETED" or not event.entry.broken):
                _judge(event, end)

    try:
        subscription = resource.cache.subscribe(entry.rev, look, lambda error: end(late))
    except (TooOld, Unavailable):
        raise late from None
    timer = loop.call_later(max(0.0, timeout_s), end, late)
    try:
        return await done
    finally:
        timer.cancel()
        subscription.close()


def _judge(event: CacheEvent, end: _OnInitialized) -> None:
    if is_uninitialized(event.entry):
        error = refusal(event.entry)
        if error is None and event.type == "DELETED":
            error = InternalError("object deleted while waiting for creation")
        if error is not None:
            end(error)
    elif event.type == "DELETED":
        end(InternalError("object deleted while waiting for creation"))
    else:
        end(event.entry)
