"""Checks the webhooks of a cluster in the order in which its API server meets trouble: of ``oarlock webhooks``, or any.

See also: `backend`, `trust`; ``deploying.webhook_objects``, which makes the objects that are looked at.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import field
from datetime import UTC, datetime
from typing import Any

from oarlock.cli.doctor.backend import ServiceBackend, look_at_backend
from oarlock.cli.doctor.cluster import ClusterView, Finding, Missing, Unreadable, bad, fine, unknown
from oarlock.cli.doctor.trust import look_at_bundle, look_at_certificates
from oarlock.meta.dataclass import dataclass
from oarlock.meta.json_trees import Tree

REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_OWN_NAMESPACE = "kubernetes.io/metadata.name"


@dataclass(frozen=True, slots=True)
class _Place:
    """A Service that objects name; `bundles` are the authorities in them, by what names it."""

    namespace: str
    name: str
    port: int
    bundles: dict[str, Any] = field(default_factory=dict)


async def look_at_webhooks(view: ClusterView, name: str, now: float) -> AsyncIterator[Finding]:
    """What is right and wrong with the webhooks whose configurations are called `name`. `now` is since the epoch."""
    places: dict[tuple[str, str, int], _Place] = {}
    found: list[Finding] = []
    for kind in _KINDS:
        try:
            tree = await view.read(f"{REGISTRATION}/{kind.lower()}s/{name}")
        except Missing:
            continue
        except Unreadable as error:
            found.append(unknown(f"{kind} {name}", f"can't be read: {error}"))
            continue
        found += _configuration(kind, tree)
        for webhook in tree.get("webhooks") or ():
            _add(places, str(webhook.get("name")), webhook.get("clientConfig") or {})
    if not found:
        advice = "apply what oarlock manifests --home=crd prints, or give the right name"
        yield bad(f"Configurations {name}", "there are none", advice)
        return
    for finding in found:
        yield finding
    async for finding in _definitions(view, places):
        yield finding
    for place in places.values():
        async for finding in _backend(view, place, now):
            yield finding


def _add(places: dict[tuple[str, str, int], _Place], subject: str, config: Tree) -> None:
    service = config.get("service")
    if service:
        key = str(service.get("namespace")), str(service.get("name")), int(service.get("port") or 443)
        places.setdefault(key, _Place(*key)).bundles[subject] = config.get("caBundle")


def _configuration(kind: str, tree: Tree) -> Iterator[Finding]:
    subject, webhooks = f"{kind} {tree['metadata']['name']}", tree.get("webhooks") or []
    if not webhooks:
        yield bad(subject, "has no webhooks", "apply what oarlock manifests --home=crd prints again")
        return
    yield fine(subject, f"asks {', '.join(str(webhook.get('name')) for webhook in webhooks)}")
    for webhook in webhooks:
        service = (webhook.get("clientConfig") or {}).get("service") or {}
        namespace = service.get("namespace")
        if namespace and webhook.get("failurePolicy") == "Fail" and not _leaves_out(webhook, str(namespace)):
            advice = f"leave {namespace} out by a namespaceSelector on {_OWN_NAMESPACE}"
            text = f"is also asked about its own namespace {namespace}: when it is down, nothing there can be mended"
            yield bad(f"Webhook {webhook.get('name')}", text, advice)


def _leaves_out(webhook: Tree, namespace: str) -> bool:
    """Whether a webhook isn't asked about objects of a namespace, or about no namespaced objects at all."""
    if all(rule.get("scope") == "Cluster" for rule in webhook.get("rules") or ()):
        return True
    selector = webhook.get("namespaceSelector") or {}
    return any(
        expression.get("key") == _OWN_NAMESPACE
        and (expression.get("operator") == "NotIn") is (namespace in (expression.get("values") or ()))
        for expression in selector.get("matchExpressions") or ()
        if expression.get("operator") in ("In", "NotIn")
    )


async def _definitions(view: ClusterView, places: dict[tuple[str, str, int], _Place]) -> AsyncIterator[Finding]:
    """Those that are converted by one of the same Services."""
    known = {(place.namespace, place.name) for place in places.values()}
    try:
        definitions = await view.items(DEFINITIONS)
    except (Missing, Unreadable) as error:
        yield unknown("CustomResourceDefinitions", f"can't be read: {error}")
        return
    for tree in definitions:
        config = (((tree.get("spec") or {}).get("conversion") or {}).get("webhook") or {}).get("clientConfig") or {}
        service = config.get("service") or {}
        if (str(service.get("namespace")), str(service.get("name"))) not in known:
            continue
        subject = f"CustomResourceDefinition {tree['metadata']['name']}"
        _add(places, subject, config)
        conditions = {
            condition.get("type"): condition for condition in (tree.get("status") or {}).get("conditions") or ()
        }
        established = conditions.get("Established") or {}
        if established.get("status") == "True":
            yield fine(subject, "is established, and converted by the same Service")
        else:
            why = (conditions.get("NamesAccepted") or established).get("message") or "nobody has looked at it yet"
            yield bad(subject, f"isn't established: {why}", "see kubectl describe crd")


async def _backend(view: ClusterView, place: _Place, now: float) -> AsyncIterator[Finding]:
    backend = ServiceBackend(place.namespace, place.name, place.port)
    async for finding in look_at_backend(view, backend):
        yield finding
    moment = datetime.fromtimestamp(now, UTC)
    seen: set[str | None] = set()
    for subject, text in place.bundles.items():
        if text in seen:
            continue
        seen.add(text)
        bundle, finding = look_at_bundle({"caBundle": text}, moment)
        yield Finding(finding.state, f"{finding.subject} of {subject}", finding.text, finding.advice)
        async for finding in look_at_certificates(backend, bundle, skip=False, now=now):
            yield finding
    if len(seen) > 1:
        advice = "let one of them write it: --serving-certificate-secret, cert-manager, or you"
        yield bad("caBundle", f"{len(seen)} different ones are in the objects that name {backend.shown}", advice)
