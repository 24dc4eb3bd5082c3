"""Checks APIServices of a cluster in the order in which an aggregator meets trouble, and prints the findings.

See also: `backend`, `trust`.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime

from cryptography import x509

from oarlock.apps.aggregation.backend import url_problem
from oarlock.apps.kinds.apiregistration import URL_ANNOTATION
from oarlock.cli.cluster_options import DoctorOptions
from oarlock.cli.doctor.backend import ServiceBackend, look_at_backend
from oarlock.cli.doctor.cluster import ClusterView, Finding, FindingState, Missing, Unreadable, bad, fine, unknown
from oarlock.cli.doctor.refusals import advice_about
from oarlock.cli.doctor.trust import look_at_trust, shake_hands
from oarlock.client.client import Client
from oarlock.client.connecting import connect
from oarlock.client.keywords import RetryPolicy
from oarlock.client.login.config import ClientConfigError
from oarlock.client.login.kubeconfig import load_config
from oarlock.client.transport import TransportError
from oarlock.meta.json_trees import Tree
from oarlock.net.url import parse_url
from oarlock.server.command import CommandError

__all__ = ["look_at", "page", "run"]

HTTPS = 443
MOST_ADDRESSES = 3
SOON_DAYS = 14


async def look_at(view: ClusterView, api_service: Tree, now: float) -> AsyncIterator[Finding]:
    """What is right and wrong, in the order of a request's way. `now` is in seconds since the epoch."""
    spec = api_service.get("spec") or {}
    yield _condition(api_service)
    named = spec.get("service") or {}
    backend = ServiceBackend(str(named.get("namespace", "")), str(named.get("name", "")), int(named.get("port") or 443))
    url = ((api_service.get("metadata") or {}).get("annotations") or {}).get(URL_ANNOTATION, "")
    if url:
        yield _annotation(url, backend)
    else:
        async for finding in look_at_backend(view, backend):
            yield finding
    bundle, finding = _bundle(spec, datetime.fromtimestamp(now, UTC))
    yield finding
    async for finding in _handshakes(backend, bundle, skip=bool(spec.get("insecureSkipTLSVerify")), now=now):
        yield finding
    async for finding in look_at_trust(view, backend, now):
        yield finding
    yield await _answer(view, f"/apis/{spec.get('group')}/{spec.get('version')}")


def _condition(api_service: Tree) -> Finding:
    conditions = (api_service.get("status") or {}).get("conditions") or []
    available = next((condition for condition in conditions if condition.get("type") == "Available"), None)
    if available is None:
        return bad("Available", "no aggregator has set this condition yet", "check that the cluster's aggregator runs")
    text = f"{available.get('reason', '')}: {available.get('message', '')}"
    if available.get("status") == "True":
        return fine("Available", text)
    return bad("Available", text, advice_about(text) or SEE_BELOW)


def _annotation(url: str, backend: ServiceBackend) -> Finding:
    """Where a control plane without a network sends requests; the Service isn't looked at then."""
    subject, problem = f"Annotation {URL_ANNOTATION}", url_problem(url)
    if problem:
        return bad(subject, f"{url!r} {problem}", "set the annotation to the address of the backend")
    place = parse_url(url)
    backend.addresses.append((place.hostname, place.port))
    return fine(subject, f"requests go to {url}; the Service isn't checked")


def _bundle(spec: Tree, moment: datetime) -> tuple[str | None, Finding]:
    """The authorities that the cluster trusts for this backend, None if it checks nothing or the bundle is bad."""
    if spec.get("insecureSkipTLSVerify"):
        return None, unknown("caBundle", "insecureSkipTLSVerify is set: any machine on the way could answer")
    text = spec.get("caBundle")
    if not text:
        advice = "set spec.caBundle to the authority of the certificate"
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


async def _handshakes(backend: ServiceBackend, bundle: str | None, *, skip: bool, now: float) -> AsyncIterator[Finding]:
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


async def _answer(view: ClusterView, path: str) -> Finding:
    """Asks the cluster for the backend's resources, as any client does."""
    try:
        status, message = await view.status_of(path)
    except TransportError as error:
        return unknown(f"GET {path}", f"the cluster can't be reached: {error}")
    if status == 200:
        return fine(f"GET {path}", "is answered")
    if status in (401, 403):
        advice = (
            "the backend doesn't trust the cluster's front proxy, or its permission checks fail: see the checks above"
        )
        return bad(f"GET {path}", f"{status}: {message}", advice)
    if status == 404:
        return bad(
            f"GET {path}",
            f"404: {message}",
            "the backend doesn't serve this group and version, or its APIService isn't available yet",
        )
    return bad(f"GET {path}", f"{status}: {message}", "fix the first failed check above, and read the backend's log")


DEADLINE_S = 60.0
SEE_BELOW = "see the checks below"
PATH = "/apis/apiregistration.k8s.io/v1/apiservices"


def run(options: DoctorOptions) -> int:
    """The exit code: 1 if something is wrong. Raises `CommandError`."""
    try:
        client = connect(load_config(options.kubeconfig, context=options.context))
        lines, healthy = asyncio.run(_examine(client, options.api_service))
    except (ClientConfigError, TransportError, ValueError) as error:
        raise CommandError(str(error)) from None
    except TimeoutError:
        raise CommandError(f"the cluster takes longer than {DEADLINE_S:g} s to answer") from None
    for line in lines:
        print(line)
    return 0 if healthy else 1


async def _examine(client: Client, name: str) -> tuple[list[str], bool]:
    async with asyncio.timeout(DEADLINE_S), client:
        return await page(client, name, time.time())


async def page(client: Client, name: str, now: float) -> tuple[list[str], bool]:
    """The lines of the page, and whether everything is as it should be. Raises `CommandError`, TransportError.

    `name` is the APIService to look at; ``""`` is all that name a Service.
    """
    view = ClusterView(client.using(retries=RetryPolicy(retries=0)))
    lines: list[str] = []
    healthy = True
    for api_service in await _api_services(view, name):
        findings = [finding async for finding in look_at(view, api_service, now)]
        wrong = [finding for finding in findings if finding.state is FindingState.BAD]
        healthy = healthy and not wrong
        lines += [*([""] if lines else []), f"APIService {api_service['metadata']['name']}"]
        lines += [line for finding in findings for line in _lines(finding)]
        cause = _cause(wrong)
        if cause is not None:
            lines.append(f"  fix first: {cause.subject} {cause.text}: {cause.advice}")
    return lines or ["no APIService names a Service"], healthy


def _cause(wrong: Sequence[Finding]) -> Finding | None:
    """What to fix first: the answer to a request only repeats what the condition Available says."""
    checked = [
        finding for finding in wrong if finding.subject != "Available" and not finding.subject.startswith("GET ")
    ]
    told = [finding for finding in wrong if finding.subject == "Available" and finding.advice != SEE_BELOW]
    answered = [finding for finding in wrong if finding.subject.startswith("GET ")]
    return next(iter((*checked, *told, *answered)), None)


async def _api_services(view: ClusterView, name: str) -> list[Tree]:
    try:
        found = [await view.read(f"{PATH}/{name}")] if name else await view.items(PATH)
    except Missing:
        what = f"APIService {name}" if name else "resource APIService"
        raise CommandError(f"the cluster has no {what}: list them with kubectl get apiservices") from None
    except Unreadable as error:
        raise CommandError(f"APIServices can't be read: {error}") from None
    remote = [api_service for api_service in found if (api_service.get("spec") or {}).get("service")]
    if name and not remote:
        raise CommandError(f"APIService {name} names no Service: the cluster serves it itself")
    return remote


def _lines(finding: Finding) -> Iterator[str]:
    yield f"  {finding.state.value:<4}{finding.subject}: {' '.join(finding.text.split())}"
    if finding.advice:
        yield f"      → {finding.advice}"
