"""Encodes watch events, once per event, version, form and type; all watchers share the bytes.

The bytes are kept on the event itself, and freed with it.
Must not know: streams, selectors. See also: `watcher`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from oarlock.codec import cbor, protobuf
from oarlock.endpoints.in_protobuf import MessageEncoder, object_from_json, partial
from oarlock.endpoints.lists import forms
from oarlock.endpoints.respond import CBOR, JSON, PROTOBUF, Accepted, own_message
from oarlock.endpoints.routing.route import ResourceRoute
from oarlock.meta.context import Clock
from oarlock.meta.errors import StatusError
from oarlock.registry.stored.form import body_of, encode_body, tail_of
from oarlock.registry.stored.resource import StoredResource
from oarlock.storage.cache.entry import CacheEvent, Entry

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class BrokenObject(Exception):
    """An event's object can't be shown; `status` is the error for the client."""

    def __init__(self, error: StatusError) -> None:
        super().__init__(error.message)
        self.status = error


class EventForm:
    """The form of objects in a watch: unchanged, Tables or metadata only.

    `plain`: unchanged; `spliced`: a frame only joins bytes of the cache; `encode`: makes the messages of objects.
    """

    def __init__(self, route: ResourceRoute, accepted: Accepted, include: str, clock: Clock) -> None:
        self.columns_sent = False
        self.plain = accepted.as_kind is None
        self.table = accepted.as_kind == "Table"
        self.spliced = self.plain and accepted.media_type == JSON
        message = route.entry.protobuf if self.plain and accepted.media_type == PROTOBUF else None
        self.encode = None if message is None else MessageEncoder(message)
        self._media = accepted.media_type
        self._own = own_message(route.entry)
        self.key = (
            f"{route.target.version}/{accepted.as_kind or ''}/{accepted.as_version}/{include}/{accepted.media_type}"
        )
        self._entry = route.entry
        self._head = route.head
        self._version = accepted.as_version
        self._include = include
        self._clock = clock

    def object(self, body: bytes) -> bytes:
        """A body in the watch's form; the first Table has the columns."""
        if self.plain:
            return self._head + body
        if not self.table:
            return partial(body, self._version)
        tree = _decode(self._head + body)
        version = tree["metadata"].get("resourceVersion")
        meta = {"resourceVersion": version} if version else {}
        options = forms.TableOptions(
            self._include, self._version, self._clock.now(), with_columns=not self.columns_sent
        )
        self.columns_sent = True
        return forms.table_of(self._entry, [tree], meta, options)

    def message_frame(self, kind: str, message: bytes) -> bytes:
        """A protobuf frame with an object's message."""
        return protobuf.frame(kind, protobuf.envelope(self._own.api_version, self._own.kind, message))

    def bookmark(self, metadata: dict[str, Any]) -> bytes:
        """An object with nothing but metadata, in the watch's form."""
        return self.object(b'"metadata":%s}' % _encode(metadata))

    def frame(self, kind: str, shown: bytes) -> bytes:
        """An event of this type with an object's JSON: a line of JSON, a CBOR item or a protobuf frame."""
        if self._media == PROTOBUF:
            return protobuf.frame(kind, object_from_json(self._own, shown))
        line = b'{"type":"%s","object":%s}' % (kind.encode(), shown)
        return cbor.from_json(line) if self._media == CBOR else line + b"\n"


class EventFrames:
    """Makes the frames of a watch. `key` is equal for watches with the same version and form, which share frames."""

    def __init__(self, resource: StoredResource, route: ResourceRoute, form: EventForm) -> None:
        self._resource = resource
        self._version = route.target.version
        self._head = route.head
        self._form = form
        self.key = form.key
        self._bodies: dict[tuple[str, int, bool], bytes | StatusError] = {}

    @property
    def shared(self) -> bool:
        """Whether what `event` returns is the same for all watches with this `key`: not before a Table's columns."""
        return not self._form.table or self._form.columns_sent

    def event(self, event: CacheEvent, kind: str) -> bytes:
        """The frame of an event. `kind` is its type, or LEFT: DELETED for an object that no longer matches, as it was.

        Raises BrokenObject.
        """
        if self._form.table and not self._form.columns_sent:
            return self._frame(kind, self._shown(event, kind))
        memo = event.memo
        key = self.key, kind
        if memo is None:
            memo = event.memo = {}
        else:
            known: bytes | None = memo.get(key)
            if known is not None:
                return known
        frame = memo[key] = self._frame(kind, self._shown(event, kind))
        return frame

    def added(self, entry: Entry) -> bytes:
        """A synthetic ADDED for an existing object. Raises BrokenObject."""
        return self._frame("ADDED", entry)

    def bookmark(self, rev: int, *, initial_end: bool) -> bytes:
        """A BOOKMARK: everything up to this revision has been sent."""
        metadata: dict[str, Any] = {"resourceVersion": str(rev)}
        if initial_end:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        return self._form.frame("BOOKMARK", self._form.bookmark(metadata))

    def error(self, error: StatusError) -> bytes:
        return self._form.frame("ERROR", _encode(error.status()))

    def _shown(self, event: CacheEvent, kind: str) -> Entry:
        """The object in an event; one that no longer matches is shown as it was, with the event's revision."""
        before = event.previous if kind == "LEFT" else None
        if before is None:
            return event.entry
        shown = Entry(before.key, before.namespace, before.name, event.rev, before.create_rev, b"")
        shown.body = body_of(tail_of(before.body), event.rev)
        shown.broken = before.broken
        return shown

    async def prepare_added(self, entries: Sequence[Entry]) -> None:
        """Convert existing objects together, before they are framed. One that can't be is reported by `added`."""
        await self._convert([(entry, "ADDED") for entry in entries])

    async def prepare(self, events: Sequence[tuple[CacheEvent, str]]) -> None:
        """Convert the objects of events, each with its type in this watch; `event` reports those that can't be."""
        await self._convert(
            [(self._shown(event, kind), kind) for event, kind in events if (self.key, kind) not in (event.memo or ())]
        )

    async def _convert(self, shown: Sequence[tuple[Entry, str]]) -> None:
        self._bodies.clear()
        readable = [(entry, kind) for entry, kind in shown if not entry.broken]
        for has_left in (False, True):
            entries = [entry for entry, kind in readable if (kind == "LEFT") is has_left]
            if entries:
                make = self._resource.bodies_apart if has_left else self._resource.bodies_of
                bodies = await make(entries, self._version)
                self._bodies.update(zip([(e.key, e.rev, has_left) for e in entries], bodies, strict=True))

    def _frame(self, kind: str, entry: Entry) -> bytes:
        if entry.broken:
            raise BrokenObject(self._resource.unreadable([(entry.key, entry.broken)]))
        try:
            body = self._body(entry, kind)
            encode = self._form.encode
            if encode is not None and kind != "LEFT":
                return self._form.message_frame(kind, self._resource.derived_now(entry, self._version, encode, body))
            if kind == "LEFT":
                kind = "DELETED"
            if self._form.spliced:
                return b'{"type":"%s","object":%s%s}\n' % (kind.encode(), self._head, body)
            return self._form.frame(kind, self._form.object(body))
        except StatusError as error:
            raise BrokenObject(error) from None

    def _body(self, entry: Entry, kind: str) -> bytes:
        """The object's body in the watch's version. Raises StatusError."""
        has_left = kind == "LEFT"
        found: bytes | StatusError | None = self._bodies.get((entry.key, entry.rev, has_left)) if self._bodies else None
        if isinstance(found, StatusError):
            raise found
        if found is None and has_left:
            # not from the cache of bodies: an object that left the selection has the same key and revision
            tree = self._resource.tree_now(entry, self._version)
            found = None if tree is None else encode_body(tree)
        elif found is None:
            found = self._resource.body_now(entry, self._version)
        if found is None:
            raise StatusError("the conversion of this resource isn't available to a watch")
        return found
