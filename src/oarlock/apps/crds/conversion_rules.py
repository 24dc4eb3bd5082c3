"""The rules of a definition's ``spec.conversion``.

Paths are those of Kubernetes' errors: ``spec.conversion.webhookClientConfig``. See also: `conversion`, which asks the
webhook.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from oarlock.meta.fielderrors import FieldError, Forbidden, Invalid, NotSupported, Required

__all__ = ["conversion_errors"]

Tree = dict[str, Any]

REVIEW_VERSIONS = ("v1", "v1beta1")
"""The versions of ConversionReview that the server knows."""

_CONFIG = "spec.conversion.webhookClientConfig"
_REVIEWS = "spec.conversion.conversionReviewVersions"
_NOT_SET = "should not be set when strategy is not set to Webhook"
_FORMAT = "desired format: https://host[/path]"


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
        yield from _url_errors(url)
    elif service is not None:
        yield from _service_errors(service)


def _url_errors(url: str) -> Iterator[FieldError]:
    where = f"{_CONFIG}.url"
    try:
        parts = urlsplit(url)
    except ValueError as error:
        yield Required(where, f"url must be a valid URL: {error}; {_FORMAT}")
        return
    if parts.scheme != "https":
        yield Invalid(where, parts.scheme, f"'https' is the only allowed URL scheme; {_FORMAT}")
    if not parts.netloc:
        yield Invalid(where, parts.netloc, f"host must be specified; {_FORMAT}")
    if "@" in parts.netloc:
        user = parts.netloc.rpartition("@")[0]
        yield Invalid(where, user.partition(":")[0], "user information is not permitted in the URL")
    if parts.fragment:
        yield Invalid(where, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        yield Invalid(where, parts.query, "query parameters are not permitted in the URL")


def _service_errors(service: Tree) -> Iterator[FieldError]:
    where = f"{_CONFIG}.service"
    for key in ("name", "namespace"):
        if not service.get(key):
            yield Required(f"{where}.{key}")
    port = service.get("port", 443)
    if not 1 <= port <= 65535:
        yield Invalid(f"{where}.port", port, "port is not valid: must be between 1 and 65535, inclusive")
    path = service.get("path")
    if path is not None and not path.startswith("/"):
        yield Invalid(f"{where}.path", path, "must start with a '/'")


def _review_errors(reviews: list[str], *, tolerant: bool) -> Iterator[FieldError]:
    if not reviews:
        yield Required(_REVIEWS)
        return
    seen: set[str] = set()
    for at, version in enumerate(reviews):
        if version in seen:
            yield Invalid(f"{_REVIEWS}[{at}]", version, "duplicate version")
        seen.add(version)
    if not tolerant and not _known(reviews):
        yield Invalid(_REVIEWS, reviews, f"must include at least one of {', '.join(REVIEW_VERSIONS)}")


def _known(reviews: list[str]) -> bool:
    return any(one in REVIEW_VERSIONS for one in reviews)
