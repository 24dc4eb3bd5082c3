"""`ClusterAdmission`: the rules of the cluster that a server stands behind, for what is written to the server.

The plugins are those of a control plane, over informers that follow the cluster instead of the server's own store.
While the cluster can't be reached, what is known applies for a bounded time; after that writes are refused and reads go
on.
Source: k8s.io/apiserver ``server/options`` (RecommendedOptions, AdmissionOptions).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

from oarlock.apps.admission.cluster_plugins import ClusterPlugins
from oarlock.apps.admission.policy_part import permissions_of
from oarlock.apps.admission.rules_at_hand import RulesAtHand
from oarlock.apps.controlplane.options import ORDERED_PLUGINS, USERS_PLACE
from oarlock.apps.crds.conversion import StoredServices
from oarlock.client.client import Client
from oarlock.client.clock import Flag, TimerClock
from oarlock.client.keywords import RetryPolicy
from oarlock.client.login.kubeconfig import ClientConfigError
from oarlock.client.transport import TransportError
from oarlock.client.webhooks import WebhookCalls
from oarlock.controllers.running.sources import FollowedObjects
from oarlock.meta import errors
from oarlock.meta.kinds import GroupVersionKind
from oarlock.policy.admission.chain import plugin_name
from oarlock.policy.admission.counts import AdmissionCounts
from oarlock.policy.admission.expressions import ExpressionRunner
from oarlock.policy.admission.plugin import AnyPlugin, arranged
from oarlock.policy.authz.union import Access
from oarlock.schema.types.resources import declared
from oarlock.server.cluster.trust import cluster_client
from oarlock.server.config import ExtensionConfig
from oarlock.server.files.credentials import BadFile
from oarlock.server.options.groups.generic import CLUSTER_PLUGINS
from oarlock.server.options.option import ConfigError

log = logging.getLogger("oarlock.admission")

CONNECTIONS = 32
"""One for each kind that is followed, and those of requests that read namespaces, parameters and Services."""

LOOK_S = 5.0
"""How often the cluster is asked whether it is there."""

ANSWER_S = 5.0
FIRST_LOOK_S = 10.0
"""How long the start waits for the rules. Without them the server starts, and refuses writes until it has them."""

ASK_ONCE = RetryPolicy(retries=0)
RETRIES = 2


class ClusterAdmission:
    """The rules of the cluster in `config`; policies ask `access` who may do what.

    Raises `BadFile` for a kubeconfig that can't be used, and `ConfigError` for names of plugins that there aren't.
    """

    def __init__(
        self,
        config: ExtensionConfig,
        clock: TimerClock,
        access: Access,
        counts: AdmissionCounts,
        users: Sequence[AnyPlugin],
    ) -> None:
        assert config.cluster_kubeconfig is not None
        self._file: Path = config.cluster_kubeconfig
        self._clock = clock
        self._max_age_s = config.cluster_rules_max_age_s
        self._off = frozenset(config.disable_admission_plugins)
        _check_names(config, {plugin_name(plugin) for plugin in users})
        self._heard: float | None = None
        self._trouble = "it hasn't answered yet"
        self._complete = Flag()
        self._absent: set[GroupVersionKind] = set()
        """Kinds that the cluster doesn't serve."""
        try:
            self._client = self._connect()
        except (ClientConfigError, TransportError) as error:
            raise BadFile(f"--kubeconfig: {error}") from None
        services = StoredServices()
        services.client = self._client
        self._calls = WebhookCalls(services)
        made = ClusterPlugins(self._client, self._calls, ExpressionRunner(permissions_of(access)), counts)
        self._plugins = [*made.made(name for name in CLUSTER_PLUGINS if name not in self._off)]
        self._informers = made.informers if self._plugins else []

    @property
    def client(self) -> Client:
        """A client of the cluster, as the user of the kubeconfig."""
        return self._client

    def plugins(self, users: Sequence[AnyPlugin]) -> list[AnyPlugin]:
        """Those of the cluster and of `users`, in the order in which they are asked."""
        asked = [plugin for plugin in users if plugin_name(plugin) not in self._off]
        order = (RulesAtHand.name, *ORDERED_PLUGINS)
        return arranged([RulesAtHand(self.unknown), *self._plugins], asked, order, USERS_PLACE)

    def unknown(self) -> str:
        """Why the rules aren't known well enough to write by; empty while they are."""
        heard = self._heard
        if heard is None:
            return f"the rules of the cluster in {self._file} aren't known: {self._trouble}"
        silent_s = self._clock.monotonic() - heard
        if silent_s <= self._max_age_s:
            return ""
        return f"the rules of the cluster in {self._file} are not current since {silent_s:.0f} s: {self._trouble}"

    async def ready(self) -> None:
        """Wait until the rules are known, for some seconds at most."""
        try:
            async with asyncio.timeout(FIRST_LOOK_S):
                await self._complete.wait()
        except TimeoutError:
            log.warning("%s", self.unknown())

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        followed = FollowedObjects(self._informers, self._connect)
        try:
            async with asyncio.TaskGroup() as tasks:
                if self._informers:
                    tasks.create_task(followed.run(self._client, self._clock))
                tasks.create_task(self._begin())
                while True:
                    await self._look()
                    await self._clock.sleep(LOOK_S)
        finally:
            await self._calls.close()
            await self._client.close()

    async def _begin(self) -> None:
        for informer in self._informers:
            await informer.synced()
        await self._look()

    async def _look(self) -> None:
        """Ask the cluster whether it is there, and see whether all that is followed is current."""
        try:
            async with asyncio.timeout(ANSWER_S):
                await self._client.using(retries=ASK_ONCE).request("GET", "/version")
        except (TransportError, errors.StatusError, TimeoutError) as error:
            self._trouble = str(error) or f"no answer within {ANSWER_S:g} s"
            return
        try:
            self._trouble = await self._missing()
        except (TransportError, errors.StatusError) as error:
            self._trouble = str(error)
        if not self._trouble:
            self._heard = self._clock.monotonic()
            self._complete.set()

    async def _missing(self) -> str:
        """What isn't known of the rules. An older cluster doesn't serve every kind, and has no rules of those."""
        for informer in self._informers:
            trouble = informer.trouble  # as it is now: it may be over when the cluster has answered
            if not trouble:
                continue
            gvk = declared(informer.kind).gvk
            try:
                await self._client.ref(f"{gvk.api_version}/{gvk.kind}")
            except errors.NotFound:
                if gvk not in self._absent:
                    log.warning("the cluster has no %s in %s: there are none to apply", gvk.kind, gvk.api_version)
                    self._absent.add(gvk)
                continue
            return trouble
        return ""

    def _connect(self) -> Client:
        return cluster_client(self._file, connections=CONNECTIONS, retries=RETRIES)


def _check_names(config: ExtensionConfig, users: set[str]) -> None:
    """Raises `ConfigError` for a name that no plugin has."""
    known = {*CLUSTER_PLUGINS, *users}
    lines = [
        f'{flag} plugin "{name}" is unknown'
        for flag, names in (
            ("enable-admission-plugins", config.enable_admission_plugins),
            ("disable-admission-plugins", config.disable_admission_plugins),
        )
        for name in names
        if name not in known
    ]
    if lines:
        raise ConfigError(lines)
