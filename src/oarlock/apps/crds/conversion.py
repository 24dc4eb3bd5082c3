"""`ConversionWebhooks`: converts the versions of custom resources by the webhooks that their definitions name.

What comes out is pruned by the schema of its version, as with every custom resource (``registry.converting``).
See also: `conversion_review`, what a webhook is asked; `conversion_services`, where one behind a Service is.
Source: apiextensions.k8s.io/v1 CustomResourceDefinition spec.conversion.
"""

from __future__ import annotations

import asyncio
import logging
import uuid

from oarlock.apps.crds.conversion_review import ConversionReview, ReviewError, review_version
from oarlock.apps.crds.conversion_services import StoredServices
from oarlock.apps.crds.resources import CannotServe
from oarlock.apps.kinds.apiextensions import CustomResourceDefinition
from oarlock.client.client import Client
from oarlock.client.clock import TimerClock
from oarlock.client.informers.object_log import ObjectLog
from oarlock.client.webhooks.calls import WebhookCalls, WebhookError, WebhookService, WebhookTarget
from oarlock.meta.errors import TooManyRequests
from oarlock.meta.json_trees import Tree
from oarlock.registry.conversion.converter import ConversionError, Converter, name_of

__all__ = ["ConversionWebhookError", "ConversionWebhooks", "WebhookConverter"]

log = logging.getLogger("oarlock.crds")

TIMEOUT_S = 30.0
SMALL_BYTES = 128 * 1024
"""An answer that is larger is read in a thread."""

MANY = 50
"""The question about more objects is written in a thread."""

SPARE_BYTES = 1024 * 1024
GROWTH = 8
"""An answer may have so many times the bytes of the question, and `SPARE_BYTES`."""


class ConversionWebhookError(ConversionError):
    """500: a conversion webhook fails. Like Kubernetes' it has no reason."""

    reason = ""

    def __init__(self, trees: list[Tree], to_version: str, why: str, *, of_all: bool) -> None:
        super().__init__(name_of(trees[0]), to_version, why)
        api_version, kind = trees[0].get("apiVersion"), trees[0].get("kind")
        self.message = f"conversion webhook for {api_version}, Kind={kind} {why}"
        self.details = None
        self.of_all = of_all


class ConversionWebhooks:
    """The webhooks of all definitions of a server: makes their converters, and has the connections to them.

    A `Runnable`: running, it waits for the end to close them.
    """

    def __init__(self) -> None:
        self._services = StoredServices()
        self._calls = WebhookCalls(self._services)

    def converter(self, crd: CustomResourceDefinition) -> Converter:
        """What converts the objects of a definition with the strategy ``Webhook``. Raises CannotServe."""
        conversion = crd.spec.conversion
        webhook = None if conversion is None else conversion.webhook
        config = None if webhook is None else webhook.client_config
        if webhook is None or config is None or (config.url is None) is (config.service is None):
            raise CannotServe("spec.conversion.webhook names neither a URL nor a Service, or both")
        service = None
        if config.service is not None:
            named = config.service
            service = WebhookService(named.namespace, named.name, named.port or 443, named.path or "")
        target = WebhookTarget.of(config.url or "", service, config.ca_bundle)
        review = review_version(webhook.conversion_review_versions or ())
        return WebhookConverter(crd.spec.group, target, review, self._calls)

    async def start(self, client: Client) -> None:
        """Find Services through `client` from now on."""
        self._services.client = client

    async def run(self, client: Client, clock: TimerClock) -> None:
        """Wait until cancelled; then close the connections."""
        try:
            await asyncio.Event().wait()
        finally:
            await self._calls.close()


class WebhookConverter(Converter):
    """Asks a webhook with ConversionReviews, for all given objects in one call.

    What it returned isn't remembered here, but by the server, for each revision of an object. It is equal to
    another one that asks the same webhook in the same way.
    """

    def __init__(self, group: str, target: WebhookTarget, review: str, calls: WebhookCalls) -> None:
        self._group = group
        self._target = target
        self._review = review
        self._calls = calls
        self._log = ObjectLog(log)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WebhookConverter) and other._asked == self._asked

    def __hash__(self) -> int:
        return hash(self._asked)

    @property
    def _asked(self) -> tuple[object, ...]:
        return self._group, self._target, self._review

    async def convert(self, trees: list[Tree], from_version: str, to_version: str) -> list[Tree]:
        if not trees:
            return []
        try:
            return await self._converted(trees, f"{self._group}/{to_version}")
        except WebhookError as error:
            if error.busy:
                raise TooManyRequests(f"conversion webhook of {self._group}: {error}", retry_after_s=1) from None
            why, of_all = f"failed: {error}", True
        except ReviewError as error:
            why, of_all = str(error), error.of_all
        failure = ConversionWebhookError(trees, to_version, why, of_all=of_all)
        kind = f"{trees[0].get('kind')}.{self._group}"
        self._log.warn(kind, (to_version, why[:80]), f"its conversion webhook {why}")
        raise failure

    async def _converted(self, trees: list[Tree], to_api_version: str) -> list[Tree]:
        review = ConversionReview(self._review, str(uuid.uuid4()), to_api_version, trees)
        question = await asyncio.to_thread(review.question) if len(trees) > MANY else review.question()
        most = SPARE_BYTES + GROWTH * len(question)
        answer = await self._calls.post(self._target, question, timeout_s=TIMEOUT_S, most_bytes=most)
        if len(answer) > SMALL_BYTES:
            return await asyncio.to_thread(review.converted, answer)
        return review.converted(answer)
