"""`StoredObjects`: what a server stores of accounts, secrets and pods, as authentication asks for it.

Must not know: caches. See also: ``server.stored_objects``, which implements it; `service_accounts`, `bootstrap_tokens`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class StoredObjects(Protocol):
    """The objects of the group ``""``, as this process has them now. `namespace` is empty for one of the cluster."""

    def revision(self, resource: str, namespace: str, name: str) -> int:
        """The revision of an object; 0 if there is none. Quick: it is asked with every request."""
        ...

    def read(self, resource: str, namespace: str, name: str) -> Mapping[str, Any] | None:
        """The object as a tree, which must not be changed; None if there is none, or it can't be read."""
        ...

    async def fresh(self) -> None:
        """Wait until this process has everything that the store had when this was called."""
        ...
