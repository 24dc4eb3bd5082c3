"""What the server does with webhook configurations beyond storing them: what they may say.

See also: `webhook_rules`, the rules; `stored_webhooks`, which puts them in force.
"""

from __future__ import annotations

from collections.abc import Iterator

from oarlock.apps.admission.webhook_rules import webhook_errors
from oarlock.apps.kinds.admissionregistration import MutatingWebhookConfiguration, ValidatingWebhookConfiguration
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError
from oarlock.registry.hooks.collection import StoredCollection

__all__ = ["MutatingWebhookConfigurationCollection", "ValidatingWebhookConfigurationCollection"]


class ValidatingWebhookConfigurationCollection(StoredCollection[ValidatingWebhookConfiguration]):
    """Configurations of webhooks that refuse."""

    __threadsafe__ = True

    def validate(
        self, new: ValidatingWebhookConfiguration, old: ValidatingWebhookConfiguration | None, ctx: Context
    ) -> Iterator[FieldError]:
        yield from webhook_errors(new.webhooks, () if old is None else old.webhooks)


class MutatingWebhookConfigurationCollection(StoredCollection[MutatingWebhookConfiguration]):
    """Configurations of webhooks that change."""

    __threadsafe__ = True

    def validate(
        self, new: MutatingWebhookConfiguration, old: MutatingWebhookConfiguration | None, ctx: Context
    ) -> Iterator[FieldError]:
        yield from webhook_errors(new.webhooks, () if old is None else old.webhooks)
