"""Checks APIServices of a cluster in the order in which an aggregator meets trouble, and prints the findings.

`advice_about` explains what a refused request means. See also: `backend`, `trust`.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime
from importlib import resources

from oarlock.apps.aggregation.backend import url_problem
from oarlock.apps.kinds.apiregistration import URL_ANNOTATION
from oarlock.cli.cluster_options import DoctorOptions
from oarlock.cli.doctor.backend import ServiceBackend, look_at_backend
from oarlock.cli.doctor.cluster import ClusterView, Finding, FindingState, Missing, Unreadable, bad, fine, unknown
from oarlock.cli.doctor.trust import look_at_bundle, look_at_certificates, look_at_trust
from oarlock.cli.doctor.webhooks import look_at_webhooks
from oarlock.client.client import Client
from oarlock.client.http_transport import connect
from oarlock.client.keywords import RetryPolicy
from oarlock.client.login.kubeconfig import ClientConfigError, load_config
from oarlock.client.transport import TransportError
from oarlock.meta.json_trees import Tree
from oarlock.net.url import parse_url
from oarlock.server.command import CommandError
from oarlock.server.options.commands import Command

_MEANINGS: list[dict[str, str]] = json.loads(
    resources.files("oarlock.cli.doctor").joinpath("advice.json").read_text("utf-8")
)
"""What to do about a reason or a message: the first pattern that fits. The console has the same file in its bundle."""


def advice_about(text: str) -> str:
    """What to do about a reason and message, empty for one that isn't known."""
    return next((meaning["advice"] for meaning in _MEANINGS if re.search(meaning["pattern"], text)), "")


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
    bundle, finding = look_at_bundle(spec, datetime.fromtimestamp(now, UTC))
    yield finding
    async for finding in look_at_certificates(backend, bundle, skip=bool(spec.get("insecureSkipTLSVerify")), now=now):
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
    """Print why an APIService of a cluster isn't available, and what to do.

    Checks what the cluster's aggregator uses: Service, endpoints, certificate, front proxy, permissions, answers.
    """
    try:
        client = connect(load_config(options.kubeconfig, context=options.context))
        lines, healthy = asyncio.run(_examine(client, options))
    except (ClientConfigError, TransportError, ValueError) as error:
        raise CommandError(str(error)) from None
    except TimeoutError:
        raise CommandError(f"the cluster takes longer than {DEADLINE_S:g} s to answer") from None
    for line in lines:
        print(line)
    return 0 if healthy else 1


async def _examine(client: Client, options: DoctorOptions) -> tuple[list[str], bool]:
    async with asyncio.timeout(DEADLINE_S), client:
        if options.webhooks:
            return await webhooks_page(client, options.webhooks, time.time())
        return await page(client, options.api_service, time.time())


async def webhooks_page(client: Client, name: str, now: float) -> tuple[list[str], bool]:
    """The lines about the webhooks whose configurations are called `name`, and whether all is as it should be."""
    view = ClusterView(client.using(retries=RetryPolicy(retries=0)))
    return _shown(f"Webhooks {name}", [finding async for finding in look_at_webhooks(view, name, now)])


async def page(client: Client, name: str, now: float) -> tuple[list[str], bool]:
    """The lines of the page, and whether everything is as it should be. Raises `CommandError`, TransportError.

    `name` is the APIService to look at; ``""`` is all that name a Service.
    """
    view = ClusterView(client.using(retries=RetryPolicy(retries=0)))
    lines: list[str] = []
    healthy = True
    for api_service in await _api_services(view, name):
        findings = [finding async for finding in look_at(view, api_service, now)]
        told, well = _shown(f"APIService {api_service['metadata']['name']}", findings)
        healthy = healthy and well
        lines += [*([""] if lines else []), *told]
    return lines or ["no APIService names a Service"], healthy


def _shown(title: str, findings: Sequence[Finding]) -> tuple[list[str], bool]:
    """The lines about one subject, and whether nothing is bad."""
    wrong = [finding for finding in findings if finding.state is FindingState.BAD]
    lines = [title, *(line for finding in findings for line in _lines(finding))]
    cause = _cause(wrong)
    if cause is not None:
        lines.append(f"  fix first: {cause.subject} {cause.text}: {cause.advice}")
    return lines, not wrong


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


DOCTOR = Command("doctor", DoctorOptions, run)
