"""`FairnessFeed`: keeps a `Fairness` configured by the FlowSchemas and PriorityLevelConfigurations in the watch cache.

All of them are read again when some have changed, once in a turn of the event loop: they are few, and a schema means
nothing without its level. Must not know: what they mean. See also: ``policy.fairness``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from oarlock.endpoints.http import Response
from oarlock.meta.context import Clock
from oarlock.meta.options_parse import parse_query
from oarlock.policy.fairness.dumps import dump_levels, dump_queues, dump_requests
from oarlock.policy.fairness.engine import Fairness
from oarlock.registry.stored.resource import StoredResource
from oarlock.storage.backend import Unavailable
from oarlock.storage.cache.entry import CacheEvent, Subscription, TooOld

log = logging.getLogger("oarlock.fairness")

GROUP = "flowcontrol.apiserver.k8s.io"
KINDS = ("prioritylevelconfigurations", "flowschemas")
_VERSION = "v1"


class FairnessFeed:
    """Reads `KINDS` into `fairness`, and follows them. While nothing is stored, the built-in objects count."""

    def __init__(self, fairness: Fairness) -> None:
        self._fairness = fairness
        self._resources: tuple[StoredResource, ...] = ()
        self._subscriptions: list[Subscription] = []
        self._reading: asyncio.Handle | None = None
        self._is_behind = False

    def attach(self, resources: Mapping[tuple[str, str], Any]) -> None:
        """Follow these, unless they are followed already."""
        all_of = [resources.get((GROUP, plural)) for plural in KINDS]
        found = tuple(resource for resource in all_of if isinstance(resource, StoredResource))
        if found != self._resources:
            self._resources = found if len(found) == len(KINDS) else ()
            self._begin()

    def renew(self) -> None:
        """Begin again if the cache has lost its place. Called every few seconds."""
        if self._is_behind:
            self._begin()

    def _begin(self) -> None:
        for subscription in self._subscriptions:
            subscription.close()
        self._subscriptions.clear()
        try:
            for resource in self._resources:
                self._subscriptions.append(resource.cache.subscribe(resource.cache.rev, self._changed, self._closed))
        except (Unavailable, TooOld):
            self._is_behind = True
            return
        self._is_behind = False
        self._read()

    def _closed(self, error: Exception | None) -> None:
        self._is_behind = error is not None

    def _changed(self, events: Sequence[CacheEvent]) -> None:
        if self._reading is None:
            self._reading = asyncio.get_running_loop().call_soon(self._read)

    def _read(self) -> None:
        self._reading = None
        if self._resources:
            levels, schemas = map(_trees, self._resources)
            if levels or schemas:
                self._fairness.configure(levels, schemas)


def _trees(resource: StoredResource) -> list[Mapping[str, Any]]:
    """The objects of a resource; one that can't be read counts as absent."""
    trees: list[Mapping[str, Any]] = []
    for chunk in resource.cache.snapshot().range(*resource.range("")):
        for entry in chunk:
            try:
                tree = None if entry.broken else resource.tree_now(entry, _VERSION)
            except Exception as error:
                tree = None
                log.error("%s is unreadable and is ignored: %r", entry.key, error)
            if tree is not None:
                trees.append(tree)
    return trees


_ROOT = "/debug/api_priority_and_fairness"
_DETAILS = "includeRequestDetails"


class FairnessPages:
    """Answers `paths`; authorization has let the user read them."""

    paths = (f"{_ROOT}/dump_priority_levels", f"{_ROOT}/dump_queues", f"{_ROOT}/dump_requests")

    def __init__(self, fairness: Fairness, clock: Clock) -> None:
        self._fairness = fairness
        self._clock = clock

    def respond(self, path: str, query: str = "") -> Response | None:
        """The answer, or None for a path that isn't in `paths`."""
        if path not in self.paths:
            return None
        if path.endswith("levels"):
            text = dump_levels(self._fairness)
        elif path.endswith("queues"):
            text = dump_queues(self._fairness)
        else:
            details = any(key == _DETAILS and value for key, value in parse_query(query))
            text = dump_requests(self._fairness, self._clock.monotonic() - self._clock.now(), details=details)
        headers = [("content-type", "text/plain; charset=utf-8"), ("x-content-type-options", "nosniff")]
        return Response(200, headers, text.encode("utf-8", "replace"))
