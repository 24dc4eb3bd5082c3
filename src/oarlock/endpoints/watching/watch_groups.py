"""`WatchGroups`: delivers the events of one resource to the watches that aren't behind.

Watches that select the same objects (`Interest`) and get them in the same form are one `WatchGroup`: an event is tested
and encoded once for all of them. Groups that require a name, a namespace, or a value of a label or field are found by
that value, so that of a thousand watches of one node's pods each, an event is tested for one.
Must not know: initial objects, bookmarks, timeouts. See also: `watcher`, whose watches join; `event_frames`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from oarlock.endpoints.http import SharedWriter, Stream
from oarlock.endpoints.watching.event_frames import BrokenObject, EventFrames
from oarlock.endpoints.watching.watch_book import WatchBook
from oarlock.registry.read.selection import Selection
from oarlock.registry.stored.resource import StoredResource
from oarlock.storage.cache.entry import CacheEvent, Entry, Subscription


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


log = logging.getLogger("oarlock.endpoints")

MetricLabels = tuple[str, str, str]
"""API group, version and resource, as clients name them."""

Emptied = Callable[["WatchGroup"], None]


class GroupMember(Protocol):
    """A watch, as its group sees it."""

    @property
    def stream(self) -> Stream: ...

    def fail(self, broken: BrokenObject) -> None:
        """An event's object can't be shown."""
        ...

    def ended(self, error: Exception | None) -> None:
        """Nothing is delivered any more (see `oarlock.storage.cache.entry.Closed`)."""
        ...


class GroupKey(NamedTuple):
    """Equal for watches that get the same bytes."""

    interest: tuple[object, ...]
    frames: str
    labels: MetricLabels


class WatchGroup:
    """Watches that get the same bytes. `labels` is what their events are counted as.

    `emptied` is called after the last member has left.
    """

    __slots__ = ("_emptied", "_joining", "_members", "_streams", "frames", "interest", "key", "labels", "required")

    def __init__(self, key: GroupKey, interest: Interest, frames: EventFrames, emptied: Emptied) -> None:
        self._emptied = emptied
        self.key = key
        self.interest = interest
        self.required = interest.required
        self.frames = frames
        self.labels = key.labels
        self._joining: dict[GroupMember, int] = {}
        self._members: dict[GroupMember, None] = {}
        self._streams: list[tuple[SharedWriter | None, list[Stream]]] | None = None  # by what writes to them

    def add(self, member: GroupMember, after: int) -> None:
        """Deliver to `member` what comes after this revision."""
        self._joining[member] = after

    def admit(self, first: int) -> bool:
        """Before events from revision `first` on are delivered. Returns whether all who joined get them."""
        for member, after in list(self._joining.items()):
            if after < first:
                del self._joining[member]
                self._members[member] = None
                self._streams = None
        return not self._joining

    def leave(self, member: GroupMember) -> None:
        """Deliver nothing more to `member`. Safe to call twice."""
        self._remove(member)
        if not self._members and not self._joining:
            self._emptied(self)

    def _remove(self, member: GroupMember) -> None:
        if self._joining.pop(member, None) is None and member in self._members:
            del self._members[member]
            self._streams = None

    def write(self, data: bytes) -> int:
        """Send `data` on all streams; returns on how many. Those that fail are ended; the others still get it."""
        if self._streams is None:
            self._streams = self._by_writer()
        for shared_writer, streams in self._streams:
            try:
                if shared_writer is not None:
                    shared_writer.write_all(streams, data)
                else:
                    for stream in streams:
                        stream.write(data)
            except Exception as error:
                log.exception("delivering an event failed")
                self._end([member for member in self._members if member.stream in streams], error)
        return len(self._members)

    def _by_writer(self) -> list[tuple[SharedWriter | None, list[Stream]]]:
        found: dict[SharedWriter | None, list[Stream]] = {}
        alone: list[tuple[SharedWriter | None, list[Stream]]] = []
        for member in self._members:
            stream = member.stream
            shared_writer = stream.shared_writer
            if shared_writer is None:
                alone.append((None, [stream]))
            elif shared_writer in found:
                found[shared_writer].append(stream)
            else:
                found[shared_writer] = [stream]
        return [*found.items(), *alone]

    def fail(self, broken: BrokenObject) -> None:
        """An object can't be shown to the members."""
        for member in list(self._members):
            member.fail(broken)

    def end(self, error: Exception | None) -> None:
        """Nothing is delivered any more."""
        self._end([*self._members, *self._joining], error)

    def _end(self, members: list[GroupMember], error: Exception | None) -> None:
        for member in members:
            self._remove(member)
            member.ended(error)


class _GroupIndex(NamedTuple):
    """The groups that require a value of the same thing."""

    value_of: Callable[[Entry], str | None]
    groups: dict[str | None, dict[WatchGroup, None]]


class WatchGroups:
    """The groups of one resource. `counts` has the number of events sent, by tally.

    `emptied` is called after the last member has left, or when the cache ends the delivery. A member may leave at any
    time. Raises the `StorageError` of `ResourceCache.subscribe`.
    """

    __slots__ = ("_counts", "_emptied", "_groups", "_indexes", "_joined", "_resource", "_subscription", "_unindexed")

    def __init__(
        self, resource: StoredResource, counts: dict[MetricLabels, int], emptied: Callable[[WatchGroups], None]
    ) -> None:
        self._resource = resource
        self._counts = counts
        self._emptied = emptied
        self._groups: dict[GroupKey, WatchGroup] = {}
        self._unindexed: dict[WatchGroup, None] = {}
        self._indexes: dict[object, _GroupIndex] = {}
        self._joined: dict[WatchGroup, None] = {}  # those with members that have got nothing yet
        self._subscription: Subscription = resource.cache.subscribe(
            resource.watch_cache.rev, self._deliver, self._ended
        )

    def join(self, member: GroupMember, interest: Interest, frames: EventFrames, labels: MetricLabels) -> WatchGroup:
        """Deliver to `member`, which has everything up to the revision of the cache, what comes after it."""
        key = GroupKey(interest.key, frames.key, labels)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = WatchGroup(key, interest, frames, self._drop)
            required = group.required
            if required is None:
                self._unindexed[group] = None
            else:
                index = self._indexes.setdefault(required.subject, _GroupIndex(required.value_of, {}))
                index.groups.setdefault(required.value, {})[group] = None
        # in the middle of a delivery, what is being delivered isn't for it
        group.add(member, self._resource.watch_cache.rev)
        self._joined[group] = None
        return group

    def _drop(self, group: WatchGroup) -> None:
        """A group has no members any more."""
        if self._groups.get(group.key) is not group:
            return
        del self._groups[group.key]
        self._joined.pop(group, None)
        if not self._groups:
            self._subscription.close()
            self._emptied(self)
        required = group.required
        if required is None:
            del self._unindexed[group]
            return
        index = self._indexes[required.subject]
        same = index.groups[required.value]
        del same[group]
        if not same:
            del index.groups[required.value]
            if not index.groups:
                del self._indexes[required.subject]

    def _deliver(self, events: Sequence[CacheEvent]) -> None:
        if self._joined:
            first = events[0].rev
            self._joined = {group: None for group in self._joined if not group.admit(first)}
        for event in events:
            for group in self.concerned(event) if self._indexes else list(self._unindexed):
                try:
                    self._pass_on(event, group)
                except Exception as error:
                    log.exception("an event of %s could not be delivered", event.entry.key)
                    group.end(error)

    def _pass_on(self, event: CacheEvent, group: WatchGroup) -> None:
        kind = group.interest.kind(event)
        if not kind:
            return
        try:
            frame = group.frames.event(event, kind)
        except BrokenObject as broken:
            group.fail(broken)
            return
        self._counts[group.labels] = self._counts.get(group.labels, 0) + group.write(frame)

    def concerned(self, event: CacheEvent) -> list[WatchGroup]:
        """The groups of which one may select the object as it is, or as it was."""
        entry, previous = event.entry, event.previous
        if entry.broken or (previous is not None and previous.broken) or entry.key in self._resource.form.unselectable:
            return list(self._groups.values())
        groups = list(self._unindexed)
        for value_of, by_value in self._indexes.values():
            value = value_of(entry)
            if value in by_value:
                groups += by_value[value]
            if previous is not None:
                before = value_of(previous)
                if before != value and before in by_value:
                    groups += by_value[before]
        return groups

    def _ended(self, error: Exception | None) -> None:
        self._emptied(self)
        for group in list(self._groups.values()):
            group.end(error)


def watch_groups(book: WatchBook, resource: StoredResource) -> WatchGroups:
    """The groups of a resource, kept in `book` while they have members. Raises as `WatchGroups`."""
    groups: WatchGroups | None = book.groups.get(resource)
    if groups is None:

        def emptied(these: WatchGroups) -> None:
            if book.groups.get(resource) is these:
                del book.groups[resource]

        groups = book.groups[resource] = WatchGroups(resource, book.events, emptied)
    return groups
