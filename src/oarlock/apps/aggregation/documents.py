"""What a backend tells of its version: discovery and OpenAPI, as the catalog needs it. See also: `backend`."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from dataclasses import field, replace
from typing import Any

from oarlock.apps.aggregation.backend import AggregatedVersion, BackendUnavailable
from oarlock.apps.aggregation.forward import Fetched
from oarlock.codec import json
from oarlock.codec.errors import DecodeError
from oarlock.endpoints.openapi import elsewhere
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import StatusError
from oarlock.meta.json_trees import Tree
from oarlock.net.messages import HttpError

log = logging.getLogger("oarlock.aggregation")
MOST_DISCOVERY_BYTES = 4 * 1024 * 1024
MOST_OPENAPI_BYTES = 16 * 1024 * 1024
TIMEOUT_S = 5.0
MOST_RESOURCES = 10_000
MOST_ETAG = 1024
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_FAILURES = (HttpError, BackendUnavailable, StatusError, DecodeError, KeyError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class BackendDocuments:
    """Implements ``VersionDocuments`` of the catalog. Without resources it is stale: the backend didn't answer."""

    version: str
    resources: tuple[Tree, ...] = ()
    fresh: bool = False
    openapi: str = field(default="", repr=False)
    """The hash of its OpenAPI v3 document; empty if it has none."""
    v2: bytes = field(default=b"", repr=False)
    """What of its OpenAPI v2 document is about the version."""
    v2_etag: str = ""

    def discovery(self) -> Tree:
        document: Tree = {"version": self.version}
        if self.resources:
            document["resources"] = list(self.resources)
        return {**document, "freshness": "Current" if self.fresh else "Stale"}

    def openapi_hash(self) -> str:
        return self.openapi or hashlib.sha512(self.version.encode()).hexdigest().upper()

    def openapi_v2(self) -> bytes:
        return self.v2


async def fetch_documents(version: AggregatedVersion, before: BackendDocuments) -> BackendDocuments:
    """The backend's documents; on failure the previous ones, marked stale."""
    try:
        resources = await _resources(version)
    except _FAILURES:
        known = before.resources if before.fresh else ()
        return replace(before, resources=known, fresh=False)
    v2, etag = await _openapi_v2(version, before)
    return BackendDocuments(version.version, tuple(resources), True, await _openapi(version, before), v2, etag)


async def _resources(served: AggregatedVersion) -> list[Tree]:
    """By aggregated discovery, or by the list of the version from a backend that has none."""
    answer = await _get(served, "/apis", f"{_AGGREGATED},application/json", MOST_DISCOVERY_BYTES)
    if answer.status == 200 and "APIGroupDiscoveryList" in answer.content_type:
        for group in json.decode(answer.body)["items"]:
            for version in group["versions"] if group["metadata"]["name"] == served.group else ():
                if version["version"] == served.version:
                    return _checked(version.get("resources") or [])
    answer = await _get(served, f"/apis/{served.group}/{served.version}", "application/json", MOST_DISCOVERY_BYTES)
    if answer.status != 200:
        raise HttpError(f"bad status {answer.status}")
    return _checked(_converted(json.decode(answer.body)["resources"]))


def _checked(resources: Any) -> list[Tree]:
    """Raises ValueError, TypeError."""
    if not isinstance(resources, list) or len(resources) > MOST_RESOURCES:
        raise ValueError("no list of resources, or one that is too long")
    if not all(isinstance(resource, dict) and isinstance(resource.get("resource"), str) for resource in resources):
        raise ValueError("a resource without a name")
    return resources


def _converted(listed: list[Tree]) -> list[Tree]:
    """An APIResourceList as aggregated discovery says it."""
    found: dict[str, Tree] = {}
    for resource in listed:
        name, _, subresource = str(resource["name"]).partition("/")
        kind = {
            "group": resource.get("group", ""),
            "version": resource.get("version", ""),
            "kind": str(resource.get("kind", "")),
        }
        verbs = {"verbs": list(resource.get("verbs") or [])}
        if subresource:
            parent = found.setdefault(name, _resource(name, resource))
            parent.setdefault("subresources", []).append({"subresource": subresource, "responseKind": kind, **verbs})
            continue
        shown = found.setdefault(name, _resource(name, resource))
        shown |= {"responseKind": kind, **verbs}
        shown |= {key: list(resource[key]) for key in ("shortNames", "categories") if resource.get(key)}
        if resource.get("singularName"):
            shown["singularResource"] = str(resource["singularName"])
    return list(found.values())


def _resource(name: str, resource: Tree) -> Tree:
    return {"resource": name, "scope": "Namespaced" if resource.get("namespaced") else "Cluster", "verbs": []}


async def _openapi(version: AggregatedVersion, before: BackendDocuments) -> str:
    """The hash of the OpenAPI v3 document, as its index says, or of the document itself."""
    path = f"apis/{version.group}/{version.version}"
    try:
        index = await _get(version, "/openapi/v3", "application/json", MOST_DISCOVERY_BYTES)
        if index.status == 200:
            listed = json.decode(index.body)["paths"].get(path)
            if listed is None:
                return ""
            digest = str(listed["serverRelativeURL"]).partition("hash=")[2]
            if digest.isalnum() and len(digest) <= 256:
                return digest
        document = await _get(version, f"/openapi/v3/{path}", "application/json", MOST_OPENAPI_BYTES)
    except _FAILURES:
        return before.openapi
    return hashlib.sha512(document.body).hexdigest().upper() if document.status == 200 else ""


async def _openapi_v2(version: AggregatedVersion, before: BackendDocuments) -> tuple[bytes, str]:
    """The part that is taken of its OpenAPI v2 document, and its ETag; the previous ones if it can't be asked."""
    try:
        answer = await _get(version, "/openapi/v2", "application/json", elsewhere.MOST_BYTES, before.v2_etag)
        if answer.status == 304:
            return before.v2, before.v2_etag
        if answer.status != 200:
            return b"", ""
        etag = answer.etag if len(answer.etag) <= MOST_ETAG else ""
        return await asyncio.to_thread(elsewhere.taken_from, answer.body, version.group, version.version), etag
    except (ValueError, RecursionError) as error:
        log.warning("OpenAPI v2 of %s/%s isn't shown: %s", version.group, version.version, error)
        return b"", ""
    except _FAILURES:
        return before.v2, before.v2_etag


async def _get(version: AggregatedVersion, path: str, accept: str, most_bytes: int, etag: str = "") -> Fetched:
    return await version.ask(path, accept, most_bytes=most_bytes, timeout_s=TIMEOUT_S, etag=etag)
