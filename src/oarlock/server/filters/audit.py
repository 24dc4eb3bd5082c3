"""Records requests in the audit log: when they are received, when their answer begins and ends, and when they fail.

`Audit.refused` records what is refused before authentication, `Audit.unauthenticated` whom that refuses; `Audit.record`
stands after it and records everybody else.
Source: k8s.io/apiserver ``endpoints/filters`` audit, authn_audit, request_deadline. See also: ``policy.audit``.
"""

from __future__ import annotations

import asyncio
import gzip
import io
import ipaddress
from collections.abc import AsyncIterator, Awaitable, Coroutine, Generator, Mapping
from typing import Any, Generic, TypeVar
from urllib.parse import parse_qsl

from oarlock.codec import cbor as cbor_codec
from oarlock.codec import json as json_codec
from oarlock.codec import protobuf as protobuf_codec
from oarlock.codec import yaml as yaml_codec
from oarlock.codec.kubernetes_messages import META_KINDS, Message, kubernetes_message, meta_message
from oarlock.codec.protobuf_values import MessageField
from oarlock.endpoints.catalog import CatalogEntry
from oarlock.endpoints.errors import as_status_error, error_response
from oarlock.endpoints.http import BodySource, Response
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.respond import CBOR, JSON, PROTOBUF, YAML, offload
from oarlock.endpoints.routing.route import ResourceRoute
from oarlock.meta.context import User
from oarlock.meta.errors import StatusError, Unauthorized
from oarlock.meta.go.gotext import html_escape
from oarlock.meta.times import go_duration
from oarlock.policy.audit.event import (
    AuditEvent,
    AuditRecord,
    RequestFacts,
    RequestTexts,
    reference_json,
    uri_json,
    user_json,
)
from oarlock.policy.audit.policy import Level, Stage
from oarlock.server.audit.sink import ServerAudit, written_to_all
from oarlock.server.filters.filter import Next, plain

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


_STATUS_FIELDS = ("status", "message", "reason", "details", "code")
_CLOSED_EARLY = {"status": "Success", "message": "Connection closed early", "code": 200}
_TIMED_OUT = {
    "status": "Failure",
    "message": "Timeout: request did not complete within the allotted timeout",
    "reason": "Timeout",
    "code": 504,
}
_STATUS_BYTES = 4096
_FORWARDED, _FORWARDED_BYTES = 64, 4096
"""So much of ``X-Forwarded-For`` is looked at: anybody may send a megabyte of it."""

_RECEIVED, _COMPLETE, _WITH_ANSWERS = Stage.REQUEST_RECEIVED, Stage.RESPONSE_COMPLETE, Level.REQUEST_RESPONSE

SLOW_S = 0.5
"""The event of a request that took longer says how long."""

_LATENCY = "apiserver.latency.k8s.io/total"

USERS = 256
"""So many users are kept encoded, the latest since all were forgotten; none with more than `USER_BYTES`."""

USER_BYTES = 4096
T = TypeVar("T")


class _Resumed(Generic[T]):
    """Goes on with `rest`, which waits for `waits_for`, and returns what it returns."""

    __slots__ = ("_rest", "_waits_for")

    def __init__(self, rest: Coroutine[Any, Any, T], waits_for: Any) -> None:
        self._rest = rest
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, T]:
        rest, waits_for = self._rest, self._waits_for
        while True:
            error: BaseException | None = None
            value = None
            try:
                value = yield waits_for
            except GeneratorExit:
                rest.close()
                raise
            except BaseException as caught:
                error = caught
            try:
                waits_for = rest.send(value) if error is None else rest.throw(error)
            except StopIteration as done:
                result: T = done.value
                return result


class Audit:
    """The filter of one server."""

    def __init__(self, audit: ServerAudit) -> None:
        self._policy = audit.policy
        self._sinks = audit.sinks
        self._counts = audit.counts
        self._prompt = all(sink.prompt for sink in audit.sinks)
        self._pending: set[asyncio.Task[None]] = set()
        self._users: dict[int, tuple[User, bytes]] = {}

    async def unauthenticated(self, state: RequestState, error: Unauthorized) -> None:
        """Record a request that authentication has refused, as from nobody."""
        if state.audit is None:
            await self._from_nobody(state, error, _attempted(state))

    async def refused(self, state: RequestState, error: StatusError) -> None:
        """Record a request that is refused before it is known who sends it."""
        await self._from_nobody(state, error, error.message)

    async def _from_nobody(self, state: RequestState, error: StatusError, message: str) -> None:
        record = self._begin(state, User(""))
        if record is not None:
            record.status = {"status": "Failure", "message": message, "reason": error.reason, "code": error.code}
            await self._written(record, Stage.RESPONSE_STARTED, state)

    async def record(self, state: RequestState, next: Next) -> Response:
        """Record a request of a known user, or of an anonymous one.

        If no sink waits, the event of its receipt is written before the request first does; one that never waits has
        its events written together.
        """
        record = self._begin(state, state.user)
        if record is None:
            return await next(state)
        state.audit = record
        if not self._prompt:
            if not await self._written(record, _RECEIVED, state):
                return self._refused(state)
            response = await self._answer(record, state, next)
        else:
            received = record.event(_RECEIVED, 0.0)
            if received is not None:
                record.pending = (received,)
            rest = self._answer(record, state, next)
            try:
                waits_for = rest.send(None)
            except StopIteration as done:
                response = done.value
            else:
                self._give(record, None)
                response = await _Resumed(rest, waits_for)
        if response.stream is not None or state.is_long_running:
            record.status = record.status or {"code": response.status}
            await self._written(record, Stage.RESPONSE_STARTED, state)
        if record.recording.level is _WITH_ANSWERS and not record.response_object and response.stream is None:
            await record_answer(record, state, response)
        if type(response.body) is bytes and response.stream is None:
            record.status = record.status or _status_of(state, response)
            written = self._write(record, _COMPLETE, state)
            if not isinstance(written, bool):
                await written
        else:
            record.status = record.status or {"code": response.status}
            response.on_sent(lambda whole: self._write_later(record, _COMPLETE, state))
        return response

    def _refused(self, state: RequestState) -> Response:
        self._counts.rejected += 1
        request = state.request
        uri = html_escape(f"{request.path}?{request.query}" if request.query else request.path)
        return plain(500, f'Internal Server Error: "{uri}": failed to store audit event\n')

    async def _answer(self, record: AuditRecord, state: RequestState, next: Next) -> Response:
        """The answer; that of an error too, as the event has its Status."""
        try:
            response = await next(state)
        except Exception as error:
            _note_user(record, state)
            known = as_status_error(error, state)
            if known is None:
                message = f"APIServer panic'd: {error}"
                record.status = {"status": "Failure", "message": message, "reason": "InternalError", "code": 500}
                self._write_later(record, Stage.PANIC, state)
                raise
            error.__traceback__ = None  # an error that a cached route raises again would keep the request's frames
            tree = known.status()
            record.status = {name: tree[name] for name in _STATUS_FIELDS if tree.get(name)}
            record.add_response(json_codec.encode(tree))
            return error_response(known, state)
        except BaseException:  # cancelled: the time is up, or nobody wants the answer any more
            _note_user(record, state)
            is_late = state.clock.monotonic() >= state.deadline
            record.status = _TIMED_OUT if is_late else _CLOSED_EARLY
            self._write_later(record, Stage.RESPONSE_COMPLETE, state)
            raise
        _note_user(record, state)
        return response

    def _begin(self, state: RequestState, user: User) -> AuditRecord | None:
        recording = self._policy.decide(user, state.target)
        word = recording.level.word
        levels = self._counts.levels
        levels[word] = levels.get(word, 0) + 1
        if recording.level is Level.NONE:
            return None
        request, clock = state.request, state.clock
        received = clock.now() - (clock.monotonic() - request.received)
        uri = f"{request.path}?{request.query}" if request.query else request.path
        facts = RequestFacts(state.audit_id, uri, _source_ips(state), request.headers.get("user-agent", ""), received)
        texts = RequestTexts(*self._texts_of(state, uri), self._user_json(user))
        return AuditRecord(recording, facts, user, state.target, texts)

    def _texts_of(self, state: RequestState, uri: str) -> tuple[bytes, bytes]:
        """What the events of all requests of a route have in common, kept with the route."""
        route = state.route
        texts = None if route is None else route.audit_texts
        if texts is None:
            texts = uri_json(uri, state.target.verb), reference_json(state.target)
            if route is not None:
                route.audit_texts = texts
        return texts

    def _user_json(self, user: User) -> bytes:
        known = self._users.get(id(user))
        if known is not None and known[0] is user:
            return known[1]
        encoded = user_json(user)
        if len(encoded) <= USER_BYTES:
            if len(self._users) >= USERS:
                self._users.clear()
            self._users[id(user)] = user, encoded
        return encoded

    def _write(self, record: AuditRecord, stage: Stage, state: RequestState) -> Awaitable[bool] | bool:
        if stage is _COMPLETE:
            took_s = state.clock.monotonic() - state.request.received
            if took_s > SLOW_S and not state.is_long_running:
                record.annotate(_LATENCY, go_duration(took_s))
        detailed = record.recording.level >= Level.REQUEST
        noted = state.notes.annotations if detailed else state.notes.brief_annotations
        return self._give(record, record.event(stage, state.clock.now(), noted))

    def _give(self, record: AuditRecord, event: AuditEvent | None) -> Awaitable[bool] | bool:
        """Give the sinks what is pending of a request, and `event`."""
        events = record.pending if event is None else (*record.pending, event)
        record.pending = ()
        self._counts.events += len(events)
        return written_to_all(self._sinks, events) if events else True

    async def _written(self, record: AuditRecord, stage: Stage, state: RequestState) -> bool:
        written = self._write(record, stage, state)
        return written if isinstance(written, bool) else await written

    def _write_later(self, record: AuditRecord, stage: Stage, state: RequestState) -> None:
        """The same for synchronous callers, which don't wait until the event is written."""
        written = self._write(record, stage, state)
        if not isinstance(written, bool):
            task = asyncio.ensure_future(_ignored(written))
            self._pending.add(task)
            task.add_done_callback(self._pending.discard)


def _note_user(record: AuditRecord, state: RequestState) -> None:
    """Note who the request was carried out as, if a filter behind this one has made that another."""
    if state.user is not record.user:
        record.impersonate(state.user)


async def _ignored(written: Awaitable[bool]) -> None:
    await written


def _source_ips(state: RequestState) -> list[str]:
    """Where the request came from: what proxies say, then the connection. Source: apimachinery ``util/net``."""
    headers = state.request.headers
    address = state.request.peer.address
    if "x-forwarded-for" not in headers and "x-real-ip" not in headers:
        return [address] if address else []
    listed = headers.get("x-forwarded-for", "")[:_FORWARDED_BYTES].split(",")
    ips = [ip for text in listed[:_FORWARDED] if (ip := text.strip()) and _is_ip(ip)]
    real = headers.get("x-real-ip", "").strip()
    if real and _is_ip(real) and real not in ips:
        ips.append(real)
    if address and (not ips or ips[-1] != address):
        ips.append(address)
    return ips


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _attempted(state: RequestState) -> str:
    """Which credentials a refused request had."""
    methods = []
    scheme, _, rest = state.request.headers.get("authorization", "").strip().partition(" ")
    if scheme.lower() == "basic" and rest:
        methods.append("basic")
    if scheme.lower() == "bearer" and rest:
        methods.append("bearer")
    if any(name == "access_token" and value for name, value in parse_qsl(state.request.query[:4096])):
        methods.append("access_token")
    if state.request.peer.certificate is not None:
        methods.append("x509")
    if methods:
        return f"Authentication failed, attempted: {', '.join(methods)}"
    return "Authentication failed, no credentials provided"


def _status_of(state: RequestState, response: Response) -> Mapping[str, Any]:
    """The status of an answer; that of a deletion has details."""
    body = response.body
    if (
        state.target.verb in ("delete", "deletecollection")
        and isinstance(body, bytes)
        and len(body) <= _STATUS_BYTES
        and body.startswith(b'{"kind":"Status"')
    ):
        tree = json_codec.decode(body)
        return {**{name: tree[name] for name in _STATUS_FIELDS if tree.get(name)}, "code": response.status}
    return {"code": response.status}
