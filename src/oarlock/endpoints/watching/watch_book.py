"""`WatchBook`: the open-ended answers of a server, so that they can be ended.

Must not know: what is sent. See also: `watcher`, ``verbs.long_running``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from oarlock.registry.served_resource import ServedResource

__all__ = ["WatchBook"]


class WatchBook:
    """The open watches, to end them on shutdown, and how many events were sent for each resource.

    `held` has the other open-ended answers, with their resources. One that is added after shutdown began, or after its
    resource was withdrawn, ends at once.
    """

    __slots__ = ("_closed", "_served", "events", "held", "open")

    def __init__(self) -> None:
        self.open: set[Callable[[], None]] = set()
        self.held: dict[Callable[[], None], ServedResource] = {}
        self.events: dict[tuple[str, str, str], int] = {}
        self._closed = False
        self._served: frozenset[int] | None = None  # None: no resource was withdrawn yet

    def add(self, end: Callable[[], None]) -> None:
        """A watch has begun: call `end` on shutdown."""
        if self._closed:
            end()
        else:
            self.open.add(end)

    def hold(self, end: Callable[[], None], resource: ServedResource) -> None:
        """Call `end` on shutdown, or when `resource` is withdrawn or replaced."""
        if self._closed or (self._served is not None and id(resource) not in self._served):
            end()
        else:
            self.held[end] = resource

    def release(self, end: Callable[[], None]) -> None:
        """Undo `add` or `hold` for `end`."""
        self.open.discard(end)
        self.held.pop(end, None)

    def withdraw(self, kept: Collection[ServedResource]) -> None:
        """End what is held for resources that are not in `kept`, now or later."""
        self._served = served = frozenset(map(id, kept))
        for end, resource in list(self.held.items()):
            if id(resource) not in served:
                end()

    def end_all(self) -> None:
        """End everything, for shutdown."""
        self._closed = True
        for end in (*self.open, *self.held):
            end()
