"""Admission webhooks, as a control plane takes them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from oarlock.apps.admission.configuration_file import AdmissionConfiguration
from oarlock.apps.admission.stored_webhooks import StoredWebhooks
from oarlock.apps.admission.webhook_rules import webhook_errors
from oarlock.apps.controlplane.part import ControlPlanePart, PartSurroundings
from oarlock.apps.crds.conversion_services import StoredServices
from oarlock.apps.kinds.admissionregistration import MutatingWebhookConfiguration, ValidatingWebhookConfiguration
from oarlock.apps.kinds.core.objects import Namespace
from oarlock.client.client import Client
from oarlock.client.clock import TimerClock
from oarlock.client.informers.informer import Informer
from oarlock.client.webhooks.calls import WebhookCalls
from oarlock.client.webhooks.credentials import KubeconfigCredentials
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError
from oarlock.policy.admission.expressions.waiting import ExpressionRunner
from oarlock.policy.admission.webhooks.plugins import MutatingAdmissionWebhook, ValidatingAdmissionWebhook
from oarlock.registry.hooks.collection import StoredCollection

__all__ = ["webhooks_part"]


class _ValidatingWebhookConfigurationCollection(StoredCollection[ValidatingWebhookConfiguration]):
    """Configurations of webhooks that refuse."""

    __threadsafe__ = True

    def validate(
        self, new: ValidatingWebhookConfiguration, old: ValidatingWebhookConfiguration | None, ctx: Context
    ) -> Iterator[FieldError]:
        yield from webhook_errors(new.webhooks, () if old is None else old.webhooks)


class _MutatingWebhookConfigurationCollection(StoredCollection[MutatingWebhookConfiguration]):
    """Configurations of webhooks that change."""

    __threadsafe__ = True

    def validate(
        self, new: MutatingWebhookConfiguration, old: MutatingWebhookConfiguration | None, ctx: Context
    ) -> Iterator[FieldError]:
        yield from webhook_errors(new.webhooks, () if old is None else old.webhooks)


def webhooks_part(
    around: PartSurroundings, namespaces: Informer[Namespace], runner: ExpressionRunner
) -> ControlPlanePart:
    """Programs elsewhere that are asked about what is written. Plugins with the same credentials share connections.

    `namespaces` are those of the server, in an informer that another part runs. Raises AdmissionFileError, and
    ClientConfigError for credentials that can't be used.
    """
    file, counts = around.options.admission_control_config_file, around.admission_counts
    configuration = AdmissionConfiguration() if file is None else AdmissionConfiguration.read(file)
    services = StoredServices()
    connections = _Connections(services, configuration.kubeconfigs)
    of_mutating, of_validating = map(connections.of, (MutatingAdmissionWebhook.name, ValidatingAdmissionWebhook.name))
    validating: Informer[Any] = Informer(ValidatingWebhookConfiguration)
    mutating: Informer[Any] = Informer(MutatingWebhookConfiguration)

    def labels(namespace: str) -> Mapping[str, str]:
        known = namespaces.get(namespace)
        return {} if known is None else known.metadata.labels or {}

    async def start(client: Client) -> None:
        services.client = client

    return ControlPlanePart(
        "webhooks",
        serve=[_MutatingWebhookConfigurationCollection, _ValidatingWebhookConfigurationCollection],
        admission=[
            MutatingAdmissionWebhook(StoredWebhooks(mutating), of_mutating, labels, runner, counts),
            ValidatingAdmissionWebhook(StoredWebhooks(validating), of_validating, labels, runner, counts),
        ],
        informers=[mutating, validating],
        controllers={"admission-webhooks": connections},
        everywhere=("admission-webhooks",),
        needs=("namespaces",),
        start=start,
    )


class _Connections:
    """A `Runnable`: running, it waits for the end to close the connections to webhooks.

    `kubeconfigs` have the credentials, by the name of a plugin.
    """

    def __init__(self, services: StoredServices, kubeconfigs: Mapping[str, Path]) -> None:
        self._services = services
        self._kubeconfigs = kubeconfigs
        self._calls: dict[Path | None, WebhookCalls] = {}

    def of(self, plugin: str) -> WebhookCalls:
        """The connections of a plugin. Raises ClientConfigError."""
        file = self._kubeconfigs.get(plugin)
        calls = self._calls.get(file)
        if calls is None:
            credentials = None if file is None else KubeconfigCredentials(file)
            calls = self._calls[file] = WebhookCalls(self._services, credentials)
        return calls

    async def run(self, client: Client, clock: TimerClock) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            for calls in self._calls.values():
                await calls.close()
