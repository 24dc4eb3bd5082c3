"""What a backend needs of the cluster: its front proxy's authority, and the rights to read that and ask for reviews."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

from cryptography import x509

from oarlock.cli.doctor.cluster import ClusterView, Missing, Unreadable
from oarlock.cli.doctor.findings import Finding, bad, fine, unknown

__all__ = ["look_at_trust"]

NAMESPACE, NAME = "kube-system", "extension-apiserver-authentication"
KEY = "requestheader-client-ca-file"

_NEEDED = (
    (
        {"verb": "get", "resource": "configmaps", "namespace": NAMESPACE, "name": NAME},
        f"may not read the ConfigMap {NAMESPACE}/{NAME}",
        "bind the Role extension-apiserver-authentication-reader of kube-system to it",
    ),
    (
        {"verb": "create", "group": "authentication.k8s.io", "resource": "tokenreviews"},
        "may not create TokenReviews",
        "bind the ClusterRole system:auth-delegator to it",
    ),
    (
        {"verb": "create", "group": "authorization.k8s.io", "resource": "subjectaccessreviews"},
        "may not create SubjectAccessReviews",
        "bind the ClusterRole system:auth-delegator to it",
    ),
)
"""What a backend asks the cluster for, what to say if it may not, and what to do then."""


async def look_at_trust(view: ClusterView, namespace: str, accounts: set[str], now: float) -> AsyncIterator[Finding]:
    """Whether a backend that runs as one of `accounts` can learn whom to believe, and ask who may do what."""
    yield await _front_proxy(view, datetime.fromtimestamp(now, UTC))
    for account in sorted(accounts):
        subject = f"ServiceAccount {namespace}/{account}"
        try:
            lacks = [
                bad(subject, text, advice)
                for attributes, text, advice in _NEEDED
                if not await view.may(f"system:serviceaccount:{namespace}:{account}", **attributes)
            ]
        except Unreadable as error:
            yield unknown(subject, f"its rights can't be seen: {error}")
            continue
        for finding in lacks:
            yield finding
        if not lacks:
            yield fine(subject, "may ask the cluster for reviews, and read its front proxy's authority")


async def _front_proxy(view: ClusterView, moment: datetime) -> Finding:
    subject = f"ConfigMap {NAMESPACE}/{NAME}"
    try:
        data = (await view.read(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}")).get("data") or {}
    except Missing:
        return bad(subject, "doesn't exist", "give the cluster's API server --requestheader-… flags")
    except Unreadable as error:
        return unknown(subject, f"can't be read: {error}")
    if not data.get(KEY):
        return bad(subject, f"has no {KEY}", "give the cluster's API server --requestheader-client-ca-file")
    try:
        authorities = x509.load_pem_x509_certificates(str(data[KEY]).encode())
    except ValueError:
        return bad(subject, f"{KEY} is no certificate", "mend --requestheader-client-ca-file of the cluster")
    if all(authority.not_valid_after_utc <= moment for authority in authorities):
        return bad(subject, f"{KEY} has expired", "renew the authority of the cluster's front proxy")
    return fine(subject, "says whom to believe")
