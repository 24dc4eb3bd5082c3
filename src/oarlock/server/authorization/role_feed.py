"""`RoleFeed`: keeps a `RoleBasedPolicy` the same as the roles and bindings in the watch cache.

The cache tells of a change before the write is answered, so a binding counts for the next request after its write.
Must not know: what the policy decides. See also: ``policy.authz.role_based``.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from oarlock.meta.json_trees import Tree
from oarlock.policy.authz.role_based import Changing, RoleBasedPolicy
from oarlock.policy.authz.roles import GROUP, AccessBinding, AccessRole, Grants, RoleKey, read_binding, read_role
from oarlock.registry.stored.resource import StoredResource
from oarlock.registry.workers import LARGE_BYTES
from oarlock.storage.backend import Unavailable
from oarlock.storage.cache.entry import CacheEvent, Entry, Subscription, TooOld
from oarlock.storage.pacing import Pacer

log = logging.getLogger("oarlock.authz")

KINDS = ("roles", "clusterroles", "rolebindings", "clusterrolebindings")
VERSION = "v1"
_UNREADABLE = "%s %s is unreadable and grants no permissions: %r"
_Change = tuple[StoredResource, str, str, Entry | None]
"""The resource, namespace and name of a role or binding, and its entry; None if it is gone."""


class RoleFeed:
    """Reads `KINDS` into `policy`, and follows them.

    A small change is made at once. A large one is read in a thread and made in slices, and what comes after it waits.
    """

    def __init__(self, policy: RoleBasedPolicy) -> None:
        policy.is_loaded = False
        self._policy = policy
        self._resources: tuple[StoredResource, ...] = ()
        self._subscriptions: list[Subscription] = []
        self._changes: deque[_Change] = deque()
        self._changing: asyncio.Task[None] | None = None

    def attach(self, resources: Mapping[tuple[str, str], Any]) -> None:
        """Follow these, unless they are followed already. A resource that isn't stored counts as empty."""
        all_of = (resources.get((GROUP, plural)) for plural in KINDS)
        found = tuple(resource for resource in all_of if isinstance(resource, StoredResource))
        if found != self._resources:
            self._resources = found
            self._begin()

    def close(self) -> None:
        """Follow nothing any more."""
        self._end()
        self._drop_changes()

    def _begin(self) -> None:
        """Read everything. If the cache isn't ready, what was read before counts until it is."""
        self._end()
        try:
            for resource in self._resources:
                changed = partial(self._changed, resource)
                self._subscriptions.append(resource.cache.subscribe(resource.cache.rev, changed, self._closed))
        except (Unavailable, TooOld):
            self._end()
            self._policy.renew = self._begin
            return
        self._drop_changes()
        self._policy.clear()
        self._policy.renew, self._policy.is_loaded = None, True
        for resource in self._resources:
            for chunk in resource.cache.snapshot().range(*resource.range("")):
                for entry in chunk:
                    self._put(resource, entry)

    def _end(self) -> None:
        for subscription in self._subscriptions:
            subscription.close()
        self._subscriptions.clear()

    def _drop_changes(self) -> None:
        self._changes.clear()
        changing, self._changing = self._changing, None
        if changing is not None:
            changing.cancel()

    def _closed(self, error: Exception | None) -> None:
        """The cache has lost its place: read again before the next decision."""
        if error is not None:
            self._policy.renew = self._begin

    def _changed(self, resource: StoredResource, events: Sequence[CacheEvent]) -> None:
        for event in events:
            entry = event.entry
            new = None if event.type == "DELETED" else entry
            if self._changing is None and len(entry.body) <= LARGE_BYTES:
                self._make(resource, entry.namespace, entry.name, new)
                continue
            self._policy.expect(_what(resource, entry.namespace, entry.name))
            self._changes.append((resource, entry.namespace, entry.name, new))
            if self._changing is None:
                self._changing = asyncio.create_task(self._catch_up(), name="RBAC: a large role or binding")

    async def _catch_up(self) -> None:
        """Make the changes that wait, in their order."""
        pacer = Pacer()
        while self._changes:
            resource, namespace, name, entry = self._changes[0]
            for _ in await self._steps(resource, namespace, name, entry):
                await pacer.turn()
            self._changes.popleft()
            if not self._changes:
                self._changing = None
            self._policy.arrived(_what(resource, namespace, name))
            await pacer.turn()

    async def _steps(self, resource: StoredResource, namespace: str, name: str, entry: Entry | None) -> Iterator[None]:
        """What to do for one change, an item at a time."""
        policy = self._policy
        if entry is not None:
            try:
                if entry.broken:
                    raise ValueError(entry.broken)
                tree = await resource.tree(entry, VERSION)
                made = await resource.offload(len(entry.body), _read, resource, namespace, tree)
                return policy.putting_binding(made) if isinstance(made, AccessBinding) else policy.putting_role(*made)
            except Exception as error:
                log.error(_UNREADABLE, resource.definition.names.plural, entry.key, error)
        return (
            policy.removing_role(RoleKey(namespace, name))
            if _is_role(resource)
            else policy.removing_binding(namespace, name)
        )

    def _make(self, resource: StoredResource, namespace: str, name: str, entry: Entry | None) -> None:
        """The same at once."""
        if entry is not None:
            self._put(resource, entry)
        elif _is_role(resource):
            self._policy.remove_role(RoleKey(namespace, name))
        else:
            self._policy.remove_binding(namespace, name)

    def _put(self, resource: StoredResource, entry: Entry) -> None:
        """Add or replace an object; one that can't be read counts as absent, so that nobody is let in by it."""
        try:
            tree = None if entry.broken else resource.tree_now(entry, VERSION)
            if tree is None:
                raise ValueError(entry.broken or "it has to be converted by somebody else")
            if _is_role(resource):
                self._policy.put_role(read_role(entry.namespace, tree))
            else:
                self._policy.put_binding(read_binding(entry.namespace, tree))
        except Exception as error:
            log.error(_UNREADABLE, resource.definition.names.plural, entry.key, error)
            self._make(resource, entry.namespace, entry.name, None)


def _is_role(resource: StoredResource) -> bool:
    return resource.definition.names.plural in ("roles", "clusterroles")


def _what(resource: StoredResource, namespace: str, name: str) -> Changing:
    return (_is_role(resource), namespace, name)


def _read(resource: StoredResource, namespace: str, tree: Tree) -> AccessBinding | tuple[AccessRole, Grants]:
    if not _is_role(resource):
        return read_binding(namespace, tree)
    role = read_role(namespace, tree)
    return role, Grants(role.rules)
