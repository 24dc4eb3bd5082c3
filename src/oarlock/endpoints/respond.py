"""Negotiates the form of an answer, and makes a `Response` of a recipe's result in that form.

`parse_accept` and its like read ``Accept`` and ``Content-Type``. An answer usually joins bytes of the cache; Tables,
metadata, YAML, indented JSON and other versions are made on demand, in a thread if they are large (`offload`).
Must not know: how the item was found. See also: `lists`; `errors`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import msgspec

from oarlock.codec import cbor as cbor_codec
from oarlock.codec import json as json_codec
from oarlock.codec import protobuf as protobuf_codec
from oarlock.codec import yaml as yaml_codec
from oarlock.codec.protobuf import envelope
from oarlock.endpoints.catalog import CatalogEntry
from oarlock.endpoints.http import Response
from oarlock.endpoints.in_protobuf import MessageEncoder, OwnMessage, object_from_json, partial
from oarlock.endpoints.lists import forms
from oarlock.endpoints.lists.packed_lists import GZIP_ABOVE, gzipped, one_body
from oarlock.endpoints.request_state import ANONYMOUS, RequestState, Route
from oarlock.endpoints.routing.route import ResourceRoute
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import BadRequest, NotAcceptable, UnsupportedMediaType
from oarlock.meta.memo import Memo
from oarlock.registry.read.recipes import EntryItem, Item
from oarlock.registry.workers import offload_bytes

OFFLOAD_ABOVE = 32 * 1024
"""More bytes than this are converted from and to YAML, CBOR and indented JSON in a thread."""

T = TypeVar("T")


async def offload(size: int, make: Callable[..., T], *args: Any) -> T:
    """Run `make(*args)`; in a thread if `size`, in bytes, is large."""
    if size <= OFFLOAD_ABOVE:
        return make(*args)
    return await asyncio.get_running_loop().run_in_executor(None, make, *args)


JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
CBOR = "application/cbor"
CBOR_SEQ = "application/cbor-seq"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
APPLY_PATCH_CBOR = "application/apply-patch+cbor"

ANY_TREE = (JSON, YAML)
"""The media types of every document, besides protobuf."""

ANY_OBJECT = (JSON, YAML, CBOR)
"""The media types of every object."""

NAMED = (JSON, YAML, PROTOBUF)
"""The media types in the messages of 406 and 415, whatever this endpoint supports: as in Kubernetes."""

PATCHES = frozenset({JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY_PATCH, APPLY_PATCH_CBOR})
STREAMS = {JSON: JSON, CBOR: CBOR_SEQ, PROTOBUF: f"{PROTOBUF};stream=watch"}
"""The media types of a watch, and the Content-Type of each."""

STREAMED = (f"{JSON};stream=watch", f"{PROTOBUF};stream=watch")
META_KINDS = frozenset({"PartialObjectMetadata", "PartialObjectMetadataList"})
META_VERSIONS = frozenset({"v1", "v1beta1"})
DISCOVERY_GROUP = "apidiscovery.k8s.io"
DISCOVERY_KIND = "APIGroupDiscoveryList"
MAX_CLAUSES = 64
MAX_PARTS = 16


@dataclass(frozen=True, slots=True)
class Accepted:
    """The negotiated form.

    `as_kind` is None for the object itself, else ``Table``, ``PartialObjectMetadata``, ``PartialObjectMetadataList`` or
    ``APIGroupDiscoveryList`` in version `as_version`. `pretty` is True if the clause asks for it, None if it doesn't
    say. `response_content_type` is the Content-Type of the answer.
    """

    media_type: str
    as_kind: str | None = None
    as_version: str = ""
    pretty: bool | None = None
    response_content_type: str = JSON


@dataclass(frozen=True, slots=True)
class Clause:
    """One element of Accept; parameter names are lower case, values as sent."""

    kind: str
    subkind: str
    params: tuple[tuple[str, str], ...]

    def matches(self, media_type: str) -> bool:
        kind, _, subkind = media_type.partition("/")
        return self.kind in ("*", kind) and (self.subkind == "*" or (self.kind == kind and self.subkind == subkind))


def accepts_gzip(header: str) -> bool:
    """Whether Accept-Encoding names gzip with a weight above 0 (RFC 9110 §12.5.3)."""
    for coding in header.lower().split(",", MAX_CLAUSES)[:MAX_CLAUSES]:
        name, *params = coding.split(";", MAX_PARTS)[:MAX_PARTS]
        if name.strip() == "gzip":
            weights = [value for key, _, value in (p.partition("=") for p in params) if key.strip() == "q"]
            return not weights or _quality(weights[0].strip()) > 0
    return False


def parse_accept(header: str) -> list[Clause]:
    """The clauses of Accept, most preferred first.

    Clauses with ``q=0`` or without a slash are left out. Only the first 64 clauses, and 16 parts of each, are read: the
    client isn't authenticated yet.
    """
    ranked: list[tuple[tuple[float, bool, bool], Clause]] = []
    for text in header.split(",", MAX_CLAUSES)[:MAX_CLAUSES]:
        name, *params = text.split(";", MAX_PARTS)[:MAX_PARTS]
        kind, slash, subkind = name.strip().lower().partition("/")
        if kind == "*" and not slash:
            subkind = "*"
        elif not kind or not subkind or "/" in subkind or (kind == "*" and subkind != "*"):
            continue
        pairs = [(k.strip().lower(), v.strip().strip('"')) for k, _, v in (p.partition("=") for p in params)]
        quality = _quality(dict(pairs).get("q", "1"))
        if quality > 0:
            clause = Clause(kind, subkind, tuple(p for p in pairs if p[0] and p[0] != "q"))
            ranked.append(((-quality, kind == "*", subkind == "*"), clause))
    ranked.sort(key=lambda pair: pair[0])
    return [clause for _, clause in ranked]


def _quality(text: str) -> float:
    """A q value; an invalid one counts as 1."""
    digits = text.replace(".", "", 1)
    if not (digits.isascii() and digits.isdigit()):
        return 1.0
    return min(float(text), 1.0)


def negotiate(
    accept: str,
    *,
    allowed: Sequence[str] = ANY_OBJECT,
    transforms: bool,
    stream: bool = False,
    collection: bool = False,
    protobuf: bool = False,
) -> Accepted:
    """Choose the form of an answer.

    `allowed` are the supported media types, the default first; `transforms` says whether Table and
    PartialObjectMetadata are supported. `stream` is for a watch, `collection` for any route that also watches; both
    only affect the error messages and the supported streams (all but YAML). `protobuf` says that the object itself can
    be encoded as protobuf; its metadata always can.

    Raises `NotAcceptable`: if the client accepts no media type of the API at all, with the list of what the route
    produces; else with the list of accepted ones.
    """
    if stream:
        allowed = [media for media in allowed if media in STREAMS]
    if not accept.strip():
        return Accepted(allowed[0], response_content_type=allowed[0])
    clauses = parse_accept(accept)
    tried = (*allowed, PROTOBUF) if transforms or protobuf else allowed
    for clause in clauses:
        for media in tried:
            if clause.matches(media) or (stream and clause.matches(STREAMS[media])):
                accepted = _accept(clause, media, transforms, protobuf)
                if accepted is not None:
                    return replace(accepted, response_content_type=STREAMS[media]) if stream else accepted
    if not any(clause.matches(media) for clause in clauses for media in NAMED):
        produced = NAMED + STREAMED if stream or collection else NAMED
        raise NotAcceptable(f"406: Not Acceptable\n\nAvailable representations: {', '.join(produced)}", details={})
    raise _not_acceptable(clauses, allowed, stream=stream)


def _not_acceptable(clauses: Sequence[Clause], allowed: Sequence[str], *, stream: bool) -> NotAcceptable:
    named: Sequence[str] = STREAMED if stream else NAMED
    wanted = [clause for clause in clauses if clause.subkind == PROTOBUF.partition("/")[2]]
    if wanted and not any(key == "as" for clause in wanted for key, _ in clause.params):
        # the usual message would make this client ask for protobuf again
        named = [CBOR_SEQ if media == CBOR else f"{media};stream=watch" for media in allowed] if stream else allowed
    return NotAcceptable("only the following media types are accepted: " + ", ".join(named))


def _accept(clause: Clause, media: str, transforms: bool, protobuf: bool) -> Accepted | None:
    """The form for this clause in this media type; None if unsupported."""
    convert = {"as": "", "g": "", "v": ""}
    transformed = False
    pretty: bool | None = None
    for key, value in clause.params:
        if key in convert:
            convert[key] = value
            transformed = True
        elif (key == "stream" and value != "watch") or (key == "sv" and value not in ("", "v1")):
            return None
        elif key == "pretty":
            pretty = value == "1" or None
    if not transformed:
        if media == PROTOBUF and not protobuf:
            return None
        return Accepted(media, pretty=pretty, response_content_type=media)
    if not transforms or convert["g"] != "meta.k8s.io" or convert["v"] not in META_VERSIONS:
        return None
    if convert["as"] not in META_KINDS and convert["as"] != "Table":
        return None
    if media == PROTOBUF and convert["as"] == "Table":
        return None
    return Accepted(media, convert["as"], convert["v"], pretty, media)


def negotiate_discovery(accept: str, *, aggregated: bool) -> Accepted:
    """Choose the form of a discovery document; `aggregated` if the path has an aggregated one (``/apis``, ``/api``).

    The first clause that can be satisfied wins. v2beta1 isn't supported: a client that only accepts that gets
    `NotAcceptable`, others their next choice.
    """
    if not aggregated:
        return negotiate(accept, allowed=ANY_TREE, transforms=False, protobuf=True)
    for clause in parse_accept(accept):
        params = dict(clause.params)
        if "stream" in params or params.get("sv"):
            continue
        if params.keys().isdisjoint({"as", "g", "v"}):
            if any(clause.matches(media) for media in NAMED):
                break
            continue
        if (params.get("g"), params.get("v"), params.get("as")) != (DISCOVERY_GROUP, "v2", DISCOVERY_KIND):
            continue
        for media in NAMED:
            if clause.matches(media):
                echoed = f"{media};g={DISCOVERY_GROUP};v=v2;as={DISCOVERY_KIND}"
                return Accepted(media, DISCOVERY_KIND, "v2", params.get("pretty") == "1" or None, echoed)
    return negotiate(accept, allowed=ANY_TREE, transforms=False, protobuf=True)


def wrong_plurality(as_kind: str | None, *, listed: bool, group: str, kind: str) -> NotAcceptable | None:
    """The error for PartialObjectMetadata when the answer is a list, or the other way round.

    `kind` is the kind of the answer, a list's ending in ``List``. None if there is no error.
    """
    what = f"*{group.partition('.')[0] or 'core'}.{kind}"
    if listed and as_kind == "PartialObjectMetadata":
        return NotAcceptable(f"you requested {as_kind}, but the requested object is a list ({what})")
    if not listed and as_kind == "PartialObjectMetadataList":
        return NotAcceptable(f"you requested {as_kind}, but the requested object is not a list ({what})")
    return None


def wants_pretty(accepted: Accepted, query: str | None, user_agent: str) -> bool:
    """Whether to indent: by the Accept clause, by ``?pretty=``, or because the client is curl, Wget or a browser.

    `query` is the value of ``pretty`` in the query string; None or empty counts as none.
    """
    if accepted.pretty:
        return True
    if query:
        return query in ("1", "t", "T", "true", "TRUE", "True")
    return user_agent.startswith(("curl", "Wget", "Mozilla/5.0"))


def content_type(header: str) -> str:
    """The media type of a body in lower case, without parameters.

    JSON if the header is empty, empty if it isn't a media type.
    """
    if not header or header == JSON:
        return JSON
    media = header.partition(";")[0].strip().lower()
    kind, slash, subkind = media.partition("/")
    if not (kind and slash and subkind) or "/" in subkind or " " in media or "," in media:
        return ""
    return media


def patch_type(header: str, served: Sequence[str], *, typed: bool) -> str:
    """The media type of a patch, one of `served`.

    Raises `UnsupportedMediaType`: with the list of `served` for another patch type; with a short message for any other
    media type, except for custom resources (not `typed`), which always get the list.
    """
    media = header if header in served else content_type(header) if header else ""
    if media in served:
        return media
    error = UnsupportedMediaType(served)
    if typed and media not in PATCHES:
        error.message = "415: Unsupported Media Type"
        error.details = {}
    raise error


LARGE_BYTES = 64 * 1024
"""An object with more bytes is sent without copying it."""

JSON_HEADERS = ("content-type", JSON)
_decode = msgspec.json.Decoder().decode

_CREATE_ONLY = ("create",)
_forms: Memo[tuple[str, bool, bool, bool, bool], Accepted] = Memo(1024 * 1024, entry_bytes=512, per_byte=2)


def negotiated(
    state: RequestState,
    header: str,
    *,
    protobuf: bool,
    transforms: bool = False,
    stream: bool = False,
    collection: bool = False,
) -> Accepted:
    """What `negotiate` finds, cached for authenticated users. Raises NotAcceptable."""
    key = (header, transforms, stream, collection, protobuf)
    found = _forms.get(key)
    if found is None:
        found = negotiate(header, transforms=transforms, stream=stream, collection=collection, protobuf=protobuf)
        if state.user is not ANONYMOUS:
            _forms.put(key, found, len(header))
    return found


_JSON_WANTED = frozenset(("*/*", JSON))

_BINARY = (CBOR, PROTOBUF)

_AS_JSON = Accepted(JSON)


def accept(state: RequestState, route: ResourceRoute, *, stream: bool = False, collection: bool = False) -> Accepted:
    """The negotiated form; without Accept, the media type of the body. Raises NotAcceptable.

    What can only be created, a review, has no Table and no PartialObjectMetadata.
    """
    headers = state.request.headers
    wanted = headers.get("accept")
    if not stream and (
        wanted in _JSON_WANTED or (not wanted and not headers.get("content-type", "").startswith(_BINARY))
    ):
        return _AS_JSON
    protobuf, kept = route.entry.protobuf is not None, route.entry.verbs != _CREATE_ONLY
    return negotiated(state, _header(state), transforms=kept, stream=stream, collection=collection, protobuf=protobuf)


def accept_answer(state: RequestState, route: ResourceRoute) -> Accepted:
    """The same for the answer of a user's subresource, which has no Table and no PartialObjectMetadata.

    One that takes protobuf answers with it: with an object that has a message, or a Status.
    """
    protobuf = any(route.entry.sub_messages(route.target.subresource))
    return negotiated(state, _header(state), protobuf=protobuf)


def _header(state: RequestState) -> str:
    headers = state.request.headers
    header = headers.get("accept", "")
    if not header:
        sent = headers.get("content-type", "")
        return CBOR if sent.startswith(CBOR) else f"{PROTOBUF},{JSON}" if sent.startswith(PROTOBUF) else ""
    return header


def is_pretty(state: RequestState, route: Route | None, accepted: Accepted) -> bool:
    value = route.query("pretty") if route is not None and route.pairs else None
    return wants_pretty(accepted, value, state.request.headers.get("user-agent", ""))


async def item_response(
    state: RequestState, route: ResourceRoute, item: Item, accepted: Accepted, status: int = 200
) -> Response:
    """One object in the negotiated form."""
    entry = route.entry
    if accepted.as_kind is not None:
        wrong = wrong_plurality(accepted.as_kind, listed=False, group=entry.gvk.group, kind=entry.gvk.kind)
        if wrong is not None:
            raise wrong
    shown = item if route.scaling is None else route.scaling.item(item)
    if accepted.media_type == PROTOBUF and accepted.as_kind is None and isinstance(shown, EntryItem) and entry.protobuf:
        encode = MessageEncoder(entry.protobuf)
        (message,) = await shown.resource.derived((shown.entry,), route.target.version, encode)
        return await _answer(state, envelope(entry.api_version, entry.gvk.kind, message), accepted, status)
    version = route.target.version
    if isinstance(shown, EntryItem) and version == shown.resource.definition.stored_as:
        body = shown.entry.body
    else:
        body = await shown.body(version)
    pretty, agent = route.query("pretty") if route.pairs else None, state.request.headers.get("user-agent", "")
    plain = accepted.media_type == JSON and accepted.as_kind is None and not wants_pretty(accepted, pretty, agent)
    if plain and len(body) <= LARGE_BYTES:  # which is too small to be compressed
        return Response(status, [("content-type", accepted.response_content_type)], b"%s%s\n" % (route.head, body))
    if accepted.as_kind == "Table":
        options = forms.TableOptions(include_object(route), accepted.as_version, state.clock.now())
        data = await route.resource.settings.workers.go_on(
            offload_bytes(body), _table, route.head + body, entry, options
        )
        return await encoded(state, route, data, accepted, status)
    if accepted.as_kind is not None:
        return await encoded(state, route, partial(body, accepted.as_version), accepted, status)
    if plain:
        headers = [("content-type", accepted.response_content_type)]
        return await compressed(state, Response(status, headers, one_body(route.head, body)))
    return await encoded(state, route, route.head + body, accepted, status)


def _table(data: bytes, entry: CatalogEntry, options: forms.TableOptions) -> bytes:
    tree = _decode(data)
    return forms.table_of(entry, [tree], _list_meta(tree), options)


def _list_meta(tree: dict[str, Any]) -> dict[str, Any]:
    version = tree["metadata"].get("resourceVersion")
    return {"resourceVersion": version} if version else {}


async def encoded(
    state: RequestState, route: ResourceRoute, data: bytes, accepted: Accepted, status: int = 200
) -> Response:
    """Compact JSON in the negotiated form: unchanged, indented, YAML, CBOR or protobuf; compressed if large.

    Protobuf is supported for the meta kinds and for objects of `route` whose fields have numbers.
    """
    if accepted.media_type == YAML:
        data = await offload(len(data), _yaml, data)
    elif accepted.media_type == CBOR:
        data = await offload(len(data), cbor_codec.from_json, data)
    elif accepted.media_type == PROTOBUF:
        data = await offload(len(data), object_from_json, own_message(route.entry), data)
    elif is_pretty(state, route, accepted):
        data = await offload(len(data), json_codec.pretty, data)
    elif data[-1:] != b"\n":
        data += b"\n"
    return await _answer(state, data, accepted, status)


async def _answer(state: RequestState, data: bytes, accepted: Accepted, status: int) -> Response:
    return await compressed(state, Response(status, [("content-type", accepted.response_content_type)], data))


def document(data: bytes, media_type: str, pretty: bool) -> bytes:
    """A document in compact JSON, such as a Status or one of discovery, in a media type; JSON may be indented."""
    if media_type == YAML:
        return _yaml(data)
    if media_type == CBOR:
        return cbor_codec.from_json(data)
    if media_type == PROTOBUF:
        return protobuf_codec.encode(_decode(data))
    return json_codec.pretty(data) if pretty else data + b"\n"


def own_message(entry: CatalogEntry) -> OwnMessage:
    """The message of a version of a resource."""
    return OwnMessage(entry.api_version, entry.gvk.kind, entry.protobuf)


def _yaml(data: bytes) -> bytes:
    return yaml_codec.encode(_decode(data))


async def compressed(state: RequestState, response: Response) -> Response:
    body = response.body
    if isinstance(body, bytes) and len(body) <= GZIP_ABOVE:
        return response
    if not accepts_gzip(state.request.headers.get("accept-encoding", "")):
        return response
    packed = await gzipped(body)
    if packed is not None:
        response.body = packed
        response.headers += [("content-encoding", "gzip"), ("vary", "Accept-Encoding")]
    return response


def include_object(route: ResourceRoute) -> str:
    """Which part of each object a Table contains (``includeObject``). Raises BadRequest."""
    value = route.query("includeObject") or "Metadata"
    if value not in ("None", "Metadata", "Object"):
        raise BadRequest(
            f'Unable to convert to Table as requested: includeObject: Invalid value: "{value}": '
            "must be 'Metadata', 'Object', 'None', or empty"
        )
    return value
