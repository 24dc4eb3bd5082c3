"""`WebhooksPart`: admission webhooks, as a control plane takes them.

See also: ``controlplane.parts``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from oarlock.apps.admission.configurations import (
    MutatingWebhookConfigurationCollection,
    ValidatingWebhookConfigurationCollection,
)
from oarlock.apps.admission.stored_webhooks import StoredWebhooks
from oarlock.apps.crds.conversion_services import StoredServices
from oarlock.apps.kinds.admissionregistration import MutatingWebhookConfiguration, ValidatingWebhookConfiguration
from oarlock.apps.kinds.core.objects import Namespace
from oarlock.client.client import Client
from oarlock.client.clock import TimerClock
from oarlock.client.informer import Informer
from oarlock.client.webhook_calls import WebhookCalls
from oarlock.client.webhook_credentials import KubeconfigCredentials
from oarlock.policy.admission.chain import AdmissionPlugin
from oarlock.policy.admission.counts import AdmissionCounts
from oarlock.policy.admission.expressions.waiting import ExpressionRunner
from oarlock.policy.admission.webhooks.plugins import MutatingAdmissionWebhook, ValidatingAdmissionWebhook
from oarlock.server.assembly.own_work import Runnable

__all__ = ["WebhooksPart"]


class WebhooksPart:
    """What `APIServer` is given for admission webhooks. Plugins with the same credentials share connections.

    `namespaces` are those of the server, in an informer that another part runs. `kubeconfigs` have the credentials for
    webhooks, by the plugin's name, and calls are counted in `counts`. Raises ClientConfigError for one that can't be
    used.
    """

    def __init__(
        self,
        namespaces: Informer[Namespace],
        runner: ExpressionRunner,
        counts: AdmissionCounts,
        kubeconfigs: Mapping[str, Path],
    ) -> None:
        self._services = StoredServices()
        self._calls: dict[Path | None, WebhookCalls] = {}
        self._kubeconfigs = kubeconfigs
        of_mutating, of_validating = map(
            self._calls_of, (MutatingAdmissionWebhook.name, ValidatingAdmissionWebhook.name)
        )
        self._namespaces = namespaces
        validating: Informer[Any] = Informer(ValidatingWebhookConfiguration)
        mutating: Informer[Any] = Informer(MutatingWebhookConfiguration)
        self.serve: Sequence[Any] = [MutatingWebhookConfigurationCollection, ValidatingWebhookConfigurationCollection]
        self.informers: Sequence[Informer[Any]] = [mutating, validating]
        self.admission: Sequence[AdmissionPlugin] = [
            MutatingAdmissionWebhook(StoredWebhooks(mutating), of_mutating, self._labels, runner, counts),
            ValidatingAdmissionWebhook(StoredWebhooks(validating), of_validating, self._labels, runner, counts),
        ]
        self.controllers: Mapping[str, Runnable] = {"admission-webhooks": _Connections([*self._calls.values()])}

    async def start(self, client: Client) -> None:
        """Find Services through `client` from now on."""
        self._services.client = client

    def _calls_of(self, plugin: str) -> WebhookCalls:
        file = self._kubeconfigs.get(plugin)
        calls = self._calls.get(file)
        if calls is None:
            credentials = None if file is None else KubeconfigCredentials(file)
            calls = self._calls[file] = WebhookCalls(self._services, credentials)
        return calls

    def _labels(self, namespace: str) -> Mapping[str, str]:
        known = self._namespaces.get(namespace)
        return {} if known is None else known.metadata.labels or {}


class _Connections:
    """A `Runnable`: running, it waits for the end to close the connections to webhooks."""

    def __init__(self, every: Sequence[WebhookCalls]) -> None:
        self._every = every

    async def run(self, client: Client, clock: TimerClock) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            for calls in self._every:
                await calls.close()
