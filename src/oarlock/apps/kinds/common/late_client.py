"""`LateClient`: the client of a server, for code that is made before the server runs."""

from __future__ import annotations

from oarlock.client.client import Client
from oarlock.meta.errors import ServiceUnavailable

__all__ = ["LateClient"]


class LateClient:
    """Has a client from when the server starts."""

    def __init__(self) -> None:
        self._client: Client | None = None

    async def begin(self, client: Client) -> None:
        """Use `client` from now on; called at the start of the server."""
        self._client = client

    @property
    def client(self) -> Client:
        """Raises ServiceUnavailable before the server has started."""
        if self._client is None:
            raise ServiceUnavailable("the server isn't ready yet")
        return self._client
