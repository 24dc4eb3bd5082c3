"""`Acting`: the writes of garbage collection, each on the very revision of an object that was looked at.

Who loses a race gets a Conflict and looks again. See also: `collector`, which decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from oarlock.apps.controllers.served_kinds import ServedKind
from oarlock.client.client import Client
from oarlock.client.informers.partial_objects import PartialMetadata, PartialObject, partial_object
from oarlock.client.objects import metadata_of
from oarlock.codec import json
from oarlock.meta.errors import NotFound

__all__ = ["Acting"]

_MERGE = {"content-type": "application/merge-patch+json"}


class Acting:
    """Raises Conflict when an object has changed, StatusError and TransportError; what is gone is no error."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def read(self, kind: ServedKind, namespace: str, name: str) -> PartialMetadata | None:
        """An object as it is on the server now."""
        try:
            tree = await self._client.request("GET", kind.ref.object(name, namespace))
        except NotFound:
            return None
        metadata = metadata_of(tree) if isinstance(tree, dict) else {}
        found: PartialObject | None = partial_object(json.encode({"metadata": metadata}))
        return None if found is None else found.metadata

    async def delete(self, kind: ServedKind, metadata: PartialMetadata, policy: str) -> None:
        """Delete an object; `policy` is what becomes of its dependents."""
        preconditions = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
        body = {"propagationPolicy": policy, "preconditions": preconditions}
        try:
            await self._client.request("DELETE", kind.ref.object(metadata.name, metadata.namespace), body)
        except NotFound:
            pass  # somebody was faster

    async def disown(self, kind: ServedKind, metadata: PartialMetadata, uids: set[str]) -> None:
        """Take references to these owners off an object."""
        links = [link.tree() for link in metadata.owner_references or () if link.uid not in uids]
        await self._patch(kind, metadata, {"ownerReferences": links or None})

    async def unblock(self, kind: ServedKind, metadata: PartialMetadata) -> None:
        """Let no owner wait for an object."""
        links = [{**link.tree(), "blockOwnerDeletion": False} for link in metadata.owner_references or ()]
        await self._patch(kind, metadata, {"ownerReferences": links})

    async def remove_finalizer(self, kind: ServedKind, metadata: PartialMetadata, finalizer: str) -> None:
        left: Iterable[str] = (name for name in metadata.finalizers or () if name != finalizer)
        await self._patch(kind, metadata, {"finalizers": [*left] or None})

    async def _patch(self, kind: ServedKind, metadata: PartialMetadata, change: dict[str, Any]) -> None:
        seen = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
        path = kind.ref.object(metadata.name, metadata.namespace)
        try:
            await self._client.request("PATCH", path, {"metadata": {**seen, **change}}, headers=_MERGE)
        except NotFound:
            pass  # it is gone
