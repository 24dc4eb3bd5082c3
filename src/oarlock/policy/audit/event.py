"""`AuditRecord`: what is recorded of one request; each stage makes an `AuditEvent` of it, a line of JSON.

An event is encoded once, when it is made; after that it is bytes, so that what waits for a sink has a known size.
Must not know: HTTP, sinks. Source: audit.k8s.io/v1 Event; k8s.io/apiserver ``audit/request``, ``audit/format``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from oarlock.codec import json as json_codec
from oarlock.meta.context import Target, User
from oarlock.meta.go.gotext import quote
from oarlock.meta.times import rfc3339_micro
from oarlock.policy.audit.policy import Level, Recording, Stage

_META = ("namespace", "name", "uid", "resourceVersion")


def metadata_of(tree: Mapping[str, Any]) -> dict[str, str]:
    """Namespace, name, uid and resourceVersion of an object, as far as it has them."""
    meta = tree.get("metadata")
    if not isinstance(meta, dict):
        return {}
    return {name: value for name in _META if isinstance(value := meta.get(name), str)}


def encoded_object(value: Mapping[str, Any] | bytes, omit_managed_fields: bool) -> bytes:
    """An object, list or Table, given as a tree or as JSON."""
    if omit_managed_fields:
        if isinstance(value, bytes):
            if b'"managedFields"' not in value:
                return object_json(value)
            value = json_codec.decode(value)
        return json_codec.encode(_without_managed_fields(value))
    return object_json(value)


def object_json(value: Any) -> bytes:
    """A tree as JSON; JSON in one line as it is, and any other in one line."""
    if not isinstance(value, bytes):
        return json_codec.encode(value)
    value = value.strip()
    if b"\n" in value or b"\r" in value:
        value = msgspec.json.format(value, indent=-1)
    return bytes(value)


def _without_managed_fields(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    changed = dict(tree)
    meta = changed.get("metadata")
    if isinstance(meta, dict) and "managedFields" in meta:
        changed["metadata"] = {name: value for name, value in meta.items() if name != "managedFields"}
    if isinstance(items := changed.get("items"), list):
        changed["items"] = [_without_managed_fields(item) for item in items]
    if isinstance(rows := changed.get("rows"), list):
        changed["rows"] = [
            {**row, "object": _without_managed_fields(row.get("object"))} if isinstance(row, dict) else row
            for row in rows
        ]
    return changed


LONGEST_USER_AGENT = 1024
TRUNCATED = "audit.k8s.io/truncated"
_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_RECEIVED = Stage.REQUEST_RECEIVED
_NO_META: Mapping[str, str] = {}


class RequestFacts(NamedTuple):
    """What a request says of itself. `received` is in seconds since the epoch."""

    audit_id: str
    uri: str
    source_ips: Sequence[str]
    user_agent: str
    received: float


class RequestTexts(NamedTuple):
    """Parts of events that many requests have in common, as JSON: `uri_json`, `reference_json`, `user_json`."""

    uri_and_verb: bytes
    reference: bytes
    user: bytes


class AuditEvent:
    """One stage of one request. `line` is its JSON, without a newline.

    Its other forms are made from the record, so ask for them before the next stage.
    """

    __slots__ = ("_annotations", "_at", "_record", "_stage", "line")

    def __init__(
        self, record: AuditRecord, stage: Stage, at: float, annotations: Mapping[str, str], objects: bool = True
    ) -> None:
        self._record = record
        self._stage = stage
        self._at = at
        self._annotations = annotations
        self.line = self._line(objects)

    @property
    def has_objects(self) -> bool:
        return bool(self._record.request_object or self._record.response_object)

    def without_objects(self) -> AuditEvent:
        """The same without the bodies of request and answer, and with an annotation that says so."""
        return AuditEvent(self._record, self._stage, self._at, {**self._annotations, TRUNCATED: "true"}, objects=False)

    def _line(self, objects: bool) -> bytes:
        record, stage = self._record, self._stage
        received = record.received_text
        parts = [record.recording.head, record.id_json, b',"stage":"', stage.wire, record.about()]
        if record.status is not None:
            parts += (b',"responseStatus":', _status(record.status))
        if objects and record.request_object:
            parts += (b',"requestObject":', record.request_object)
        if objects and record.response_object:
            parts += (b',"responseObject":', record.response_object)
        at = received if stage is _RECEIVED else rfc3339_micro(self._at)
        parts.append(f',"requestReceivedTimestamp":"{received}","stageTimestamp":"{at}"'.encode())
        if self._annotations:
            parts += (b',"annotations":', _encode_sorted(self._annotations))
        parts.append(b"}")
        return _escaped(b"".join(parts))

    def legacy(self) -> bytes:
        """The event as one line of text, in kube-apiserver's ``legacy`` format."""
        record, facts = self._record, self._record.facts
        user, other = record.user, record.impersonated
        ip = facts.source_ips[0] if facts.source_ips else "<unknown>"
        status = str(record.status["code"]) if record.status else "<deferred>"
        groups = ",".join(map(quote, user.groups)) if user.name and user.groups else "<none>"
        as_groups = "<lookup>" if other is None else ",".join(map(quote, other.groups))
        return (
            f"{record.received_text} AUDIT: id={quote(facts.audit_id)} stage={quote(self._stage.value)} "
            f"ip={quote(ip)} method={quote(record.target.verb)} user={quote(user.name or '<none>')} "
            f"groups={quote(groups)} as={quote('<self>' if other is None else other.name)} "
            f"asgroups={quote(as_groups)} user-agent={quote(record.user_agent)} "
            f'namespace={quote(record.target.namespace or "<none>")} uri={quote(facts.uri)} response="{status}"'
        ).encode()


class AuditRecord:
    """What is known of one request, from its receipt to the end of its answer. Mutable, used by one task at a time.

    `pending` are events that are written with the next one.

    `user` is who was authenticated; `impersonated` who the request is carried out as, if that is another.
    """

    __slots__ = (
        "_about",
        "_annotations",
        "_object_meta",
        "facts",
        "id_json",
        "impersonated",
        "pending",
        "received_text",
        "recording",
        "request_object",
        "response_object",
        "status",
        "target",
        "texts",
        "truncated",
        "user",
    )

    def __init__(
        self, recording: Recording, facts: RequestFacts, user: User, target: Target, texts: RequestTexts | None = None
    ) -> None:
        self.recording = recording
        self.facts = facts
        self.user = user
        self.target = target
        self.impersonated: User | None = None
        self.request_object = b""
        self.response_object = b""
        self.status: Mapping[str, Any] | None = None
        self.truncated = False
        self.pending: tuple[AuditEvent, ...] = ()
        self.received_text = rfc3339_micro(facts.received)
        self._annotations: list[tuple[str, str]] = []
        self._object_meta: Mapping[str, str] | None = None
        self.texts = texts or RequestTexts(uri_json(facts.uri, target.verb), reference_json(target), user_json(user))
        self.id_json = _encode(facts.audit_id)
        self._about = b""

    @property
    def user_agent(self) -> str:
        agent = self.facts.user_agent
        return agent if len(agent) <= LONGEST_USER_AGENT else agent[:LONGEST_USER_AGENT] + "...TRUNCATED"

    def annotate(self, key: str, value: str) -> None:
        """Add an annotation; the first value of a key counts."""
        self._annotations.append((key, value))

    def add_request(self, tree: Mapping[str, Any]) -> None:
        """The object in the request's body. Its name, uid and version complete the reference at every level."""
        if self._object_meta is None:
            self._object_meta, self._about = metadata_of(tree), b""
        if self.recording.level >= Level.REQUEST:
            self.request_object = encoded_object(tree, self.recording.omit_managed_fields)

    def add_options(self, tree: Mapping[str, Any]) -> None:
        """The DeleteOptions in the request's body."""
        if self.recording.level >= Level.REQUEST:
            self.request_object = object_json({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", **tree})

    def add_patch(self, patch: Any) -> None:
        """The patch in the request's body, as a tree or as the bytes of its JSON."""
        if self.recording.level >= Level.REQUEST:
            self.request_object = object_json(patch)

    def add_response(self, body: Mapping[str, Any] | bytes) -> None:
        """The answer's object, as a tree or as JSON."""
        if self.recording.level >= Level.REQUEST_RESPONSE:
            self.response_object = encoded_object(body, self.recording.omit_managed_fields)

    def event(self, stage: Stage, at: float, noted: Iterable[tuple[str, str]] = ()) -> AuditEvent | None:
        """The event of a stage, None if it is omitted. `noted` are annotations of hooks."""
        omitted = self.recording.omitted
        if omitted and stage in omitted:
            return None
        annotations: dict[str, str] = {}
        if self._annotations or noted:
            for key, value in (*self._annotations, *noted):
                annotations.setdefault(key, value)
        if self.truncated:
            annotations[TRUNCATED] = "true"
        return AuditEvent(self, stage, at, annotations)

    # What is the same in every event of the request is encoded once.

    def about(self) -> bytes:
        if not self._about:
            facts, texts = self.facts, self.texts
            parts = [b'","requestURI":', texts.uri_and_verb, b',"user":', texts.user]
            if self.impersonated is not None:
                parts += (b',"impersonatedUser":', user_json(self.impersonated))
            if facts.source_ips:
                parts += (b',"sourceIPs":', _encode(facts.source_ips))
            if facts.user_agent:
                parts += (b',"userAgent":', _encode(self.user_agent))
            if self._object_meta:
                parts.append(reference_json(self.target, self._object_meta))
            else:
                parts.append(texts.reference)
            self._about = b"".join(parts)
        return self._about

    def impersonate(self, user: User) -> None:
        """From here on the request is carried out as `user`."""
        self.impersonated, self._about = user, b""


def reference_json(target: Target, meta: Mapping[str, str] = _NO_META) -> bytes:
    """The ``objectRef`` of a request; nothing for one that isn't about a resource. `meta` is of the object sent."""
    if not target.resource:
        return b""
    fields = {
        "resource": target.resource,
        "namespace": target.namespace or meta.get("namespace", ""),
        "name": target.name or meta.get("name", ""),
        "uid": meta.get("uid", ""),
        "apiGroup": target.group,
        "apiVersion": target.version,
        "resourceVersion": meta.get("resourceVersion", ""),
        "subresource": target.subresource,
    }
    return b',"objectRef":' + _encode({name: value for name, value in fields.items() if value})


def uri_json(uri: str, verb: str) -> bytes:
    """The fields ``requestURI`` and ``verb``."""
    return b'%s,"verb":%s' % (_encode(uri), _encode(verb))


def user_json(user: User) -> bytes:
    """A user, as in events."""
    fields: dict[str, Any] = {"username": user.name} if user.name else {}
    if user.uid:
        fields["uid"] = user.uid
    if user.groups:
        fields["groups"] = user.groups
    if user.extra:
        fields["extra"] = dict(sorted(user.extra.items()))
    return _encode(fields)


def _status(status: Mapping[str, Any]) -> bytes:
    if len(status) == 1:
        return b'{"metadata":{},"code":%d}' % status["code"]
    return _encode({"metadata": {}, **status})


def _escaped(line: bytes) -> bytes:
    """As Go's encoder: these characters occur inside of texts only."""
    if b"&" in line:
        line = line.replace(b"&", b"\\u0026")
    if b"<" in line:
        line = line.replace(b"<", b"\\u003c")
    if b">" in line:
        line = line.replace(b">", b"\\u003e")
    return line
