"""`OpenAPIDocuments`: the OpenAPI documents of one catalog, and the answers made of them.

Nothing is built before somebody asks; then a document is kept as JSON and, when asked for, as protobuf.
Must not know: sockets, users. Source: KEP-2896 (``?hash=``). Next: `documents_v3` for what is in them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from email.utils import formatdate
from typing import Any

import msgspec

from oarlock.endpoints.catalog import CatalogIndex
from oarlock.endpoints.discovery.documents import etag_matches
from oarlock.endpoints.http import Response
from oarlock.endpoints.negotiation import JSON, parse_accept
from oarlock.endpoints.openapi.documents_v2 import document_v2
from oarlock.endpoints.openapi.documents_v3 import Info, document_names, document_v3
from oarlock.endpoints.openapi.operations import PatchTypes
from oarlock.endpoints.openapi.proto_v2 import encode_v2
from oarlock.endpoints.openapi.proto_v3 import encode_v3

__all__ = ["OpenAPIDocuments"]

Tree = dict[str, Any]
_FORMATS = "application/com.github.proto-openapi.spec."
PROTOBUF_V2 = f"{_FORMATS}v2.v1.0+protobuf"
PROTOBUF_V3 = f"{_FORMATS}v3.v1.0+protobuf"
OLD_PROTOBUF_V2 = f"{_FORMATS}v2@v1.0+protobuf"
OLD_PROTOBUF_V3 = f"{_FORMATS}v3@v1.0+protobuf"
YEAR_S = 365 * 86400


class _Document:
    """One document in its encodings. `hash` is that of the JSON, whatever is sent."""

    __slots__ = ("_encode", "_protobuf", "_tree", "hash", "json")

    def __init__(self, tree: Tree, encode: Callable[[Tree], bytes]) -> None:
        self.json: bytes = msgspec.json.encode(tree)
        self.hash = hashlib.sha512(self.json).hexdigest().upper()
        self._tree: Tree | None = tree
        self._encode = encode
        self._protobuf = b""

    @property
    def protobuf(self) -> bytes:
        if self._tree is not None:
            self._protobuf = self._encode(self._tree)
            self._tree = None  # JSON and protobuf are all that is needed from here on
        return self._protobuf


class OpenAPIDocuments:
    """The documents of one `CatalogIndex`.

    `patch_types` says which media types of patches a resource takes; `title` and `version` what the documents
    call the API.
    """

    def __init__(
        self, index: CatalogIndex, patch_types: PatchTypes, *, title: str = "oarlock", version: str = "0.1"
    ) -> None:
        self._index = index
        self._info = Info(title, version, patch_types)
        self._v2: _Document | None = None
        self._v3: dict[str, _Document] = {}
        self._v3_index = b""

    def respond(
        self,
        path: str,
        query: Sequence[tuple[str, str]] = (),
        accept: str = "",
        if_none_match: str = "",
        *,
        now: float = 0.0,
    ) -> Response | None:
        """The answer to a GET of `path` under ``/openapi``; None when nothing is there.

        `now` is the time in seconds since the epoch, for the ``Expires`` of documents asked for by their hash; without
        it they say ``max-age`` alone.
        """
        if path in ("/openapi/v2", "/openapi/v2/"):
            return self._respond_v2(accept, if_none_match)
        if path in ("/openapi/v3", "/openapi/v3/"):
            return self._respond_index(if_none_match)
        if path.startswith("/openapi/v3/"):
            wanted = next((value for key, value in query if key == "hash"), "")
            return self._respond_v3(path.removeprefix("/openapi/v3/").rstrip("/"), wanted, accept, if_none_match, now)
        return None

    def _respond_v2(self, accept: str, if_none_match: str) -> Response:
        vary = [("vary", "Accept-Encoding"), ("vary", "Accept")]
        media = _choose(accept, (JSON, OLD_PROTOBUF_V2, PROTOBUF_V2))
        if media is None:
            return Response(406, vary)
        if self._v2 is None:
            self._v2 = _Document(document_v2(self._index, self._info), encode_v2)
        return _send(self._v2, media, PROTOBUF_V2, if_none_match, vary)

    def _respond_index(self, if_none_match: str) -> Response:
        if not self._v3_index:
            paths = {name: {"serverRelativeURL": self._url(name)} for name in document_names(self._index)}
            self._v3_index = msgspec.json.encode({"paths": paths})
        etag = f'"{hashlib.sha512(self._v3_index).hexdigest().upper()}"'
        if etag_matches(if_none_match, etag):
            return Response(304, [("etag", etag)])
        return Response(200, [("content-type", JSON), ("etag", etag)], self._v3_index)

    def _respond_v3(self, name: str, wanted: str, accept: str, if_none_match: str, now: float) -> Response:
        document = self._document(name)
        if document is None:
            return Response(200, [])  # as the Go server answers: nothing, with success
        vary = [("vary", "Accept")]
        media = _choose(accept, (JSON, OLD_PROTOBUF_V3, PROTOBUF_V3))
        if media is None:
            return Response(406, vary)
        if wanted and wanted != document.hash:
            headers = [("content-type", JSON), ("etag", f'"{document.hash}"'), ("location", self._url(name)), *vary]
            return Response(301, headers)
        if wanted:
            if now:
                vary += [("cache-control", "public, immutable"), ("expires", formatdate(now + YEAR_S, usegmt=True))]
            else:
                vary.append(("cache-control", f"public, immutable, max-age={YEAR_S}"))
        return _send(document, media, PROTOBUF_V3, if_none_match, vary)

    def _document(self, name: str) -> _Document | None:
        document = self._v3.get(name)
        if document is None:
            tree = document_v3(self._index, name, self._info)
            if tree is None:
                return None
            document = self._v3[name] = _Document(tree, encode_v3)
        return document

    def _url(self, name: str) -> str:
        document = self._document(name)
        assert document is not None
        return f"/openapi/v3/{name}?hash={document.hash}"


def _choose(accept: str, offered: Sequence[str]) -> str | None:
    """The offered media type that is wanted most; without Accept the first."""
    if not accept.strip():
        return offered[0]
    for clause in parse_accept(accept):
        for media in offered:
            if clause.matches(media):
                return media
    return None


def _send(
    document: _Document, media: str, protobuf: str, if_none_match: str, headers: list[tuple[str, str]]
) -> Response:
    etag = f'"{document.hash}"'
    headers = [("etag", etag), *headers]
    if etag_matches(if_none_match, etag):
        return Response(304, headers)
    if media == JSON:
        return Response(200, [("content-type", JSON), *headers], document.json)
    return Response(200, [("content-type", protobuf), *headers], document.protobuf)
