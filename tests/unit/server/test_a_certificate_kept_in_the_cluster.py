"""Servers of one APIService keep their certificate in a Secret of the cluster, which is oarlock here, and renew it."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from crd_kit import definition
from cryptography import x509
from silent_terminal import Silent

from oarlock import Model, Resource
from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.apps.controlplane.options import for_control_plane
from oarlock.client.client import Client
from oarlock.client.clock import SystemClock
from oarlock.server.assembly.lifecycle import start
from oarlock.server.cluster.certificate import OVERLAP_S, ClusterCertificate, ClusterCertificateSettings
from oarlock.server.config import ServerConfig
from oarlock.server.description import ReferringObject
from oarlock.server.files.credentials import BadFile
from oarlock.testing import VirtualClock

pytestmark = pytest.mark.anyio

DAY_S = 24 * 3600.0
REFERRING = (ReferringObject("apiregistration.k8s.io/v1/APIService", "v1.shop.example.com"),)
HOSTS = ("shop.shop.svc", "shop.shop.svc.cluster.local")


class ServiceReference(Model):
    name: str = ""


class APIServiceSpec(Model):
    service: ServiceReference | None = None
    ca_bundle: str | None = None


class APIService(Resource, group="apiregistration.k8s.io", version="v1", scope="Cluster"):
    """As far as a certificate needs it."""

    spec: APIServiceSpec = APIServiceSpec()


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[tuple[Client, ClusterCertificateSettings]]:
    """A cluster, and settings for a server behind it."""
    options = ServerConfig(storage="memory://", data_dir=folder / "cluster", secure_port=0)
    running = await start(
        ControlPlane(serve=[APIService], disable=["aggregation"]), for_control_plane(options), SystemClock(), Silent()
    )
    try:
        client = running.client(None, "test")
        await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
        kubeconfig = folder / "cluster" / "oarlock.kubeconfig"
        yield (
            client,
            ClusterCertificateSettings(kubeconfig, "shop/shop-certificate", HOSTS, REFERRING, folder / "a"),
        )
    finally:
        await running.shut_down()


async def register(client: Client) -> None:
    await client.create(
        APIService(metadata={"name": "v1.shop.example.com"}, spec=APIServiceSpec(service=ServiceReference(name="shop")))
    )


async def bundle_of(client: Client) -> list[x509.Certificate]:
    held = await client.get(APIService, "v1.shop.example.com")
    return x509.load_pem_x509_certificates(base64.b64decode(held.spec.ca_bundle or ""))


def served(one: ClusterCertificate) -> x509.Certificate:
    return x509.load_pem_x509_certificate(one.certificate.read_bytes())


async def test_the_first_server_makes_it_and_the_others_serve_the_same(tmp_path: Path):
    clock = VirtualClock()
    async with cluster(tmp_path) as (client, settings):
        await register(client)
        servers = [ClusterCertificate(replace(settings, directory=tmp_path / name), clock) for name in "abc"]
        await asyncio.gather(*(one.start() for one in servers))
        assert len({one.certificate.read_bytes() for one in servers}) == 1
        assert len({one.key.read_bytes() for one in servers}) == 1
        certificate, [authority] = served(servers[0]), await bundle_of(client)
        certificate.verify_directly_issued_by(authority)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert names.get_values_for_type(x509.DNSName) == list(HOSTS)
        assert servers[0].key.stat().st_mode & 0o077 == 0


async def test_it_is_renewed_when_a_third_of_its_time_is_left_by_the_same_authority(tmp_path: Path):
    clock = VirtualClock()
    async with cluster(tmp_path) as (client, settings):
        await register(client)
        one = ClusterCertificate(settings, clock)
        await one.start()
        first, authority = served(one), await bundle_of(client)
        clock.advance(59 * DAY_S)
        await one.bring()
        assert served(one) == first
        clock.advance(3 * DAY_S)
        await one.bring()
        assert served(one).not_valid_after_utc > first.not_valid_after_utc
        assert await bundle_of(client) == authority


async def test_clients_trust_the_former_authority_while_a_new_one_takes_over(tmp_path: Path):
    clock = VirtualClock()
    async with cluster(tmp_path) as (client, settings):
        await register(client)
        one = ClusterCertificate(settings, clock)
        await one.start()
        [former] = await bundle_of(client)
        clock.advance(7 * 365 * DAY_S)
        await one.bring()
        new, *others = await bundle_of(client)
        assert others == [former]
        served(one).verify_directly_issued_by(new)


async def test_what_other_servers_still_show_is_trusted_until_all_have_another(tmp_path: Path):
    clock = VirtualClock()
    async with cluster(tmp_path) as (client, settings):
        await register(client)
        one, other, late = (ClusterCertificate(replace(settings, directory=tmp_path / name), clock) for name in "abc")
        await one.start()
        await other.start()
        await client.delete("v1/Secret", "shop-certificate", namespace="shop")
        await one.bring()
        await late.start()
        new, former = await bundle_of(client)
        served(one).verify_directly_issued_by(new)
        served(other).verify_directly_issued_by(former)
        clock.advance(60.0)
        await other.bring()
        served(other).verify_directly_issued_by(new)
        assert await bundle_of(client) == [new, former]
        clock.advance(OVERLAP_S)
        await one.bring()
        assert await bundle_of(client) == [new]


async def test_an_api_service_that_comes_later_is_told_as_well(tmp_path: Path):
    clock = VirtualClock()
    async with cluster(tmp_path) as (client, settings):
        one = ClusterCertificate(settings, clock)
        await one.start()
        await register(client)
        await one.bring()
        served(one).verify_directly_issued_by((await bundle_of(client))[0])


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"tls.crt": "", "tls.key": ""},
        {"ca.crt": "bm90aGluZw==", "ca.key": "bm90aGluZw==", "tls.crt": "bm90aGluZw==", "tls.key": "bm90aGluZw=="},
    ],
    ids=["empty", "of another kind", "garbage"],
)
async def test_a_secret_that_holds_no_certificate_gets_one_and_keeps_what_else_is_in_it(tmp_path: Path, data: Any):
    async with cluster(tmp_path) as (client, settings):
        await client.create(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "shop-certificate", "namespace": "shop"},
                "data": {"other": "eA==", **data},
            }
        )
        one = ClusterCertificate(settings, VirtualClock())
        await one.start()
        held = await client.get("v1/Secret", "shop-certificate", namespace="shop")
        assert held["data"]["other"] == "eA=="
        assert base64.b64decode(held["data"]["tls.crt"]) == one.certificate.read_bytes()


async def test_another_name_makes_another_certificate(tmp_path: Path):
    clock = VirtualClock()
    async with cluster(tmp_path) as (client, settings):
        await register(client)
        one = ClusterCertificate(settings, clock)
        await one.start()
        [authority] = await bundle_of(client)
        other = ClusterCertificate(replace(settings, hosts=(*HOSTS, "shop.example.com")), clock)
        await other.start()
        names = served(other).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert "shop.example.com" in names.get_values_for_type(x509.DNSName)
        assert await bundle_of(client) == [authority]


async def test_without_the_cluster_a_server_doesnt_start_and_says_which_secret(tmp_path: Path):
    async with cluster(tmp_path) as (_, settings):
        pass
    with pytest.raises(BadFile, match="shop/shop-certificate"):
        await ClusterCertificate(settings, VirtualClock()).start()


WEBHOOKS = (
    ReferringObject("admissionregistration.k8s.io/v1/MutatingWebhookConfiguration", "shop"),
    ReferringObject("apiextensions.k8s.io/v1/CustomResourceDefinition", "plains.names.example.com"),
)


def configuration(*webhooks: dict[str, Any]) -> dict[str, Any]:
    kept = {"rules": [], "sideEffects": "None", "admissionReviewVersions": ["v1"]}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "shop"},
        "webhooks": [{**kept, "name": f"m{at}.shop.example.com", **one} for at, one in enumerate(webhooks)],
    }


async def test_configurations_of_webhooks_and_definitions_are_told_whom_to_trust(tmp_path: Path):
    clock, service = VirtualClock(), {"namespace": "shop", "name": "shop", "path": "/mutate"}
    async with cluster(tmp_path) as (client, settings):
        elsewhere = {"clientConfig": {"url": "https://example.com/"}}
        await client.create(configuration({"clientConfig": {"service": service}}, elsewhere))
        crd = definition()
        conversion = {"clientConfig": {"service": service}, "conversionReviewVersions": ["v1"]}
        crd["spec"]["conversion"] = {"strategy": "Webhook", "webhook": conversion}
        await client.create(crd)
        one = ClusterCertificate(replace(settings, referring_objects=WEBHOOKS), clock)
        await one.start()
        own, other = (await client.get(*WEBHOOKS[0]))["webhooks"]
        told = (await client.get(*WEBHOOKS[1]))["spec"]["conversion"]["webhook"]["clientConfig"]
        assert "caBundle" not in other["clientConfig"]
        assert told["caBundle"] == own["clientConfig"]["caBundle"]
        [authority] = x509.load_pem_x509_certificates(base64.b64decode(told["caBundle"]))
        served(one).verify_directly_issued_by(authority)
