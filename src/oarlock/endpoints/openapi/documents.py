"""`OpenAPIDocuments`: the OpenAPI documents of one catalog, and the answers with them.

Parts are rendered on first request, in a thread, and cached; the next catalog takes over what is unchanged.
Must not know: sockets, users. Source: KEP-2896 (``?hash=``). See also: `hashes`; `parts`, then `documents_v3`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from email.utils import formatdate

import msgspec

from oarlock.endpoints.catalog import Catalog
from oarlock.endpoints.discovery import etag_matches, etag_of
from oarlock.endpoints.http import Response
from oarlock.endpoints.lists.packed_lists import BodyPart, JoinedBody
from oarlock.endpoints.openapi.documents_v3 import Info
from oarlock.endpoints.openapi.kinds import types_of
from oarlock.endpoints.openapi.parts import (
    ELSEWHERE,
    SHARED,
    DocumentForm,
    DocumentHashes,
    Part,
    Pieces,
    RenderedParts,
    Renderer,
    merged_part,
    whole,
)
from oarlock.endpoints.respond import JSON, parse_accept
from oarlock.endpoints.routing.index import not_found
from oarlock.registry.workers import Offload, at_once

_FORMATS = "application/com.github.proto-openapi.spec."
PROTOBUF_V2 = f"{_FORMATS}v2.v1.0+protobuf"
PROTOBUF_V3 = f"{_FORMATS}v3.v1.0+protobuf"
OLD_PROTOBUF_V2 = f"{_FORMATS}v2@v1.0+protobuf"
OLD_PROTOBUF_V3 = f"{_FORMATS}v3@v1.0+protobuf"
YEAR_S = 365 * 86400

AT_ONCE = 32
"""Parts that are rendered in one step in a thread: few hold the interpreter for long, and one each makes many waits."""

WHOLE_BYTES = 128 * 1024
"""A document with no more bytes is sent at once."""


class OpenAPIDocuments:
    """The documents of one catalog.

    `offload` runs slow steps in a thread. Unchanged parts that `before` has rendered are reused.
    """

    def __init__(
        self,
        catalog: Catalog,
        info: Info,
        offload: Offload = at_once,
        before: OpenAPIDocuments | None = None,
    ) -> None:
        self._catalog = catalog
        self._info = info
        self._offload = offload
        types = types_of(catalog)
        kept = before is not None and before._document_hashes.types is types
        self._document_hashes: DocumentHashes = before._document_hashes if kept else DocumentHashes(info, types)  # type: ignore[union-attr]
        self._parts: RenderedParts = before._parts if before is not None else RenderedParts()
        self._known_hashes: Mapping[str, str] | None = None
        self._v2_etag = ""
        self._v3_etag = ""
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
        hashes = await self._hashes()
        elsewhere = _elsewhere(self._catalog)
        if not self._v2_etag:
            self._v2_etag = await self._offload(
                etag_of, b"".join(["".join(hashes.values()).encode(), *elsewhere.values()])
            )
        headers = [("etag", self._v2_etag), *vary]
        if etag_matches(if_none_match, self._v2_etag):
            return Response(304, headers)
        form = ("v2", media != JSON)
        parts = await self._parts_of(form, [name for name in hashes if name not in elsewhere])
        if elsewhere:
            parts.append(await self._merged(form, elsewhere))
        document = whole(parts, self._info, form)
        return Response(200, [("content-type", JSON if media == JSON else PROTOBUF_V2), *headers], _body(document))

    async def _respond_index(self, if_none_match: str) -> Response:
        if not self._v3_etag:
            index = await self._offload(_index, await self._hashes())
            self._v3_index, self._v3_etag = index, await self._offload(etag_of, index)
        if etag_matches(if_none_match, self._v3_etag):
            return Response(304, [("etag", self._v3_etag)])
        return Response(200, [("content-type", JSON), ("etag", self._v3_etag)], self._v3_index)

    async def _respond_v3(self, name: str, wanted: str, accept: str, known: tuple[str, float]) -> Response:
        current = (await self._hashes()).get(name) if name else None
        if current is None:
            # an extension API server of Go answers with an empty success, kube-apiserver as it should
            return Response(200, []) if self._catalog.group("") is None else not_found()
        if_none_match, now = known
        vary = [("vary", "Accept")]
        media = _choose(accept, (JSON, OLD_PROTOBUF_V3, PROTOBUF_V3))
        if media is None:
            return Response(406, vary)
        etag = f'"{current}"'
        if wanted and wanted != current:
            headers = [("content-type", JSON), ("etag", etag), ("location", _url(name, current)), *vary]
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

    async def _hashes(self) -> Mapping[str, str]:
        """The hashes of all parts by name, that of the shared ones first."""
        if self._known_hashes is None:
            known = await self._offload(self._hashes_now)
            self._parts.keep(lambda key: key[1] in known or key[1] == ELSEWHERE)
            self._known_hashes = known
        return self._known_hashes

    def _hashes_now(self) -> dict[str, str]:
        hashes = self._document_hashes
        return {SHARED: hashes.of_shared(self._catalog), **hashes.of(self._catalog)}

    async def _part(self, form: DocumentForm, name: str) -> Part | None:
        """A part; concurrent requests share one rendering."""
        async with self._locks.setdefault(name, asyncio.Lock()):
            return next(iter(await self._rendered(form, [name])), None)

    async def _parts_of(self, form: DocumentForm, names: Sequence[str]) -> list[Part]:
        """All parts of these names; concurrent requests share one rendering."""
        parts: list[Part] = []
        async with self._locks.setdefault(f"all of {form}", asyncio.Lock()):
            for start in range(0, len(names), AT_ONCE):
                parts += await self._rendered(form, names[start : start + AT_ONCE])
        return parts

    async def _rendered(self, form: DocumentForm, names: Sequence[str]) -> list[Part]:
        """The parts of these that exist. Those not rendered yet are rendered together."""
        hashes = await self._hashes()
        known = {name: self._parts.get((form, name)) for name in names}
        stale = [(name, part) for name, part in known.items() if part is None or part.hash != hashes[name]]
        if stale:
            renderer = Renderer(self._catalog, self._info, self._document_hashes, form)
            for name, part in await self._offload(renderer.parts, stale, hashes):
                known[name] = part
                if part is not None:
                    self._parts.put((form, name), part)
        return [part for part in known.values() if part is not None]

    async def _merged(self, form: DocumentForm, elsewhere: Mapping[str, bytes]) -> Part:
        """What other servers say of theirs, beside the schemas of this one."""
        own = await self._parts_of(("v2", False), [name for name in await self._hashes() if name not in elsewhere])
        async with self._locks.setdefault(ELSEWHERE, asyncio.Lock()):
            part = self._parts.get((form, ELSEWHERE))
            if part is None or part.hash != self._v2_etag:
                schemas = [document.schemas for document in own]
                part = await self._offload(merged_part, self._v2_etag, form, schemas, tuple(elsewhere.values()))
                self._parts.put((form, ELSEWHERE), part)
        return part


def _elsewhere(catalog: Catalog) -> dict[str, bytes]:
    """OpenAPI v2 of the versions that other servers tell theirs of, by the names of their parts."""
    found = {
        f"apis/{group.name}/{version}": group.proxied[version].documents.openapi_v2()
        for group in catalog.in_order()
        for version in group.versions
        if version in group.proxied
    }
    return {name: data for name, data in found.items() if data}


def _index(hashes: Mapping[str, str]) -> bytes:
    """The documents of version 3 by name, with their hashes."""
    paths = {name: {"serverRelativeURL": _url(name, current)} for name, current in hashes.items() if name}
    return msgspec.json.encode({"paths": paths})


def _url(name: str, current: str) -> str:
    return f"/openapi/v3/{name}?hash={current}"


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
