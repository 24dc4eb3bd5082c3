"""The object in an answer, as an audit event has it: JSON, in whatever form the client got it.

A long answer is copied while it is sent. The copy counts as bytes that the server holds for its clients. One that is
larger than `ANSWER_BYTES` isn't recorded: the event says that it was left out. See also: ``filters.audit``.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import AsyncIterator
from typing import Any

from oarlock.codec import cbor as cbor_codec
from oarlock.codec import protobuf as protobuf_codec
from oarlock.codec import yaml as yaml_codec
from oarlock.codec.kubernetes_messages import META_KINDS, kubernetes_message, meta_message
from oarlock.codec.protobuf_messages import Message, MessageField
from oarlock.endpoints.catalog import CatalogEntry
from oarlock.endpoints.http import BodySource, Response
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.respond import CBOR, JSON, PROTOBUF, YAML, offload
from oarlock.endpoints.routing.route import ResourceRoute
from oarlock.policy.audit.event import AuditRecord

ANSWER_BYTES = 8 * 1024 * 1024
PIECE_BYTES = 64 * 1024


async def record_answer(record: AuditRecord, state: RequestState, response: Response) -> None:
    """Record the object in `response`: at once, or while it is sent, before its end."""
    route, body = state.route, response.body
    if not isinstance(route, ResourceRoute) or body == b"":
        return
    headers = dict(response.headers)
    media = headers.get("content-type", "").partition(";")[0]
    answer = _Answer(record, media, headers.get("content-encoding") == "gzip", route.entry)
    if isinstance(body, bytes):
        await answer.end(body)
        return
    response.body = _copied(answer, state, _pieces(body) if isinstance(body, BodySource) else body)


async def _pieces(body: BodySource) -> AsyncIterator[bytes]:
    while not body.done:
        yield body.read(PIECE_BYTES)


async def _copied(answer: _Answer, state: RequestState, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    copies: list[bytes] = []
    size = 0
    try:
        async for piece in pieces:
            if size <= ANSWER_BYTES:
                copies.append(piece)
                size += len(piece)
                state.unsent.add(len(piece))
            yield piece
        if size <= ANSWER_BYTES:
            await answer.end(b"".join(copies))
        else:
            answer.leave_out()
    finally:
        state.unsent.add(-sum(map(len, copies)))
        close = getattr(pieces, "aclose", None)
        if close is not None:
            await close()


class _Answer:
    """The body of an answer, on its way into the record."""

    def __init__(self, record: AuditRecord, media: str, packed: bool, entry: CatalogEntry) -> None:
        self._record = record
        self._media = media
        self._packed = packed
        self._entry = entry

    async def end(self, data: bytes) -> None:
        if len(data) > ANSWER_BYTES:
            self.leave_out()
            return
        try:
            await offload(len(data), self._add, data)
        except (ValueError, KeyError):
            self.leave_out()

    def leave_out(self) -> None:
        self._record.truncated = True

    def _add(self, data: bytes) -> None:
        if self._packed:
            data = _unpacked(data)
        tree: Any
        if self._media == JSON:
            tree = data
        elif self._media == YAML:
            tree, _ = yaml_codec.decode(data)
        elif self._media == CBOR:
            tree = cbor_codec.decode(data)
        elif self._media == PROTOBUF:
            tree = protobuf_codec.decode(data, _message_in(data, self._entry))
        else:
            return  # a stream's bytes, which are no object
        self._record.add_response(tree)


def _unpacked(data: bytes) -> bytes:
    """Raises ValueError if it is too large."""
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        raw = file.read(4 * ANSWER_BYTES + 1)
    if len(raw) > 4 * ANSWER_BYTES:
        raise ValueError("too large")
    return raw


def _message_in(data: bytes, entry: CatalogEntry) -> Message:
    """The message that an envelope holds. Raises KeyError for one without a table."""
    kind = protobuf_codec.opened(data)[0].get("kind", "")
    if kind in META_KINDS:
        return meta_message(kind)
    if entry.protobuf is not None and kind == entry.gvk.kind:
        return entry.protobuf
    if entry.protobuf is not None and kind == entry.list_kind:
        list_meta = MessageField("metadata", 1, kubernetes_message("meta.v1.ListMeta"))
        return Message(kind, (list_meta, MessageField("items", 2, entry.protobuf, many="list")))
    raise KeyError(kind)
