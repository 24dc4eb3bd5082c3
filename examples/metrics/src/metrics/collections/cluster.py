"""The cluster whose pods and nodes are looked at."""

from __future__ import annotations

from oarlock.client import Client, connect

WINDOW = "10s"


class Cluster:
    """A client of the cluster, made when it is first used: of a kubeconfig, or a pod's service account."""

    def __init__(self, client: Client | None = None) -> None:
        self._client = client

    @property
    def client(self) -> Client:
        if self._client is None:
            self._client = connect()
        return self._client

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None
