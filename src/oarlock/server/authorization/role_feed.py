"""`RoleFeed`: keeps a `RoleBasedPolicy` the same as the roles and bindings in the watch cache.

The cache tells of a change before the write is answered, so a binding counts for the next request after its write.
Must not know: what the policy decides. See also: ``policy.authz.rbac``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from oarlock.policy.authz.rbac.policy import RoleBasedPolicy
from oarlock.policy.authz.rbac.roles import GROUP, RoleKey, read_binding, read_role
from oarlock.registry.stored_resource import StoredResource
from oarlock.storage.backend import Unavailable
from oarlock.storage.cache.entry import Entry
from oarlock.storage.cache.events import CacheEvent, Subscription, TooOld

__all__ = ["KINDS", "RoleFeed"]

log = logging.getLogger("oarlock.authz")

KINDS = ("roles", "clusterroles", "rolebindings", "clusterrolebindings")
VERSION = "v1"


class RoleFeed:
    """Reads `KINDS` into `policy`, and follows them."""

    def __init__(self, policy: RoleBasedPolicy) -> None:
        policy.is_loaded = False
        self._policy = policy
        self._resources: tuple[StoredResource, ...] = ()
        self._subscriptions: list[Subscription] = []

    def attach(self, resources: Mapping[tuple[str, str], Any]) -> None:
        """Follow these, unless they are followed already. A resource that isn't stored counts as empty."""
        all_of = (resources.get((GROUP, plural)) for plural in KINDS)
        found = tuple(one for one in all_of if isinstance(one, StoredResource))
        if found != self._resources:
            self._resources = found
            self._begin()

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

    def _closed(self, error: Exception | None) -> None:
        """The cache has lost its place: read again before the next decision."""
        if error is not None:
            self._policy.renew = self._begin

    def _changed(self, resource: StoredResource, events: Sequence[CacheEvent]) -> None:
        for event in events:
            if event.type == "DELETED":
                self._remove(resource.definition.names.plural, event.entry.namespace, event.entry.name)
            else:
                self._put(resource, event.entry)

    def _put(self, resource: StoredResource, entry: Entry) -> None:
        """Add or replace an object; one that can't be read counts as absent, so that nobody is let in by it."""
        plural = resource.definition.names.plural
        try:
            tree = None if entry.broken else resource.tree_now(entry, VERSION)
            if tree is None:
                raise ValueError(entry.broken or "it has to be converted by somebody else")
            if plural in ("roles", "clusterroles"):
                self._policy.put_role(read_role(entry.namespace, tree))
            else:
                self._policy.put_binding(read_binding(entry.namespace, tree))
        except Exception as error:
            log.error("%s %s can't be read, and gives nobody anything: %r", plural, entry.key, error)
            self._remove(plural, entry.namespace, entry.name)

    def _remove(self, plural: str, namespace: str, name: str) -> None:
        if plural in ("roles", "clusterroles"):
            self._policy.remove_role(RoleKey(namespace, name))
        else:
            self._policy.remove_binding(namespace, name)
