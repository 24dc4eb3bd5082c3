"""`OpenAPIDocuments`: the OpenAPI documents of one catalog, and the answers with them.

Parts are rendered on first request and cached; unchanged parts are taken over by the next catalog.
Must not know: sockets, users. Source: KEP-2896 (``?hash=``). See also: `parts`, then `documents_v3` for their content.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from email.utils import formatdate

import msgspec

from oarlock.endpoints.catalog import CatalogIndex
from oarlock.endpoints.discovery.documents import etag_matches
from oarlock.endpoints.http import Response
from oarlock.endpoints.joined import BodyPart, JoinedBody
from oarlock.endpoints.negotiation import JSON, parse_accept
from oarlock.endpoints.openapi.documents_v3 import Info, document_names
from oarlock.endpoints.openapi.parts import SHARED, Dialect, Part, Pieces, hash_of, render, whole
from oarlock.registry.workers import Offload, at_once

__all__ = ["OpenAPIDocuments"]

Form = tuple[Dialect, bool]
"""A dialect, in JSON or (True) in protobuf."""

_FORMATS = "application/com.github.proto-openapi.spec."
PROTOBUF_V2 = f"{_FORMATS}v2.v1.0+protobuf"
PROTOBUF_V3 = f"{_FORMATS}v3.v1.0+protobuf"
OLD_PROTOBUF_V2 = f"{_FORMATS}v2@v1.0+protobuf"
OLD_PROTOBUF_V3 = f"{_FORMATS}v3@v1.0+protobuf"
YEAR_S = 365 * 86400

WHOLE_BYTES = 128 * 1024
"""A document with no more bytes is sent at once."""


class OpenAPIDocuments:
    """The documents of one `CatalogIndex`.

    `offload` runs slow steps in a thread. Unchanged parts that `before` has rendered are reused.
    """

    def __init__(
        self,
        index: CatalogIndex,
        info: Info,
        offload: Offload = at_once,
        before: OpenAPIDocuments | None = None,
    ) -> None:
        self._index = index
        self._info = info
        self._offload = offload
        self._hashes: dict[str, str] = {}
        self._names = document_names(index)
        names = {SHARED, *self._names}
        parts = before._parts if before is not None else {}
        self._parts: dict[tuple[Form, str], Part] = {key: part for key, part in parts.items() if key[1] in names}
        self._v2: dict[Form, Pieces] = {}
        self._v2_etag = ""
        self._v3_index = b""
        self._locks: dict[str, asyncio.Lock] = {}

    async def respond(
        self,
        path: str,
        query: Sequence[tuple[str, str]] = (),
        accept: str = "",
        if_none_match: str = "",
        *,
        now: float = 0.0,
    ) -> Response | None:
        """The answer to a GET of `path` under ``/openapi``; None if there is no such document.

        `now` is the time in seconds since the epoch, for ``Expires`` of documents requested with their hash; without it
        only ``max-age`` is sent.
        """
        if path in ("/openapi/v2", "/openapi/v2/"):
            return await self._respond_v2(accept, if_none_match)
        if path in ("/openapi/v3", "/openapi/v3/"):
            return await self._respond_index(if_none_match)
        if path.startswith("/openapi/v3/"):
            wanted = next((value for key, value in query if key == "hash"), "")
            name = path.removeprefix("/openapi/v3/").rstrip("/")
            return await self._respond_v3(name, wanted, accept, (if_none_match, now))
        return None

    async def _respond_v2(self, accept: str, if_none_match: str) -> Response:
        vary = [("vary", "Accept-Encoding"), ("vary", "Accept")]
        media = _choose(accept, (JSON, OLD_PROTOBUF_V2, PROTOBUF_V2))
        if media is None:
            return Response(406, vary)
        names = [SHARED, *self._names]
        if not self._v2_etag:
            self._v2_etag = _etag("".join([await self._hash(name) for name in names]).encode())
        headers = [("etag", self._v2_etag), *vary]
        if etag_matches(if_none_match, self._v2_etag):
            return Response(304, headers)
        form = ("v2", media != JSON)
        found = self._v2.get(form)
        if found is None:
            parts = [await self._part(form, name) for name in names]
            found = self._v2[form] = whole([part for part in parts if part is not None], self._info, form)
        return Response(200, [("content-type", JSON if media == JSON else PROTOBUF_V2), *headers], _body(found))

    async def _respond_index(self, if_none_match: str) -> Response:
        if not self._v3_index:
            paths = {name: {"serverRelativeURL": await self._url(name)} for name in self._names}
            self._v3_index = msgspec.json.encode({"paths": paths})
        etag = _etag(self._v3_index)
        if etag_matches(if_none_match, etag):
            return Response(304, [("etag", etag)])
        return Response(200, [("content-type", JSON), ("etag", etag)], self._v3_index)

    async def _respond_v3(self, name: str, wanted: str, accept: str, known: tuple[str, float]) -> Response:
        if name not in self._names:
            return Response(200, [])  # an empty success, as the Go server answers
        if_none_match, now = known
        vary = [("vary", "Accept")]
        media = _choose(accept, (JSON, OLD_PROTOBUF_V3, PROTOBUF_V3))
        if media is None:
            return Response(406, vary)
        current = await self._hash(name)
        etag = f'"{current}"'
        if wanted and wanted != current:
            headers = [("content-type", JSON), ("etag", etag), ("location", await self._url(name)), *vary]
            return Response(301, headers)
        if wanted:
            if now:
                vary += [("cache-control", "public, immutable"), ("expires", formatdate(now + YEAR_S, usegmt=True))]
            else:
                vary.append(("cache-control", f"public, immutable, max-age={YEAR_S}"))
        headers = [("etag", etag), *vary]
        if etag_matches(if_none_match, etag):
            return Response(304, headers)
        form = ("v3", media != JSON)
        part = await self._part(form, name)
        assert part is not None
        content_type = JSON if media == JSON else PROTOBUF_V3
        return Response(200, [("content-type", content_type), *headers], _body(whole([part], self._info, form)))

    async def _hash(self, name: str) -> str:
        found = self._hashes.get(name)
        if found is None:
            found = self._hashes[name] = await self._offload(hash_of, self._index, name, self._info)
        return found

    async def _url(self, name: str) -> str:
        return f"/openapi/v3/{name}?hash={await self._hash(name)}"

    async def _part(self, form: Form, name: str) -> Part | None:
        """A part; concurrent requests share one rendering."""
        current = await self._hash(name)
        async with self._locks.setdefault(name, asyncio.Lock()):
            part = self._parts.get((form, name))
            if part is None or part.hash != current:
                part = await self._offload(render, self._index, name, self._info, form)
                if part is not None:
                    self._parts[form, name] = part
        return part


def _etag(data: bytes) -> str:
    return f'"{hashlib.sha512(data).hexdigest().upper()}"'


def _body(pieces: Pieces) -> bytes | JoinedBody:
    size = sum(map(len, pieces))
    return (
        b"".join(pieces)
        if size <= WHOLE_BYTES
        else JoinedBody(b"", [[BodyPart(piece) for piece in pieces]], b"", b"", size)
    )


def _choose(accept: str, offered: Sequence[str]) -> str | None:
    """The most preferred of the offered media types; the first without Accept."""
    if not accept.strip():
        return offered[0]
    for clause in parse_accept(accept):
        for media in offered:
            if clause.matches(media):
                return media
    return None
