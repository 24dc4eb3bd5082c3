"""EndpointSlices that lead to this machine: no server takes one, and tests connect to nothing else."""

from __future__ import annotations

from typing import Any

from oarlock.codec import json
from oarlock.testing import InMemory

__all__ = ["store_slice"]


async def store_slice(api: InMemory, namespace: str, tree: dict[str, Any]) -> None:
    """Put an EndpointSlice into the store, as a server without that rule would."""
    name = tree["metadata"]["name"]
    metadata = {"namespace": namespace, "uid": f"uid-of-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    whole = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", **tree}
    whole["metadata"] = {**tree["metadata"], **metadata}
    await api.parts.storage.backend.put(f"/registry//endpointslices/{namespace}/{name}", json.encode(whole), expect=0)
    path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices/{name}"
    assert (await api.get(path)).status == 200
