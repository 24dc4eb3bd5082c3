"""`Informer`: what a server's own code reads of a resource it serves, always as new as its cache.

An admission plugin is handed one where a test would hand it a plain list: both are iterables of typed
objects. It reads the watch cache directly, so there is nothing to sync and nothing to lag behind.
Must not know: watches over the wire (``client``'s business). Next: ``policy.admission``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from oarlock.meta.errors import StatusError
from oarlock.registry.complaints import Complaints
from oarlock.registry.keys import object_key
from oarlock.registry.old_objects import reasons
from oarlock.registry.resource import Resource
from oarlock.registry.served import Tree
from oarlock.schema.views import ViewError, view
from oarlock.storage.cache.entry import Entry

__all__ = ["Informer", "NotRunning"]

T = TypeVar("T")

log = logging.getLogger("oarlock.registry")


class NotRunning(RuntimeError):
    """The informer isn't attached to a running server."""


class Informer(Generic[T]):
    """The live objects of `kind`, a declared class whose version they are shown in.

    Give it to ``APIServer(informers=[…])`` and to whatever reads it. Iterating takes a snapshot; an object
    is converted and decoded once per revision. Objects are shared: don't change them. One that no longer fits its
    class, or can't be converted, is left out, and named in the log.
    """

    def __init__(self, kind: type[T]) -> None:
        self.kind = kind
        self._resource: Resource | None = None
        self._version = ""
        self._views: dict[str, tuple[int, T | None]] = {}
        self._complaints = Complaints(log)

    def attach(self, find: Callable[[type[Any]], tuple[Resource, str]]) -> None:
        """Called by the server when its catalog is loaded: `find` gives the resource and version of a class."""
        self._resource, self._version = find(self.kind)
        self._views.clear()

    @property
    def synced(self) -> bool:
        return self._resource is not None

    def get(self, name: str, namespace: str = "") -> T | None:
        """The object; None where there is none, or none that can be read. Raises NotRunning."""
        resource = self._running()
        entry = resource.cache.get(object_key(resource.form.prefix, namespace, name))
        return None if entry is None else self._view(entry)

    def __iter__(self) -> Iterator[T]:
        resource = self._running()
        start, end = resource.range("")
        for chunk in resource.cache.snapshot().range(start, end):
            for entry in chunk:
                found = self._view(entry)
                if found is not None:
                    yield found

    def __len__(self) -> int:
        """How many objects there are, those that can't be read among them."""
        return len(self._running().cache)

    def _running(self) -> Resource:
        if self._resource is None:
            name = self.kind.__name__
            why = f"the informer of {name} was read before a server ran it"
            raise NotRunning(f"{why}: list it in APIServer(informers=[…])")
        return self._resource

    def _view(self, entry: Entry) -> T | None:
        if entry.broken:
            return None
        known = self._views.get(entry.key)
        if known is not None and known[0] == entry.rev:
            return known[1]
        made = self._read(entry)
        if len(self._views) > 2 * len(self._running().cache) + 16:
            self._views.clear()  # objects that are gone leave their views behind
        self._views[entry.key] = (entry.rev, made)
        return made

    def _read(self, entry: Entry) -> T | None:
        """None, and a line in the log, for an object that doesn't fit: whoever asks now has nothing to do with it."""
        name = f"{self.kind.__name__} {'/'.join(filter(None, (entry.namespace, entry.name)))}"
        try:
            made: T = view(self._tree(entry), self.kind)
        except NotRunning:
            raise
        except ViewError as error:
            why = f"left out of its informer, because the stored object doesn't fit its class: {reasons(error)}"
            self._complaints.tell(name, entry.rev, why)
            return None
        except StatusError as error:  # whose trace has been logged with what raised it
            self._complaints.tell(name, entry.rev, f"left out of its informer: {error.message}")
            return None
        return made

    def _tree(self, entry: Entry) -> Tree:
        tree = self._running().tree_now(entry, self._version)
        if tree is None:
            raise NotRunning(f"the conversion of {self.kind.__name__} has to wait, which an informer can't")
        return tree
