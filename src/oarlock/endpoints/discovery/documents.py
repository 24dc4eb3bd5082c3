"""`DiscoveryDocuments`: the discovery documents of one catalog as bytes, and the answers with them.

Each document is encoded once per media type, on first request, of pieces that the next catalog has too.
Must not know: sockets, users. See also: `pieces`; `legacy` and `aggregated` for the content.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec

from oarlock.codec import json, protobuf, yaml
from oarlock.endpoints.catalog import Catalog, CatalogGroup
from oarlock.endpoints.discovery.aggregated import api_group_discovery_list
from oarlock.endpoints.discovery.legacy import api_group, api_group_list, api_resource_list, api_versions
from oarlock.endpoints.discovery.pieces import DiscoveryPieces
from oarlock.endpoints.http import Response
from oarlock.endpoints.negotiation import PROTOBUF, YAML, Accepted, negotiate_discovery
from oarlock.meta.errors import NoSuchPath
from oarlock.meta.json_trees import Tree
from oarlock.registry.workers import Offload, at_once

__all__ = ["DiscoveryDocuments", "etag_matches", "etag_of"]


FEW = 100
"""A document of no more resources is written on the event loop: that takes some milliseconds."""

_raw = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class DiscoveryDocuments:
    """The documents of one catalog. `server_address` is where clients reach this server (``host:port``).

    `offload` runs slow steps in a thread. What `before` has encoded, and is the same, is used again.
    """

    __slots__ = ("_bytes", "_catalog", "_etags", "_groups", "_offload", "_pieces", "_server_address")

    def __init__(
        self,
        catalog: Catalog,
        server_address: str = "",
        offload: Offload = at_once,
        before: DiscoveryDocuments | None = None,
    ) -> None:
        self._catalog = catalog
        self._groups = catalog.in_order()
        self._server_address = server_address
        self._offload = offload
        self._pieces: DiscoveryPieces = before._pieces if before is not None else DiscoveryPieces()
        self._bytes: dict[tuple[str, str, bool], bytes] = {}
        self._etags: dict[str, str] = {}

    async def respond(
        self, path: str, accept: str = "", if_none_match: str = "", *, pretty: bool = False
    ) -> Response | None:
        """The answer to a GET of `path`, with or without a slash at its end; None when no document is there.

        Raises `NotAcceptable`, and `NoSuchPath` for a version that a served group doesn't have.
        """
        trimmed = path.rstrip("/")
        make = self._maker(trimmed)
        if make is None:
            return None
        at_root = trimmed in ("/api", "/apis")
        accepted = negotiate_discovery(accept, aggregated=at_root)
        pretty = pretty or bool(accepted.pretty)
        if accepted.as_kind is None:
            body = await self._encoded(trimmed, make, accepted.media_type, pretty)
            return Response(200, [("content-type", accepted.response_content_type)], body)
        return await self._aggregated(trimmed, accepted, if_none_match, pretty)

    async def _aggregated(self, path: str, accepted: Accepted, if_none_match: str, pretty: bool) -> Response:
        groups = [group for group in self._groups if bool(group.name) == (path == "/apis")]

        def etag_now() -> str:
            return etag_of(b"".join([self._pieces.group(group).digest for group in groups]))

        def make() -> Tree:
            return api_group_discovery_list([self._pieces.group(group).json for group in groups])

        etag = self._etags.get(path)
        if etag is None:  # the same for every encoding
            etag = self._etags[path] = await self._offload_if_large(etag_now)
        headers = [("etag", etag), ("vary", "Accept"), ("cache-control", "public")]
        if etag_matches(if_none_match, etag):
            return Response(304, headers)
        body = await self._encoded(f"{path} aggregated", make, accepted.media_type, pretty)
        return Response(200, [("content-type", accepted.response_content_type), *headers], body)

    def _maker(self, path: str) -> Callable[[], Tree] | None:
        parts = path.split("/")[1:]
        match parts:
            case ["apis"]:
                return lambda: api_group_list(self._groups, self._server_address)
            case ["apis", name] if name and (found := self._catalog.group(name)) is not None:
                return lambda: api_group(found)
            case ["api"] if (core := self._catalog.group("")) is not None:
                return lambda: api_versions(core, self._server_address)
            case ["apis", name, version] if name and (group := self._catalog.group(name)) is not None:
                pass
            case ["api", version] if (group := self._catalog.group("")) is not None:
                pass
            case _:
                return None
        return self._list_maker(group, version)

    def _list_maker(self, group: CatalogGroup, version: str) -> Callable[[], Tree] | None:
        if version not in group.versions:
            if self._catalog.is_custom(group.name):
                return None
            raise NoSuchPath
        return lambda: api_resource_list(group, version, self._pieces.listed(group, version))

    async def _encoded(self, name: str, make: Callable[[], Tree], media_type: str, pretty: bool) -> bytes:
        key = (name, media_type, pretty)
        body = self._bytes.get(key)
        if body is None:
            body = self._bytes[key] = await self._offload_if_large(lambda: _encode(_raw(make()), media_type, pretty))
        return body

    async def _offload_if_large(self, step: Callable[[], Any]) -> Any:
        """The result of `step`, run in a thread if there are many resources."""
        many = sum(len(group.resources) for group in self._groups) > FEW
        return await self._offload(step) if many else step()


def _encode(data: bytes, media_type: str, pretty: bool) -> bytes:
    if media_type == YAML:
        return yaml.encode(_decode(data))
    if media_type == PROTOBUF:
        return protobuf.encode(_decode(data))
    return json.pretty(data) if pretty else data + b"\n"


def etag_of(body: bytes) -> str:
    """The ETag of what a document is made of: its SHA-512, in quotes."""
    return f'"{hashlib.sha512(body).hexdigest().upper()}"'


def etag_matches(if_none_match: str, etag: str) -> bool:
    """Whether ``If-None-Match`` names this ETag (RFC 9110 §13.1.2)."""
    if not if_none_match:
        return False
    return if_none_match.strip() == "*" or etag in [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
