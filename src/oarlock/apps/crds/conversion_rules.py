"""The rules of a definition's ``spec.conversion``.

Paths are those of Kubernetes' errors: ``spec.conversion.webhookClientConfig``. See also: `conversion`, which asks the
webhook.
"""

from __future__ import annotations

from collections.abc import Iterator

from oarlock.apps.controlplane.collections.webhook_client_errors import webhook_service_errors, webhook_url_errors
from oarlock.meta import names as naming
from oarlock.meta.fielderrors import FieldError, Forbidden, Invalid, NotSupported, Required
from oarlock.meta.json_trees import Tree

__all__ = ["conversion_errors"]


REVIEW_VERSIONS = ("v1", "v1beta1")
"""The versions of ConversionReview that the server knows."""

_CONFIG = "spec.conversion.webhookClientConfig"
_REVIEWS = "spec.conversion.conversionReviewVersions"
_NOT_SET = "should not be set when strategy is not set to Webhook"


def conversion_errors(new: Tree, old: Tree | None) -> Iterator[FieldError]:
    """The errors of a conversion that takes the place of `old`."""
    strategy = new.get("strategy")
    if not strategy:
        yield Required("spec.conversion.strategy")
    elif strategy not in ("None", "Webhook"):
        yield NotSupported("spec.conversion.strategy", strategy, ("None", "Webhook"))
    webhook = new.get("webhook") or {}
    config, reviews = webhook.get("clientConfig"), webhook.get("conversionReviewVersions")
    if strategy == "Webhook":
        if config is None:
            yield Required(_CONFIG, "required when strategy is set to Webhook")
        else:
            yield from _client_errors(config)
        before = ((old or {}).get("webhook") or {}).get("conversionReviewVersions") or []
        yield from _review_errors(reviews or [], tolerant=bool(before) and not _known(before))
        return
    if config is not None:
        yield Forbidden(_CONFIG, _NOT_SET)
    if reviews:
        yield Forbidden(_REVIEWS, _NOT_SET)


def _client_errors(config: Tree) -> Iterator[FieldError]:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        yield Required(_CONFIG, "exactly one of url or service is required")
    elif url is not None:
        yield from webhook_url_errors(f"{_CONFIG}.url", url)
    elif service is not None:
        namespace, name = service.get("namespace") or "", service.get("name") or ""
        port, path = service.get("port", 443), service.get("path") or ""
        yield from webhook_service_errors(f"{_CONFIG}.service", namespace, name, port, path)


def _review_errors(reviews: list[str], *, tolerant: bool) -> Iterator[FieldError]:
    if not reviews:
        yield Required(_REVIEWS)
        return
    seen: set[str] = set()
    for at, version in enumerate(reviews):
        if complaints := naming.dns1035_label(version):
            yield Invalid(f"{_REVIEWS}[{at}]", version, ",".join(complaints))
        elif version in seen:
            yield Invalid(f"{_REVIEWS}[{at}]", version, "duplicate version")
        seen.add(version)
    if not tolerant and not _known(reviews):
        yield Invalid(_REVIEWS, reviews, f"must include at least one of {', '.join(REVIEW_VERSIONS)}")


def _known(reviews: list[str]) -> bool:
    return any(version in REVIEW_VERSIONS for version in reviews)
