"""`StoredWebhooks`: the webhooks that the stored configurations name, made anew when one of them changes.

What is written is in force for the next request: the cache that the informer reads is as new as the last answer.
See also: ``policy.admission.webhooks.rules``, what is made.
"""

from __future__ import annotations

from collections.abc import Iterator

from oarlock.apps.kinds.admissionregistration import (
    AdmissionClientConfig,
    MutatingWebhook,
    MutatingWebhookConfiguration,
    RuleWithOperations,
    ValidatingWebhook,
    ValidatingWebhookConfiguration,
)
from oarlock.apps.kinds.meta import LabelSelector
from oarlock.client.informers.informer import Informer
from oarlock.client.informers.observers import Observer, ReadableObject
from oarlock.client.webhooks.calls import WebhookService, WebhookTarget
from oarlock.meta.kinds import NamespacedName
from oarlock.meta.labels import EVERYTHING, Selector, SelectorError, from_label_selector
from oarlock.policy.admission.webhooks.conditions import stored_condition
from oarlock.policy.admission.webhooks.review import REVIEW_VERSIONS
from oarlock.policy.admission.webhooks.rules import ConfiguredWebhook, WebhookRule, WebhookSet
from oarlock.schema.types.views import builtins_of

__all__ = ["StoredWebhooks"]

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
