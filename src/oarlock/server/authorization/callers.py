"""Who is asked by SubjectAccessReviews: a webhook or a cluster, as a kubeconfig says.

See also: `oarlock.server.cluster.review_caller`.
"""

from __future__ import annotations

from pathlib import Path

from oarlock.client.login.config import ClientConfigError
from oarlock.server.cluster.review_caller import IN_CLUSTER, ReviewCaller
from oarlock.server.options.option import ConfigError

REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


def review_caller(option: str, kubeconfig: Path | None, timeout_s: float, *, is_cluster: bool) -> ReviewCaller:
    """A caller of the service that a kubeconfig names, whose URL is where reviews go, or of a cluster.

    Without a kubeconfig that is the cluster around this pod. Raises `ConfigError`.
    """
    try:
        return ReviewCaller(kubeconfig or IN_CLUSTER, REVIEWS if is_cluster else "", timeout_s)
    except ClientConfigError as error:
        raise ConfigError([f"{option}: {error}"]) from None
