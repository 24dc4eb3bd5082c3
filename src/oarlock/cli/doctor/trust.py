"""Trust both ways: the certificate that a backend shows, and what it needs of the cluster to trust its callers.

A backend needs the authority of the front proxy, the right to read it, and the right to ask for reviews.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import ssl
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime

from cryptography import x509

from oarlock.apps.admission.cluster_plugins import rights_of
from oarlock.cli.doctor.backend import ServiceBackend
from oarlock.cli.doctor.cluster import ClusterView, Finding, Missing, Unreadable, bad, fine, unknown
from oarlock.meta.dataclass import dataclass
from oarlock.meta.json_trees import Tree
from oarlock.net.connecting import Address, open_connection
from oarlock.net.trust import trusting, trusting_anybody
from oarlock.server.fairness.cluster import FLOW_CONTROL_RIGHTS
from oarlock.server.options.groups.generic import CLUSTER_PLUGINS

MOST_ADDRESSES = 3
SOON_DAYS = 14


def look_at_bundle(spec: Tree, moment: datetime) -> tuple[str | None, Finding]:
    """The authorities that the cluster trusts for this backend, None if it checks nothing or the bundle is bad."""
    if spec.get("insecureSkipTLSVerify"):
        return None, unknown("caBundle", "insecureSkipTLSVerify is set: any machine on the way could answer")
    text = spec.get("caBundle")
    if not text:
        advice = "set caBundle to the authority of the certificate"
        return None, bad("caBundle", "is empty, so only public authorities are trusted", advice)
    try:
        pem = base64.b64decode(text, validate=True)
        authorities = x509.load_pem_x509_certificates(pem)
    except (binascii.Error, ValueError):
        return None, bad(
            "caBundle", "contains no certificate", "set it to the authority's certificate in PEM, in base64"
        )
    expired = [authority for authority in authorities if authority.not_valid_after_utc <= moment]
    if len(expired) == len(authorities):
        at = f"{max(authority.not_valid_after_utc for authority in expired):%Y-%m-%d}"
        return pem.decode(), bad("caBundle", f"expired on {at}", "make a new authority and certificate")
    return pem.decode(), fine("caBundle", "is valid")


async def look_at_certificates(
    backend: ServiceBackend, bundle: str | None, *, skip: bool, now: float
) -> AsyncIterator[Finding]:
    """Connects to some addresses of the backend; a network that isn't the cluster's reaches none."""
    moment, reached = datetime.fromtimestamp(now, UTC), False
    for host, port in backend.addresses[:MOST_ADDRESSES]:
        found = await shake_hands(host, port, backend.host, bundle)
        if not found.reached:
            continue
        reached = True
        subject = f"Certificate of {host}:{port}"
        if found.problem and not skip:
            advice = _certificate_advice(found.certificate)
            yield bad(subject, f"isn't accepted for {backend.host}: {found.problem}", advice)
        elif found.certificate:
            left = x509.load_der_x509_certificate(found.certificate).not_valid_after_utc - moment
            text = f"is for {backend.host}, for {left.days} more days"
            yield fine(subject, text) if left.days > SOON_DAYS else bad(subject, text, "renew it")
    if backend.addresses and not reached:
        if backend.local:
            shown = ", ".join(f"{host}:{port}" for host, port in backend.addresses[:MOST_ADDRESSES])
            yield bad("Backend", f"no answer from {shown}", "start the server, and check its address")
        else:
            yield unknown(
                "Certificate", "no address of the backend is reachable from here: run this command in the cluster"
            )


def _certificate_advice(certificate: bytes) -> str:
    """What to do about a certificate that isn't accepted: it names what the certificate is for."""
    try:
        read = x509.load_der_x509_certificate(certificate)
        names = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        shown = ", ".join(names.get_values_for_type(x509.DNSName)) or "no DNS name"
    except (ValueError, x509.ExtensionNotFound):
        shown = "no name"
    return f"it is for {shown}: serve a certificate that caBundle signed, or set caBundle to its authority"


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
        transport.abort()  # a close waits for the other side, and a loop that ends by then leaves the socket open


_DISABLE = "--disable-admission-plugins="
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


async def look_at_trust(view: ClusterView, backend: ServiceBackend, now: float) -> AsyncIterator[Finding]:
    """Whether a backend can learn whom to believe, ask who may do what, and read the rules of the cluster."""
    namespace, needed = backend.namespace, (*_NEEDED, *_rules_needed(backend.flags))
    yield await _front_proxy(view, datetime.fromtimestamp(now, UTC))
    for account in sorted(backend.accounts):
        subject = f"ServiceAccount {namespace}/{account}"
        try:
            lacks = [
                bad(subject, text, advice)
                for attributes, text, advice in needed
                if not await view.may(f"system:serviceaccount:{namespace}:{account}", **attributes)
            ]
        except Unreadable as error:
            yield unknown(subject, f"checking its permissions failed: {error}")
            continue
        for finding in lacks:
            yield finding
        if not lacks:
            yield fine(subject, "may create reviews, and read the authority of the cluster's front proxy")


def _rules_needed(flags: set[str]) -> Iterator[tuple[dict[str, str], str, str]]:
    """What a server of ours with these flags reads of the rules of the cluster."""
    if "--kubeconfig=in-cluster" not in flags:
        return
    if "--enable-priority-and-fairness=false" not in flags:
        for resource in FLOW_CONTROL_RIGHTS.resources:
            yield (
                {"verb": "watch", "group": FLOW_CONTROL_RIGHTS.api_groups[0], "resource": resource},
                f"may not watch {resource}, so that the built-in ones divide its requests",
                "apply the ClusterRole that oarlock manifests prints",
            )
    off = {name for flag in flags if flag.startswith(_DISABLE) for name in flag.removeprefix(_DISABLE).split(",")}
    for rule in rights_of([name for name in CLUSTER_PLUGINS if name not in off]):
        verb, group = rule.verbs[-1], rule.api_groups[0]
        for resource in rule.resources:
            plural, _, part = resource.partition("/")
            yield (
                {"verb": verb, "group": group, "resource": plural, **({"subresource": part} if part else {})},
                f"may not {verb} {resource}, so that nothing can be written",
                "apply the ClusterRole that oarlock manifests prints, or switch the plugin off with "
                "--disable-admission-plugins",
            )


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
