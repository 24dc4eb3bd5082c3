"""``oarlock doctor``: what it says of APIServices that are broken in one way each; the cluster is oarlock."""

from __future__ import annotations

import asyncio
import base64
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from loopback_endpoints import store_slice

from oarlock import JSON, Model, Resource
from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.cli.doctor.cluster import bad
from oarlock.cli.doctor.command import _cause, _condition, advice_about, page
from oarlock.client.client import Client
from oarlock.server.command import CommandError
from oarlock.server.serving.certificates.issuing import CertificatePair, issue, new_authority
from oarlock.testing import InMemory

pytestmark = pytest.mark.anyio

NOW = time.time()  # a handshake looks at the machine's clock
MOMENT = datetime.fromtimestamp(NOW, UTC)
HOST = "shop.shop.svc"
NAME = "v1.shop.example.com"


class APIServiceSpec(Model):
    group: str = ""
    version: str = ""
    service: dict[str, JSON] | None = None
    ca_bundle: str | None = None


class APIService(Resource, group="apiregistration.k8s.io", version="v1", scope="Cluster"):
    """As far as the doctor reads it."""

    spec: APIServiceSpec = APIServiceSpec()
    status: dict[str, JSON] = {}


LABELS = {"app": "shop"}
HEADLESS = {"clusterIP": "None"}  # nothing but loopback is connected to
SLICE = {"addressType": "IPv4", "ports": [{"name": "https", "port": 1}]}
POD = {"containers": [{"name": "a", "image": "shop:1"}], "serviceAccountName": "shop"}
READY = {"conditions": [{"type": "Ready", "status": "True"}]}


def b64(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


AUTHORITY = new_authority(MOMENT)


def well() -> dict[str, Any]:
    """Every object as it should be; no address of it can be reached."""
    authority = AUTHORITY.certificate_pem
    return {
        "service": {"spec": {**HEADLESS, "ports": [{"name": "https", "port": 443}], "selector": LABELS}},
        "slice": {
            "ports": [{"name": "https", "port": 1}],
            "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}],
        },
        "pod": {"status": READY},
        "spec": {
            "group": "shop.example.com",
            "version": "v1",
            "service": {"namespace": "shop", "name": "shop", "port": 443},
            "caBundle": b64(authority),
        },
        "trust": {"requestheader-client-ca-file": authority.decode()},
        "rights": True,
    }


def tree(api_version: str, kind: str, name: str, rest: dict[str, Any], **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


@asynccontextmanager
async def cluster(state: dict[str, Any]) -> AsyncIterator[Client]:
    """A cluster with these objects; what is None isn't there."""
    async with InMemory(ControlPlane(serve=[APIService], disable=["aggregation"])) as server:
        client = server.client()
        await client.create(tree("v1", "Namespace", "shop", {}))
        await client.create(tree("v1", "ServiceAccount", "shop", {}), namespace="shop")
        if state["service"] is not None:
            await client.create(tree("v1", "Service", "shop", state["service"]), namespace="shop")
        if state["slice"] is not None:
            label = {"kubernetes.io/service-name": "shop"}
            made = tree("discovery.k8s.io/v1", "EndpointSlice", "shop-x", SLICE | state["slice"], **label)
            await store_slice(server, "shop", made)
        if state["pod"] is not None:
            made = tree("v1", "Pod", "shop-1", {"spec": POD | state["pod"].get("spec", {})}, **LABELS)
            await client.create(made, namespace="shop")
            status = {"status": state["pod"]["status"]}
            await client.patch("v1/Pod", "shop-1", status, namespace="shop", subresource="status")
        trusted = {"data": state["trust"]}
        config = tree("v1", "ConfigMap", "extension-apiserver-authentication", trusted)
        await client.apply(config, namespace="kube-system", force=True)
        if state["rights"]:
            rules = {"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}
            await client.create(tree("rbac.authorization.k8s.io/v1", "ClusterRole", "all", rules))
            binding = {
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "all"},
                "subjects": [{"kind": "ServiceAccount", "namespace": "shop", "name": "shop"}],
            }
            await client.create(tree("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "all", binding))
        await client.create(tree("apiregistration.k8s.io/v1", "APIService", NAME, {"spec": state["spec"]}))
        yield client


async def told(state: dict[str, Any]) -> str:
    async with cluster(state) as client:
        lines, healthy = await page(client, NAME, NOW)
        assert not healthy  # nobody looks at APIServices here
        return "\n".join(lines)


async def test_what_is_well_is_said_to_be(anyio_backend: str):
    text = await told(well())
    assert "ok  Service shop/shop: has port 443" in text
    assert "ok  Endpoints: 1 ready" in text
    assert "ok  Pod shop-1: is ready" in text
    assert "ok  caBundle: is valid" in text
    assert "ok  ServiceAccount shop/shop: may create reviews" in text
    assert "ok  ConfigMap kube-system/extension-apiserver-authentication" in text
    assert "BAD Backend: no answer from 127.0.0.1:1" in text
    assert "BAD GET /apis/shop.example.com/v1: 404" in text


OLD = new_authority(datetime(2010, 1, 1, tzinfo=UTC))
WAITING = {"containerStatuses": [{"name": "a", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}
BROKEN = [
    ({"service": None}, "Service shop/shop: doesn't exist"),
    ({"service": {"spec": {**HEADLESS, "ports": [{"port": 80}]}}}, "Service shop/shop: has no port 443; it has 80"),
    ({"service": {"spec": HEADLESS}}, "it has none"),
    ({"slice": None}, "Endpoints: there are none"),
    (
        {"slice": {"endpoints": [{"addresses": ["192.0.2.1"], "conditions": {"ready": False}}]}},
        "Endpoints: 1 not ready",
    ),
    ({"pod": None}, "Pods: none has the labels app=shop"),
    (
        {
            "pod": {
                "status": {"containerStatuses": [{"name": "a", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}
            }
        },
        "Pod shop-1: container a: ImagePullBackOff",
    ),
    ({"pod": {"status": {"phase": "Pending"}}}, "Pod shop-1: isn't ready: phase Pending"),
    ({"trust": {}}, "has no requestheader-client-ca-file"),
    ({"trust": {"requestheader-client-ca-file": "x"}}, "requestheader-client-ca-file contains no certificate"),
    (
        {"trust": {"requestheader-client-ca-file": OLD.certificate_pem.decode()}},
        "requestheader-client-ca-file has expired",
    ),
    (
        {"rights": False},
        "may not read the ConfigMap kube-system/extension-apiserver-authentication",
    ),
    ({"rights": False}, "ServiceAccount shop/shop: may not create TokenReviews"),
]


@pytest.mark.parametrize(("change", "text"), BROKEN, ids=[text for _, text in BROKEN])
async def test_what_is_broken_is_named_with_advice(change: dict[str, Any], text: str):
    shown = await told({**well(), **change})
    assert f"BAD {text}" in shown or f": {text}" in shown or text in shown
    line = next(one for one in shown.splitlines() if text in one)
    assert line.startswith("  BAD ")
    assert shown.splitlines()[shown.splitlines().index(line) + 1].startswith("      → ")
    assert "fix first: " in shown


BUNDLES = [
    (None, "caBundle: is empty"),
    ("%%%", "caBundle: contains no certificate"),
    (b64(b"x"), "caBundle: contains no certificate"),
    (b64(OLD.certificate_pem), "caBundle: expired on 2019"),
]


@pytest.mark.parametrize(("bundle", "text"), BUNDLES)
async def test_a_bundle_that_cant_be_used_is_named(bundle: str | None, text: str):
    state = well()
    state["spec"]["caBundle"] = bundle
    assert f"BAD {text}" in await told(state)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("https://127.0.0.1:1", "BAD Backend: no answer from 127.0.0.1:1"),
        ("http://127.0.0.1:1", "BAD Annotation oarlock.dev/url: 'http://127.0.0.1:1' must be https://HOST:PORT"),
    ],
)
async def test_the_address_of_an_annotation_is_looked_at_and_no_service(url: str, text: str):
    async with cluster({**well(), "service": None, "slice": None, "pod": None}) as client:
        patch = {"metadata": {"annotations": {"oarlock.dev/url": url}}}
        await client.patch("apiregistration.k8s.io/v1/APIService", NAME, patch)
        lines, _ = await page(client, NAME, NOW)
        assert text in "\n".join(lines)
        assert not any("Service shop/shop:" in one for one in lines)


async def test_an_api_service_that_isnt_there_is_told(anyio_backend: str):
    async with cluster(well()) as client:
        with pytest.raises(CommandError, match="no APIService v9"):
            await page(client, "v9.none.example.com", NOW)


def context(pair: CertificatePair, folder: Path) -> ssl.SSLContext:
    (folder / "pair.pem").write_bytes(pair.certificate_pem + pair.key_pem)
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(folder / "pair.pem")
    return made


REFUSED = "BAD Certificate of 127.0.0.1:{}: isn't accepted for shop.shop.svc: "
HANDSHAKES = [
    (issue(AUTHORITY, [HOST], MOMENT), "ok  Certificate of 127.0.0.1:{}: is for shop.shop.svc, for 36"),
    (
        issue(AUTHORITY, ["other"], MOMENT),
        f"{REFUSED}hostname",
    ),
    (
        issue(new_authority(MOMENT), [HOST], MOMENT),
        "BAD Certificate of 127.0.0.1:{}: isn't accepted for shop.shop.svc: ",
    ),
    (issue(AUTHORITY, [HOST], MOMENT, 3), "BAD Certificate of 127.0.0.1:{}: is for shop.shop.svc, for "),
    (None, f"{REFUSED}it doesn't speak TLS"),
]


@pytest.mark.parametrize(("pair", "text"), HANDSHAKES, ids=["right", "name", "authority", "soon", "plain"])
async def test_the_certificate_that_a_backend_serves_is_looked_at(
    pair: CertificatePair | None, text: str, tmp_path: Path
):
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    tls = None if pair is None else context(pair, tmp_path)
    backend = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls)
    async with backend:
        port = backend.sockets[0].getsockname()[1]
        state = well()
        state["slice"]["ports"] = [{"name": "https", "port": port}]
        assert text.format(port) in await told(state)


URL = "https://10.0.0.7:443/apis/shop.example.com/v1"
MESSAGES = {
    "bad status from {}: 401": "doesn't trust the cluster's front proxy",
    "bad status from {}: 403": "doesn't let the cluster's API server look",
    "bad status from {}: 404": "another server answers behind the Service",
    "bad status from {}: 500": "system:auth-delegator",
    "bad status from {}: 503": "read its log",
    'Get "{}": tls: failed to verify certificate: x509: certificate signed by unknown authority': "isn't signed by",
    'Get "{}": tls: failed to verify certificate: x509: certificate has expired or is not yet valid': "renew it",
    'Get "{}": tls: failed to verify certificate: x509: certificate is valid for localhost, not shop.shop.svc': (
        "for another name"
    ),
    'Get "{}": http: server gave HTTP response to HTTPS client': "doesn't speak TLS",
    'Get "{}": dial tcp: lookup shop on 10.0.0.10:53: no such host': "DNS",
    'Get "{}": dial tcp 10.0.0.7:443: connect: connection refused': "nothing listens there",
    'Get "{}": dial tcp 10.0.0.7:443: connect: no route to host': "no way to the backend",
    'Get "{}": context deadline exceeded (Client.Timeout exceeded while awaiting headers)': "NetworkPolicy",
    'Get "{}": net/http: request canceled while waiting for connection: i/o timeout': "it hangs",
    'Get "{}": read tcp 10.0.0.1:5->10.0.0.7:443: read: connection reset by peer': "it may crash",
    'Get "{}": EOF': "closes connections",
}


@pytest.mark.parametrize("message", MESSAGES)
async def test_what_the_aggregator_says_is_explained_and_comes_first(message: str):
    text = f"failing or missing response from {URL}: {message.format(URL)}"
    condition = {"type": "Available", "status": "False", "reason": "FailedDiscoveryCheck", "message": text}
    spec = {"group": "shop.example.com", "version": "v1", "service": {"namespace": "shop", "name": "shop"}}
    assert MESSAGES[message] in advice_about(text)
    found = [_condition({"spec": spec, "status": {"conditions": [condition]}})]
    cause = _cause([*found, bad("GET /apis/shop.example.com/v1", "503: service unavailable", "")])
    assert cause is found[0]


RIGHTS = (
    "may not watch validatingadmissionpolicies, so that nothing can be written",
    "may not update resourcequotas/status, so that nothing can be written",
    "may not watch flowschemas, so that the built-in ones divide its requests",
)


def test_the_page_says_what_is_said_here_of_each_breakage() -> None:
    page_text = (Path(__file__).parents[3] / "docs" / "deploying.md").read_text()
    rows = page_text[page_text.index("| what is broken |") :].partition("\n\n")[0].splitlines()[2:]
    sentences = [row.rstrip(" |").rpartition("| `")[2].rstrip("`") for row in rows]
    assert len(sentences) > 20
    tested = [
        *(text for _, text in (*BROKEN, *BUNDLES, *HANDSHAKES)),
        *(*MESSAGES, *MESSAGES.values(), *RIGHTS),
    ]
    assert [one for one in sentences if not any(one in text for text in tested)] == []


async def test_rights_for_the_rules_of_the_cluster_are_looked_at_if_the_server_applies_them(anyio_backend: str):
    args = ["--kubeconfig=in-cluster", "--disable-admission-plugins=MutatingAdmissionWebhook"]
    state = well() | {"rights": False}
    state["pod"] = {"spec": {"containers": [{"name": "a", "image": "shop:1", "args": args}]}, "status": READY}
    text = await told(state)
    for told_of in RIGHTS:
        assert told_of in text
    assert "may not watch validatingwebhookconfigurations" in text
    assert "may not watch mutatingwebhookconfigurations" not in text
    assert "so that nothing can be written" not in await told(well() | {"rights": False})
