"""`ClusterFlowControl`: configures a `Fairness` by the FlowSchemas and priority levels of the cluster in front.

Until they are known, and where the cluster doesn't serve or show them, the built-in ones apply. They are only read: the
cluster's own server keeps them, and writes their conditions. When the cluster can't be reached, those known last apply.
Source: k8s.io/apiserver ``server/options`` (FeatureOptions). See also: `feed`, which reads those of the own store.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oarlock.client.informers.informer import Informer
from oarlock.controllers.running.sources import FollowedObjects
from oarlock.policy.authz.authorizer import AccessRule
from oarlock.policy.fairness.builtin import API_VERSION
from oarlock.policy.fairness.engine import Fairness
from oarlock.server.cluster.trust import cluster_client
from oarlock.server.fairness.feed import GROUP, KINDS

if TYPE_CHECKING:
    from oarlock.client.clock import TimerClock

log = logging.getLogger("oarlock.fairness")

FLOW_CONTROL_RIGHTS = AccessRule(("get", "list", "watch"), (GROUP,), KINDS)
"""What a server needs in the cluster for this."""

CONNECTIONS = 4
RETRIES = 2


class ClusterFlowControl:
    """Follows the objects in the cluster of `file`, a kubeconfig, for `fairness`."""

    def __init__(self, fairness: Fairness, file: Path) -> None:
        self._fairness = fairness
        kinds: tuple[Any, ...] = (f"{API_VERSION}/PriorityLevelConfiguration", f"{API_VERSION}/FlowSchema")
        self._informers: tuple[Informer[Any], ...] = tuple(Informer(kind) for kind in kinds)
        connect = partial(cluster_client, file, connections=CONNECTIONS, retries=RETRIES)
        self._followed = FollowedObjects(self._informers, connect, self._tell)
        self._reading: asyncio.Handle | None = None
        self._reported = False
        for informer in self._informers:
            informer.add_handler(self._changed)

    async def run(self, clock: TimerClock) -> None:
        """Follow them until cancelled."""
        async with self._followed.following(clock) as pool:
            for informer in self._informers:
                await informer.synced()
            self._read()
            await pool.ended()

    def _changed(self, old: Any, new: Any) -> None:
        if self._reading is None:
            self._reading = asyncio.get_running_loop().call_soon(self._read)

    def _read(self) -> None:
        """Configure `fairness`, when both kinds are known: a schema means nothing without its level."""
        self._reading = None
        levels, schemas = map(list, self._informers)
        if self._followed.complete() and (levels or schemas):
            self._reported = False
            self._fairness.configure(levels, schemas)

    def _tell(self, why: str) -> None:
        """Say that they can't be followed: once, until they can again."""
        if not self._reported:
            self._reported = True
            used = "those known last" if self._followed.complete() else "the built-in ones"
            what = "the priority levels and flow schemas of the cluster don't divide the requests to this server"
            log.warning("%s, but %s: %s", what, used, why)
