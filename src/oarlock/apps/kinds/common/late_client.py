"""`LateClient`: the client of a server, for code that is made before the server runs."""

from __future__ import annotations

from typing import Any

from oarlock.client.client import Client
from oarlock.meta.errors import ServiceUnavailable


class LateClient:
    """A holder of a client, which it gets when the server starts."""

    def __init__(self) -> None:
        self._client: Client | None = None
        self._sources: dict[object, Any] = {}

    async def begin(self, client: Client) -> None:
        """Use `client` from now on; called at the start of the server."""
        self._client = client

    @property
    def client(self) -> Client:
        """Raises ServiceUnavailable before the server has started."""
        if self._client is None:
            raise ServiceUnavailable("the server isn't ready yet")
        return self._client

    async def objects(self, kind: Any) -> Any:
        """The objects of a kind in this process's memory (see `Client.cached`); None if they aren't there."""
        known = self._sources.get(kind)
        if known is None or known.ended:
            known = self._sources[kind] = await self.client.cached(kind)
        return known
