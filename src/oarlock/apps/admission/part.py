"""`WebhooksPart`: admission webhooks, as a control plane takes them.

See also: ``controlplane.parts``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from oarlock.apps.admission.configurations import (
    MutatingWebhookConfigurationCollection,
    ValidatingWebhookConfigurationCollection,
)
from oarlock.apps.admission.stored_webhooks import StoredWebhooks
from oarlock.apps.crds.conversion_services import StoredServices
from oarlock.apps.kinds.admissionregistration import MutatingWebhookConfiguration, ValidatingWebhookConfiguration
from oarlock.apps.kinds.core import Namespace
from oarlock.client.client import Client
from oarlock.client.clock import TimerClock
from oarlock.client.informer import Informer
from oarlock.client.webhook_calls import WebhookCalls
from oarlock.policy.admission.chain import AdmissionPlugin
from oarlock.policy.admission.expressions.waiting import ExpressionRunner
from oarlock.policy.admission.webhooks.plugins import MutatingAdmissionWebhook, ValidatingAdmissionWebhook
from oarlock.server.own_work import Runnable

__all__ = ["WebhooksPart"]


class WebhooksPart:
    """What `APIServer` is given for admission webhooks. One set of connections serves both plugins.

    `namespaces` are those of the server, in an informer that another part runs.
    """

    def __init__(self, namespaces: Informer[Namespace], runner: ExpressionRunner) -> None:
        self._services = StoredServices()
        self._calls = WebhookCalls(self._services)
        self._namespaces = namespaces
        validating: Informer[Any] = Informer(ValidatingWebhookConfiguration)
        mutating: Informer[Any] = Informer(MutatingWebhookConfiguration)
        self.serve: Sequence[Any] = [MutatingWebhookConfigurationCollection, ValidatingWebhookConfigurationCollection]
        self.informers: Sequence[Informer[Any]] = [mutating, validating]
        self.admission: Sequence[AdmissionPlugin] = [
            MutatingAdmissionWebhook(StoredWebhooks(mutating), self._calls, self._labels, runner),
            ValidatingAdmissionWebhook(StoredWebhooks(validating), self._calls, self._labels, runner),
        ]
        self.controllers: Mapping[str, Runnable] = {"admission-webhooks": _Connections(self._calls)}

    async def start(self, client: Client) -> None:
        """Find Services through `client` from now on."""
        self._services.client = client

    def _labels(self, namespace: str) -> Mapping[str, str]:
        known = self._namespaces.get(namespace)
        return {} if known is None else known.metadata.labels or {}


class _Connections:
    """A `Runnable`: running, it waits for the end to close the connections to webhooks."""

    def __init__(self, calls: WebhookCalls) -> None:
        self._calls = calls

    async def run(self, client: Client, clock: TimerClock) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await self._calls.close()
