"""`ClusterObjects`: Events and Leases of a server's own code are in the cluster that it is behind.

A server that serves these kinds itself keeps its own. See also: ``local.transport``, which asks.
"""

from __future__ import annotations

from collections.abc import Callable

from oarlock.client.transport import Transport

_GROUPS = frozenset(("events.k8s.io", "coordination.k8s.io"))


class ClusterObjects:
    """Decides which requests go to `cluster`; `serves` says which groups the server itself serves."""

    def __init__(self, cluster: Transport, serves: Callable[[str], bool]) -> None:
        self._cluster = cluster
        self._serves = serves

    def __call__(self, path: str) -> Transport | None:
        """The cluster, if a request for `path` is for it."""
        group = _group(path)
        return None if group is None or self._serves(group) else self._cluster


def _group(path: str) -> str | None:
    """The group of Events or Leases, also where a client asks what is in that group; None for anything else."""
    root, *rest = path.removeprefix("/").split("/")
    if root == "apis":
        return rest[0] if rest and rest[0] in _GROUPS else None
    if root != "api" or rest[:1] != ["v1"]:
        return None
    resource = rest[3:] if rest[1:2] == ["namespaces"] else rest[1:]
    return "" if len(rest) == 1 or resource[:1] == ["events"] else None
