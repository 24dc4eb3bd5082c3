"""`InitialEvents`: the events with which a watch without a revision begins: what exists, one ``ADDED`` for each.

They come in the order of keys, so none of their revisions is a place to go on from. When the connection breaks among
them, everything is asked for again, and only what is new to the reader is passed on.
See also: `watching`, which goes on after them.
Source: client-go ``tools/cache/reflector.go``; KEP-3157.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from oarlock.client.informers.watching import Received
from oarlock.client.objects import metadata_of
from oarlock.client.transport import ClientResponse
from oarlock.meta.errors import StatusError
from oarlock.meta.kinds import NamespacedName
from oarlock.meta.options_parse import QueryPairs

__all__ = ["INITIAL_EVENTS_END", "UNKNOWN_TO_SERVER", "InitialEvents", "watch_list"]

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
UNKNOWN_TO_SERVER = (400, 405, 415, 422, 501)
"""What servers answer that don't have WatchList."""


class InitialEvents:
    """The initial events of one watch. Those that were passed on are remembered until all have `ended`.

    They end with a bookmark that says so. Servers that don't send one have sent all when anything else than ``ADDED``
    comes.
    """

    def __init__(self) -> None:
        self.ended = False
        self.version = ""
        """Where to go on from; empty before the end."""
        self._passed: dict[NamespacedName, Received] = {}
        self._missing: set[NamespacedName] = set()

    def begin(self) -> None:
        """They come once more."""
        self._missing = set(self._passed)

    def taken(self, batch: list[Received]) -> list[Received]:
        """What of these events is new to the reader, the deletion of what has gone meanwhile included."""
        new: list[Received] = []
        for at, event in enumerate(batch):
            if event.type != "ADDED":
                new += [self._passed[place]._replace(type="DELETED") for place in sorted(self._missing)]
                new += batch[at:]
                self.version = next((event.version for event in reversed(batch[at:]) if event.version), "")
                self.ended = bool(self.version)
                self._passed, self._missing = {}, set()
                break
            metadata = metadata_of(event.object)
            place = str(metadata.get("namespace", "")), str(metadata.get("name", ""))
            before = self._passed.get(place)
            self._missing.discard(place)
            self._passed[place] = event
            if before is None:
                new.append(event)
            elif before.version != event.version:
                new.append(event._replace(type="MODIFIED"))
        return new


async def watch_list(
    ask: Callable[[QueryPairs], Awaitable[ClientResponse]], with_list: QueryPairs, without: QueryPairs
) -> ClientResponse:
    """A watch that begins with everything, and says where that ends if the server can. Raises StatusError."""
    try:
        return await ask(with_list)
    except StatusError as error:
        if error.code not in UNKNOWN_TO_SERVER:
            raise
    return await ask(without)
