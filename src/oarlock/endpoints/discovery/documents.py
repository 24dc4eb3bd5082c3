"""`DiscoveryDocuments`: the discovery documents of one catalog as bytes, and the answers with them.

Each document is encoded once per media type, on first request.
Must not know: sockets, users. See also: `legacy` and `aggregated` for their content.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from oarlock.codec import json, protobuf, yaml
from oarlock.endpoints.catalog import CatalogIndex
from oarlock.endpoints.discovery.aggregated import api_group_discovery_list
from oarlock.endpoints.discovery.legacy import api_group, api_group_list, api_resource_list, api_versions
from oarlock.endpoints.http import Response
from oarlock.endpoints.negotiation import JSON, PROTOBUF, YAML, Accepted, negotiate_discovery
from oarlock.meta.errors import NoSuchPath

__all__ = ["DiscoveryDocuments", "etag_matches", "etag_of"]

Tree = dict[str, Any]


class DiscoveryDocuments:
    """The documents of one `CatalogIndex`. `server_address` is where clients reach this server (``host:port``)."""

    __slots__ = ("_bytes", "_core", "_etags", "_index", "_server_address")

    def __init__(self, index: CatalogIndex, server_address: str = "") -> None:
        self._index = index
        self._core = index.group("")
        self._server_address = server_address
        self._bytes: dict[tuple[str, str, bool], bytes] = {}
        self._etags: dict[str, str] = {}

    def respond(self, path: str, accept: str = "", if_none_match: str = "", *, pretty: bool = False) -> Response | None:
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
            body = self._encoded(trimmed, make, accepted.media_type, pretty)
            return Response(200, [("content-type", accepted.response_content_type)], body)
        return self._aggregated(trimmed, accepted, if_none_match, pretty)

    def _aggregated(self, path: str, accepted: Accepted, if_none_match: str, pretty: bool) -> Response:
        def make() -> Tree:
            return api_group_discovery_list(g for g in self._index.groups if bool(g.name) == (path == "/apis"))

        name = f"{path} aggregated"
        etag = self._etags.get(path)
        if etag is None:  # the same for every encoding
            etag = self._etags[path] = etag_of(self._encoded(name, make, JSON, False))
        headers = [("etag", etag), ("vary", "Accept"), ("cache-control", "public")]
        if etag_matches(if_none_match, etag):
            return Response(304, headers)
        body = self._encoded(name, make, accepted.media_type, pretty)
        return Response(200, [("content-type", accepted.response_content_type), *headers], body)

    def _maker(self, path: str) -> Callable[[], Tree] | None:
        index = self._index
        parts = path.split("/")[1:]
        match parts:
            case ["apis"]:
                return lambda: api_group_list(index, self._server_address)
            case ["apis", name] if name and (found := index.group(name)) is not None:
                return lambda: api_group(found)
            case ["api"] if (core := self._core) is not None:
                return lambda: api_versions(core, self._server_address)
            case ["apis", name, version] if name and (group := index.group(name)) is not None:
                pass
            case ["api", version] if (group := self._core) is not None:
                pass
            case _:
                return None
        if version not in group.entries:
            raise NoSuchPath
        return lambda: api_resource_list(group, version)

    def _encoded(self, name: str, make: Callable[[], Tree], media_type: str, pretty: bool) -> bytes:
        key = (name, media_type, pretty)
        body = self._bytes.get(key)
        if body is None:
            body = self._bytes[key] = _encode(make(), media_type, pretty)
        return body


def _encode(tree: Tree, media_type: str, pretty: bool) -> bytes:
    if media_type == YAML:
        return yaml.encode(tree)
    if media_type == PROTOBUF:
        return protobuf.encode(tree)
    return json.pretty(tree) if pretty else json.encode(tree) + b"\n"


def etag_of(body: bytes) -> str:
    """The ETag of a document: its SHA-512, in quotes."""
    return f'"{hashlib.sha512(body).hexdigest().upper()}"'


def etag_matches(if_none_match: str, etag: str) -> bool:
    """Whether ``If-None-Match`` names this ETag (RFC 9110 §13.1.2)."""
    if not if_none_match:
        return False
    return if_none_match.strip() == "*" or etag in [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
