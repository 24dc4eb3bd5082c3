"""Trust both ways: the certificate that a backend shows, and what it needs of the cluster to trust its callers.

A backend needs the authority of the front proxy, the right to read it, and the right to ask for reviews.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime

from cryptography import x509

from oarlock.cli.doctor.cluster import ClusterView, Finding, Missing, Unreadable, bad, fine, unknown
from oarlock.meta.dataclass import dataclass
from oarlock.net.connecting import Address, open_connection
from oarlock.net.trust import trusting, trusting_anybody

__all__ = ["Handshake", "look_at_trust", "shake_hands"]

CONNECT_S = 3.0


@dataclass(frozen=True, slots=True)
class Handshake:
    """`reached` says whether anything answered. `problem` is why the certificate isn't accepted, empty if it is."""

    reached: bool
    problem: str = ""
    certificate: bytes = b""


async def shake_hands(host: str, port: int, name: str, bundle: str | None) -> Handshake:
    """Connect, and check the certificate against `bundle` (PEM) for `name`; without a bundle, against nothing.

    The certificate is the DER of what the backend serves, whether it is accepted or not.
    """
    try:
        certificate = await _certificate(host, port, name, trusting_anybody())
    except ssl.SSLError as error:
        return Handshake(True, f"it doesn't speak TLS: {error.reason or error}")
    except (OSError, TimeoutError):
        return Handshake(False)
    if bundle is None:
        return Handshake(True, certificate=certificate)
    try:
        await _certificate(host, port, name, trusting(bundle))
    except ssl.SSLCertVerificationError as error:
        return Handshake(True, error.verify_message, certificate)
    except (ssl.SSLError, OSError, TimeoutError) as error:
        return Handshake(True, str(error), certificate)
    return Handshake(True, certificate=certificate)


async def _certificate(host: str, port: int, name: str, context: ssl.SSLContext) -> bytes:
    async with asyncio.timeout(CONNECT_S):
        transport = await open_connection(asyncio.Protocol, Address(host, port, name), context)
    try:
        found = transport.get_extra_info("ssl_object").getpeercert(True)
        return found if isinstance(found, bytes) else b""
    finally:
        transport.close()


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
            yield unknown(subject, f"checking its permissions failed: {error}")
            continue
        for finding in lacks:
            yield finding
        if not lacks:
            yield fine(subject, "may create reviews, and read the authority of the cluster's front proxy")


async def _front_proxy(view: ClusterView, moment: datetime) -> Finding:
    subject = f"ConfigMap {NAMESPACE}/{NAME}"
    try:
        data = (await view.read(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}")).get("data") or {}
    except Missing:
        return bad(subject, "doesn't exist", "set the --requestheader-… flags of the cluster's API server")
    except Unreadable as error:
        return unknown(subject, f"can't be read: {error}")
    if not data.get(KEY):
        return bad(subject, f"has no {KEY}", "set --requestheader-client-ca-file of the cluster's API server")
    try:
        authorities = x509.load_pem_x509_certificates(str(data[KEY]).encode())
    except ValueError:
        return bad(
            subject,
            f"{KEY} contains no certificate",
            "correct --requestheader-client-ca-file of the cluster's API server",
        )
    if all(authority.not_valid_after_utc <= moment for authority in authorities):
        return bad(subject, f"{KEY} has expired", "renew the authority of the cluster's front proxy")
    return fine(subject, "has the authority of the front proxy")
