"""`Informer`: typed read access of a server's own code to a resource it serves, straight from the watch cache.

There is nothing to sync, and it is never behind the cache. In tests of an admission plugin, a plain list may stand for
it: both are iterables of typed objects.
Must not know: watches over the network (``client`` has those). See also: ``policy.admission``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from oarlock.meta.errors import StatusError
from oarlock.registry.keys import object_key
from oarlock.registry.object_log import ObjectLog
from oarlock.registry.old_objects import reasons
from oarlock.registry.served import Tree
from oarlock.registry.stored_resource import StoredResource
from oarlock.schema.views import ViewError, view
from oarlock.storage.cache.entry import Entry

__all__ = ["Informer", "NotRunning"]

T = TypeVar("T")

log = logging.getLogger("oarlock.registry")


class NotRunning(RuntimeError):
    """The informer isn't attached to a running server."""


class Informer(Generic[T]):
    """The live objects of `kind`, a declared class, in the version of that class.

    Pass it to ``APIServer(informers=[…])`` and to the code that reads it. Iterating takes a snapshot. Each object is
    converted and decoded once per revision and shared between readers: don't change it. An object that doesn't fit its
    class, or can't be converted, is left out and logged.
    """

    def __init__(self, kind: type[T]) -> None:
        self.kind = kind
        self._resource: StoredResource | None = None
        self._version = ""
        self._views: dict[str, tuple[int, T | None]] = {}
        self._object_log = ObjectLog(log)

    def attach(self, find: Callable[[type[Any]], tuple[StoredResource, str]]) -> None:
        """Called by the server when its catalog is loaded. `find` returns the resource and version of a class."""
        before = self._resource
        self._resource, self._version = find(self.kind)
        if self._resource is not before:
            self._views.clear()

    @property
    def attached(self) -> bool:
        """Whether a server runs it, so that it has data."""
        return self._resource is not None

    def get(self, name: str, namespace: str = "") -> T | None:
        """The object; None if it doesn't exist or can't be read. Raises NotRunning."""
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
        """The number of objects, including those that can't be read."""
        return len(self._running().cache)

    def _running(self) -> StoredResource:
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
            self._views.clear()  # drop the views of deleted objects
        self._views[entry.key] = (entry.rev, made)
        return made

    def _read(self, entry: Entry) -> T | None:
        """The typed object; None, and a line in the log, when it doesn't fit its class."""
        name = f"{self.kind.__name__} {'/'.join(filter(None, (entry.namespace, entry.name)))}"
        try:
            made: T = view(self._tree(entry), self.kind)
        except NotRunning:
            raise
        except ViewError as error:
            why = f"left out of its informer, because the stored object doesn't fit its class: {reasons(error)}"
            self._object_log.warn(name, entry.rev, why)
            return None
        except StatusError as error:  # its traceback has been logged by `Conversions`
            self._object_log.warn(name, entry.rev, f"left out of its informer: {error.message}")
            return None
        return made

    def _tree(self, entry: Entry) -> Tree:
        tree = self._running().tree_now(entry, self._version)
        if tree is None:
            raise NotRunning(f"the conversion of {self.kind.__name__} has to wait, which an informer can't")
        return tree
