"""`WatchBook`: the open-ended answers of a server, so that they can be ended.

Must not know: what is sent. See also: `watcher`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any
from weakref import WeakSet

from oarlock.registry.served_resource import ServedResource
from oarlock.registry.stored.resource import StoredResource


def _everything(group: str, version: str, resource: str) -> object:
    return resource


class WatchBook:
    """The open watches, to end them on shutdown, and how many events were sent for each resource.

    `long_running` has the other open-ended answers, with their resources. One that is added after shutdown began, or
    after its resource was withdrawn, ends at once. `groups` has the
    watches of each resource that aren't behind (`watch_groups.watch_groups`).
    """

    __slots__ = ("_closed", "_withdrawn", "events", "groups", "long_running", "open")

    def __init__(self) -> None:
        self.open: set[Callable[[], None]] = set()
        self.long_running: dict[Callable[[], None], ServedResource] = {}
        self.events: dict[tuple[str, str, str], int] = {}
        self.groups: dict[StoredResource, Any] = {}
        self._closed = False
        self._withdrawn: WeakSet[ServedResource] = WeakSet()

    def add(self, end: Callable[[], None]) -> None:
        """A watch has begun: call `end` on shutdown."""
        if self._closed:
            end()
        else:
            self.open.add(end)

    def hold(self, end: Callable[[], None], resource: ServedResource) -> None:
        """Call `end` on shutdown, or when `resource` is withdrawn or replaced."""
        if self._closed or resource in self._withdrawn:
            end()
        else:
            self.long_running[end] = resource

    def release(self, end: Callable[[], None]) -> None:
        """Undo `add` or `hold` for `end`."""
        self.open.discard(end)
        self.long_running.pop(end, None)

    def withdraw(
        self, resources: Collection[ServedResource], find: Callable[[str, str, str], object] = _everything
    ) -> None:
        """End what goes on for `resources`, now or later. What `find` has no more isn't counted any longer."""
        self._withdrawn.update(resources)
        if resources:
            for labels in [labels for labels in self.events if find(*labels) is None]:
                del self.events[labels]
            for end, resource in list(self.long_running.items()):
                if resource in self._withdrawn:
                    end()

    def end_all(self) -> None:
        """End everything, for shutdown."""
        self._closed = True
        for end in (*self.open, *self.long_running):
            end()
