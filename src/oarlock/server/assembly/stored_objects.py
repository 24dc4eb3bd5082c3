"""`LiveObjects`: the accounts, secrets and pods that this server stores, for authentication, straight from its cache.

Before the server has loaded them, and where it doesn't serve them, there are none: nobody is let in by them.
See also: ``policy.authn.authenticator``, the interface.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oarlock.registry.live_resources import LiveResources
from oarlock.registry.served_resource import StoredVerbs
from oarlock.registry.stored.form import object_key
from oarlock.storage.cache.entry import Entry
from oarlock.storage.cache.watch_cache import WatchCache


class LiveObjects:
    """Implements `StoredObjects`. `attach` it when the server has its resources."""

    def __init__(self) -> None:
        self._live: LiveResources | None = None
        self._cache: WatchCache | None = None

    def attach(self, live: LiveResources, cache: WatchCache) -> None:
        """Read from these from now on."""
        self._live, self._cache = live, cache

    def revision(self, resource: str, namespace: str, name: str) -> int:
        entry = self._entry(resource, namespace, name)
        return 0 if entry is None else entry.rev

    def read(self, resource: str, namespace: str, name: str) -> Mapping[str, Any] | None:
        stored, entry = self._stored(resource), self._entry(resource, namespace, name)
        if stored is None or entry is None or entry.broken:
            return None
        return stored.tree_now(entry, stored.definition.hub)

    async def fresh(self) -> None:
        waiting = None if self._cache is None else self._cache.fresh()
        if waiting is not None:
            await waiting

    def _entry(self, resource: str, namespace: str, name: str) -> Entry | None:
        stored = self._stored(resource)
        return None if stored is None else stored.cache.get(object_key(stored.form.prefix, namespace, name))

    def _stored(self, resource: str) -> StoredVerbs | None:
        stored = None if self._live is None else self._live.resources.get(("", resource))
        return stored if isinstance(stored, StoredVerbs) else None
