"""Events of the past for a watch that begins before the position of the feed.

A watch of etcd over all keys, as the feed's, read until the last event that the feed knows of has come: so it is
certain, with any version of etcd, that nothing is missing. Only events of the watch's range are made.

See also: `feed`, which delivers what comes later.
"""

from __future__ import annotations

import asyncio

from oarlock.storage.backend import Compacted, Rev, StorageError, StoreEvent, Unavailable
from oarlock.storage.etcd.client import EtcdClient
from oarlock.storage.etcd.keys import KeyMap
from oarlock.storage.etcd.watch_stream import WatchStream, event_of
from oarlock.storage.watchers import RangeWatch

__all__ = ["replay"]

REPLAY_S = 60.0
"""How long it may take: what is new is buffered meanwhile."""
ATTEMPTS = 5


async def replay(client: EtcdClient, keys: KeyMap, watch: RangeWatch, until: Rev, current_rev: Rev) -> None:
    """Deliver to `watch`, which holds new events back, those after its position up to `until`; then release it.

    If that fails, the watch fails.
    """
    try:
        async with asyncio.timeout(REPLAY_S):
            for attempt in range(ATTEMPTS):
                try:
                    await _read(client, keys, watch, until)
                    break
                except Compacted as error:
                    raise Compacted(error.compact_rev, max(current_rev, error.compact_rev)) from None
                except Unavailable:
                    if attempt == ATTEMPTS - 1:
                        raise
                    await asyncio.sleep(0.1 * attempt)
        watch.release()
    except TimeoutError:
        watch.fail(Unavailable(f"etcd didn't replay the history within {REPLAY_S:g} s"))
    except StorageError as error:
        watch.fail(error)


async def _read(client: EtcdClient, keys: KeyMap, watch: RangeWatch, until: Rev) -> None:
    start, end = watch.start, watch.end
    position = watch.last
    if position >= until:
        return

    def wanted(key: str) -> bool:
        return start <= key < end

    # From the position itself: at the next revision, etcd doesn't notice that this one is compacted.
    stream = WatchStream(client, client.choose(), keys.all, max(position, 1))
    try:
        held: list[StoreEvent] = []
        while not watch.closed and position < until:
            answer = await stream.read()
            for piece in answer.events:
                rev = piece.kv.mod_revision
                if rev > watch.last:
                    event = event_of(piece, keys, wanted)
                    if event is not None:
                        held.append(event)
                position = max(position, rev)
            if not answer.fragment and answer.events:
                ready, held = held, []
            else:
                ready = [event for event in held if event.rev < position]
                held = held[len(ready) :]
            if ready:
                watch.replay(ready, ready[-1].rev)
    finally:
        stream.cancel()
