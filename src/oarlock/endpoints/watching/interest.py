"""`Interest`: which objects a watch selects, and what an event is for it.

Must not know: streams, the encoding of events. See also: `watch_groups`, `watcher`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from oarlock.registry.read.selection import Selection
from oarlock.registry.stored.resource import StoredResource
from oarlock.storage.cache.entry import Entry
from oarlock.storage.cache.events import CacheEvent

__all__ = ["Interest", "RequiredValue"]


class RequiredValue(NamedTuple):
    """A value without which no readable object matches. `subject` says what has it, `value_of` gets it of an entry."""

    subject: object
    value_of: Callable[[Entry], str | None]
    value: str


class Interest:
    """What a watch selects of a resource. An empty `namespace` or `name` selects all."""

    __slots__ = ("_by_fields", "_resource", "_selection", "everything", "name", "namespace")

    def __init__(self, resource: StoredResource, namespace: str, name: str, selection: Selection) -> None:
        self._resource = resource
        self._selection = selection
        self._by_fields = bool(selection.version)
        self.namespace = namespace
        self.name = name
        self.everything = selection.everything and not namespace and not name

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for watches of a resource that select the same."""
        return self.namespace, self.name, self._selection

    def wants(self, entry: Entry) -> bool:
        if self.namespace and entry.namespace != self.namespace:
            return False
        if self.name and entry.name != self.name:
            return False
        # it is unknown whether a broken object matches: skipping it in silence could miss a change
        return bool(entry.broken) or self._selection.matches(entry) or (self._by_fields and self._unselectable(entry))

    def _unselectable(self, entry: Entry) -> bool:
        """Whether the object can't be converted to the version of the field selector: it might match."""
        rev, unknown = self._resource.form.unselectable.get(entry.key, (0, {}))
        return rev == entry.rev and self._selection.version in unknown

    def kind(self, event: CacheEvent) -> str:
        """The type of an event for this watch, LEFT or "": objects may begin or cease to match its selector."""
        if self.everything:
            return event.type
        before = event.previous is not None and self.wants(event.previous)
        if event.type == "DELETED":
            return "DELETED" if before else ""
        now = self.wants(event.entry)
        if now:
            return "MODIFIED" if before else "ADDED"
        return "LEFT" if before and event.previous is not None and not event.previous.broken else ""

    @property
    def required(self) -> RequiredValue | None:
        """A name, a value of a label or field, or a namespace that every object has that this selects."""
        selection = self._selection
        if name := self.name or selection.name:
            return RequiredValue("name", lambda entry: entry.name, name)
        if selection.required is not None:
            column, value = selection.required
            if isinstance(column, int):
                return RequiredValue(column, lambda entry: entry.fields[column], value)
            return RequiredValue(("label", column), lambda entry: entry.labels.get(column), value)
        if namespace := self.namespace or selection.namespace:
            return RequiredValue("namespace", lambda entry: entry.namespace, namespace)
        return None
