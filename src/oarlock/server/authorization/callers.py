"""Who is asked by SubjectAccessReviews: a webhook or a cluster, as a kubeconfig says.

See also: `oarlock.server.review_caller`.
"""

from __future__ import annotations

from pathlib import Path

from oarlock.client.config import ClientConfigError
from oarlock.server.options.option import ConfigError
from oarlock.server.review_caller import IN_CLUSTER, ReviewCaller

__all__ = ["cluster_caller", "webhook_caller"]

REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


def webhook_caller(option: str, file: Path, timeout_s: float) -> ReviewCaller:
    """A caller of the service that a kubeconfig names; its URL is where reviews go. Raises `ConfigError`."""
    return _caller(option, file, "", timeout_s)


def cluster_caller(option: str, file: Path | None, timeout_s: float) -> ReviewCaller:
    """A caller of the cluster that a kubeconfig names; without one, of that around this pod. Raises `ConfigError`."""
    return _caller(option, file or IN_CLUSTER, REVIEWS, timeout_s)


def _caller(option: str, file: Path, path: str, timeout_s: float) -> ReviewCaller:
    try:
        return ReviewCaller(file, path, timeout_s)
    except ClientConfigError as error:
        raise ConfigError([f"{option}: {error}"]) from None
