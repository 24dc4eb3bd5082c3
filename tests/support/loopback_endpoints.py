"""EndpointSlices that lead to this machine: no server takes one, and tests connect to nothing else."""

from __future__ import annotations

from typing import Any

from oarlock.codec import json
from oarlock.storage.backend import Backend
from oarlock.testing import InMemory

__all__ = ["put_slice", "store_slice"]


async def store_slice(api: InMemory, namespace: str, tree: dict[str, Any]) -> None:
    """Put an EndpointSlice into the store, as a server without that rule would."""
    name = tree["metadata"]["name"]
    await put_slice(api.parts.storage.backend, namespace, tree)
    path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices/{name}"
    assert (await api.get(path)).status == 200


async def put_slice(backend: Backend, namespace: str, tree: dict[str, Any]) -> None:
    """The same in a store that may have the EndpointSlice."""
    name = tree["metadata"]["name"]
    metadata = {"namespace": namespace, "uid": f"uid-of-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    whole = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", **tree}
    whole["metadata"] = {**tree["metadata"], **metadata}
    key = f"/registry//endpointslices/{namespace}/{name}"
    before, _ = await backend.get(key)
    written = await backend.put(key, json.encode(whole), expect=before.mod_rev if before else 0)
    assert written.ok
