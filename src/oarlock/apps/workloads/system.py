"""Objects of workload kinds that every control plane has: the priority classes of the system, the range of services."""

from __future__ import annotations

from oarlock.client.client import Client
from oarlock.meta.errors import AlreadyExists, NotFound
from oarlock.meta.json_trees import Tree

__all__ = ["create_system_objects"]

_CLASSES = (
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
)


async def create_system_objects(client: Client, cidrs: list[str]) -> None:
    """Create what is missing."""
    for name, value, description in _CLASSES:
        await _create(client, _class(name, value, description))
    cidr: Tree = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": {"name": "kubernetes"},
        "spec": {"cidrs": cidrs},
    }
    if await _create(client, cidr):
        ready = {"type": "Ready", "status": "True", "reason": "", "message": "Kubernetes default Service CIDR is ready"}
        await client.patch(
            "networking.k8s.io/v1/ServiceCIDR",
            "kubernetes",
            {"status": {"conditions": [{**ready, "lastTransitionTime": "1970-01-01T00:00:00Z"}]}},
            subresource="status",
        )


def _class(name: str, value: int, description: str) -> Tree:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "description": description,
    }


async def _create(client: Client, wanted: Tree) -> bool:
    """Create it unless it is there; whether it was created."""
    try:
        await client.get(f"{wanted['apiVersion']}/{wanted['kind']}", wanted["metadata"]["name"])
    except NotFound:
        try:
            await client.create(wanted)
        except AlreadyExists:
            return False
        return True
    return False
