"""Admission webhooks, as a control plane takes them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from oarlock.apps.admission.configuration_file import AdmissionConfiguration
from oarlock.apps.admission.webhook_rules import webhook_errors
from oarlock.apps.controlplane.part import ControlPlanePart, PartSurroundings
from oarlock.apps.crds.conversion import StoredServices
from oarlock.apps.kinds.admissionregistration import (
    AdmissionClientConfig,
    MutatingWebhook,
    MutatingWebhookConfiguration,
    RuleWithOperations,
    ValidatingWebhook,
    ValidatingWebhookConfiguration,
)
from oarlock.apps.kinds.core.objects import Namespace
from oarlock.apps.kinds.meta import LabelSelector
from oarlock.client.client import Client
from oarlock.client.clock import TimerClock
from oarlock.client.informers.informer import Informer
from oarlock.client.informers.observers import Observer, ReadableObject
from oarlock.client.webhooks import KubeconfigCredentials, WebhookCalls, WebhookService, WebhookTarget
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError
from oarlock.meta.kinds import NamespacedName
from oarlock.meta.labels import EVERYTHING, Selector, SelectorError, from_label_selector
from oarlock.policy.admission.expressions import ExpressionRunner
from oarlock.policy.admission.webhooks.plugins import MutatingAdmissionWebhook, ValidatingAdmissionWebhook
from oarlock.policy.admission.webhooks.review import REVIEW_VERSIONS
from oarlock.policy.admission.webhooks.rules import ConfiguredWebhook, WebhookRule, WebhookSet, stored_condition
from oarlock.registry.hooks.collection import StoredCollection
from oarlock.schema.types.views import builtins_of

Configuration = ValidatingWebhookConfiguration | MutatingWebhookConfiguration


class StoredWebhooks:
    """Call it for the webhooks as they are now."""

    def __init__(self, configurations: Informer[Configuration]) -> None:
        self._configurations = configurations
        self._hooks = WebhookSet()
        self._made: dict[str, tuple[Configuration, list[ConfiguredWebhook]]] = {}
        self._stale = True
        self._observer: Observer[Configuration] = Observer(self._changed)
        configurations.observers.add(self._observer)

    def __call__(self) -> WebhookSet:
        if self._observer.behind:
            self._observer.catch_up()
        if self._stale:
            self._stale = False
            self._hooks = WebhookSet(self._all())
        return self._hooks

    def _changed(
        self, key: NamespacedName, old: ReadableObject[Configuration] | None, new: ReadableObject[Configuration] | None
    ) -> None:
        self._stale = True

    def _all(self) -> Iterator[ConfiguredWebhook]:
        """The webhooks of all configurations. Those of an unchanged configuration are made once."""
        before, self._made = self._made, {}
        for configuration in sorted(self._configurations, key=lambda configuration: configuration.metadata.name):
            name = configuration.metadata.name
            known = before.get(name)
            if known is None or known[0] is not configuration:
                known = configuration, [_hook(name, webhook) for webhook in configuration.webhooks]
            self._made[name] = known
            yield from known[1]


def _hook(configuration: str, webhook: ValidatingWebhook | MutatingWebhook) -> ConfiguredWebhook:
    known = (version for version in webhook.admission_review_versions or () if version in REVIEW_VERSIONS)
    mutating = isinstance(webhook, MutatingWebhook)
    return ConfiguredWebhook(
        configuration,
        webhook.name,
        _target(webhook.client_config),
        tuple(_rule(rule) for rule in webhook.rules),
        fails=webhook.failure_policy != "Ignore",
        equivalent=webhook.match_policy != "Exact",
        again=isinstance(webhook, MutatingWebhook) and webhook.reinvocation_policy == "IfNeeded",
        mutating=mutating,
        timeout_s=float(webhook.timeout_seconds),
        review_version=next(known, REVIEW_VERSIONS[0]),
        namespaces=_selector(webhook.namespace_selector),
        objects=_selector(webhook.object_selector),
        conditions=tuple(stored_condition(condition.expression) for condition in webhook.match_conditions),
    )


def _target(config: AdmissionClientConfig) -> WebhookTarget:
    named = config.service
    service = None if named is None else WebhookService(named.namespace, named.name, named.port, named.path or "")
    return WebhookTarget.of(config.url or "", service, config.ca_bundle)


def _rule(rule: RuleWithOperations) -> WebhookRule:
    return WebhookRule(
        frozenset(rule.operations),
        frozenset(rule.api_groups),
        frozenset(rule.api_versions),
        frozenset(rule.resources),
        rule.scope,
    )


def _selector(selector: LabelSelector) -> Selector:
    if not selector.match_labels and not selector.match_expressions:
        return EVERYTHING
    try:
        return from_label_selector(builtins_of(selector))
    except SelectorError:  # written by another server; to ask too often is safer than not to ask
        return EVERYTHING


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
