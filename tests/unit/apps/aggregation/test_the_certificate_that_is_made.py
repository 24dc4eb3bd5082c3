"""A control plane that nobody gave a certificate makes one, by which its backends know it."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from scripted_backend import GROUP, ScriptedBackend
from silent_terminal import Silent

from oarlock.apps.controllers.api_services import MadeProxyCertificate
from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.apps.controlplane.options import ControlPlaneOptions, for_control_plane
from oarlock.client.client import Client
from oarlock.client.clock import SystemClock
from oarlock.meta.errors import ServiceUnavailable
from oarlock.server.assembly.lifecycle import start
from oarlock.server.assembly.run import Running
from oarlock.server.config import ServerConfig
from oarlock.server.serving.certificates.issuing import CertificatePair, ensure_front_proxy
from oarlock.testing import InMemory
from oarlock.testing.clock import VirtualClock

pytestmark = pytest.mark.anyio

KIND = "apiregistration.k8s.io/v1/APIService"
DAY = 86_400.0
WITHIN_S = 60.0


class Published:
    """What a certificate has had published, and whether that succeeds."""

    def __init__(self) -> None:
        self.bundles: list[bytes] = []
        self.fails = False

    async def __call__(self, client: Client, data: Mapping[str, str]) -> None:
        if self.fails:
            raise ServiceUnavailable("not now")
        self.bundles.append(data["requestheader-client-ca-file"].encode())


class CountingClock(VirtualClock):
    """Knows how often somebody has begun to wait on it."""

    naps = 0

    async def sleep(self, seconds: float) -> None:
        self.naps += 1
        await super().sleep(seconds)


async def until(holds: Callable[[], bool]) -> None:
    """Let turns of the loop pass until `holds`: files are made in a thread."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            if holds():
                return
            await asyncio.sleep(0.001)


async def passes(clock: CountingClock, seconds: float) -> None:
    """Let the time pass and what is due be done, until somebody waits again."""
    naps = clock.naps
    clock.advance(seconds)
    await until(lambda: clock.naps > naps)


async def test_it_is_made_when_it_is_needed_and_published_before_it_is_used(tmp_path: Path) -> None:
    told = Published()
    made = MadeProxyCertificate(lambda: tmp_path / "pki", told)
    assert os.listdir(tmp_path) == []
    async with InMemory(ControlPlane()) as api:
        await asyncio.gather(*(made.ready(api.client()) for _ in range(20)))
    assert len(told.bundles) == 1
    assert made.files == (tmp_path / "pki" / "front-proxy-client.crt", tmp_path / "pki" / "front-proxy-client.key")
    made.stamp()
    assert made.problem == ""


async def test_a_start_waits_for_nothing_and_it_is_made_and_renewed_later(tmp_path: Path) -> None:
    clock = CountingClock()
    made = MadeProxyCertificate(lambda: tmp_path, Published())
    async with InMemory(ControlPlane()) as api:
        running = asyncio.ensure_future(made.run(api.client(), clock))
        await clock.run(0.5)
        assert os.listdir(tmp_path) == []
        await passes(clock, 0.5)
        before = made.stamp()
        for _ in range(400):
            await passes(clock, DAY)
            certificate = x509.load_pem_x509_certificate((tmp_path / "front-proxy-client.crt").read_bytes())
            assert certificate.not_valid_after_utc.timestamp() > clock.now() + 29 * DAY
        assert made.stamp() != before
        running.cancel()


async def test_what_cant_be_published_is_tried_again(tmp_path: Path) -> None:
    told, clock = Published(), CountingClock()
    told.fails = True
    made = MadeProxyCertificate(lambda: tmp_path, told)
    async with InMemory(ControlPlane()) as api:
        running = asyncio.ensure_future(made.run(api.client(), clock))
        await clock.run(0.5)
        await passes(clock, 1)
        assert made.files is not None
        assert told.bundles == []
        told.fails = False
        await passes(clock, 10)
        assert len(told.bundles) == 1
        running.cancel()


async def test_a_waiter_that_gives_up_ends_it_for_nobody_else(tmp_path: Path) -> None:
    told = Published()
    made = MadeProxyCertificate(lambda: tmp_path, told)
    async with InMemory(ControlPlane()) as api:
        first, second = (asyncio.ensure_future(made.ready(api.client())) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await second
    assert len(told.bundles) == 1


async def test_who_needs_it_is_told_what_is_wrong_and_the_log_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "front-proxy-ca.crt").write_bytes(b"garbled")
    made = MadeProxyCertificate(lambda: tmp_path, Published())
    async with InMemory(ControlPlane()) as api:
        with caplog.at_level(logging.ERROR):
            for _ in range(3):
                await made.ready(api.client())
        assert "front-proxy-ca.crt: it contains no certificate in PEM" in made.problem
        assert caplog.text.count("front-proxy-ca.crt") == 1
        (tmp_path / "front-proxy-ca.crt").unlink()
        await made.ready(api.client())
    assert made.problem == ""
    assert made.files is not None


def config(folder: Path, name: str = "one", storage: str = "memory://", **more: Any) -> ServerConfig:
    folder.mkdir(exist_ok=True)
    (folder / "tokens.csv").write_text("admin-token,admin,1,system:masters\n")
    return for_control_plane(
        ServerConfig(
            storage=storage,
            data_dir=folder / name,
            secure_port=0,
            token_auth_file=folder / "tokens.csv",
            **more,
        )
    )


async def started(config: ServerConfig, options: ControlPlaneOptions | None = None) -> Running:
    return await start(ControlPlane(options=options), config, SystemClock(), Silent())


async def register(running: Running, backend: ScriptedBackend) -> None:
    await running.client(None, "test").create(
        {**backend.api_service(), "apiVersion": KIND.rpartition("/")[0], "kind": "APIService"}
    )


async def condition(running: Running, backend: ScriptedBackend, *reasons: str) -> str:
    """The message of the condition Available, once it has one of these reasons."""
    name = backend.api_service()["metadata"]["name"]
    watch = running.client(None, "test").watch(KIND, field_selector=f"metadata.name={name}")
    async with asyncio.timeout(WITHIN_S):
        async for event in watch:
            for one in (event.object.get("status") or {}).get("conditions") or []:
                if one["reason"] in reasons:
                    return str(one["message"])
    raise AssertionError("the watch goes on")


async def bundle(running: Running, count: int) -> list[x509.Certificate]:
    """The authorities of front proxies that are published, once there are so many."""
    where = {"namespace": "kube-system", "field_selector": "metadata.name=extension-apiserver-authentication"}
    watch = running.client(None, "test").watch("v1/ConfigMap", **where)  # type: ignore[call-overload]
    async with asyncio.timeout(WITHIN_S):
        async for event in watch:
            text = (event.object.get("data") or {}).get("requestheader-client-ca-file", "")
            found = x509.load_pem_x509_certificates(text.encode()) if text else []
            if len(found) >= count:
                return found
    raise AssertionError("the watch goes on")


def signer(directory: Path) -> CertificatePair:
    certificate = x509.load_pem_x509_certificate((directory / "front-proxy-ca.crt").read_bytes())
    key: Any = load_pem_private_key((directory / "front-proxy-ca.key").read_bytes(), None)
    return CertificatePair(certificate, key)


@pytest.mark.slow
async def test_a_backend_that_asks_for_it_becomes_available(tmp_path: Path) -> None:
    """After a crash between the key and the certificate too."""
    pki = tmp_path / "one" / "pki"
    ensure_front_proxy(pki, SystemClock().now())
    (pki / "front-proxy-client.crt").unlink()
    backend = await ScriptedBackend().start(tmp_path, signer(pki))
    running = await started(config(tmp_path))
    try:
        await register(running, backend)
        assert await condition(running, backend, "Passed") == "all checks passed"
        assert backend.certificates[-1]["subject"] == ((("commonName", "front-proxy-client"),),)
        number = await shown(running, backend)
        (pki / "front-proxy-client.crt").unlink()
        ensure_front_proxy(pki, SystemClock().now())  # as a server beside this one does
        assert await shown(running, backend) != number, "without a restart"
    finally:
        await running.shut_down()
        await backend.stop()


async def shown(running: Running, backend: ScriptedBackend) -> str:
    """The number of the certificate with which a request comes; what is available is forwarded a moment later."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            try:
                await running.client(None, "test").request("GET", f"/apis/{GROUP}/v1/namespaces/default/echoes/a")
                return str(backend.certificates[-1]["serialNumber"])
            except ServiceUnavailable:
                await asyncio.sleep(0.001)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["front-proxy-ca.crt", "front-proxy-ca.key", "front-proxy-client.key"])
async def test_a_server_starts_beside_a_garbled_file_and_says_which(tmp_path: Path, name: str) -> None:
    pki = tmp_path / "one" / "pki"
    ensure_front_proxy(pki, SystemClock().now())
    (pki / name).write_bytes(b"\x00garbled")
    backend = await ScriptedBackend().start(tmp_path)
    running = await started(config(tmp_path))
    try:
        await register(running, backend)
        message = await condition(running, backend, "FailedDiscoveryCheck", "Passed")
        assert f"{pki / name}: it contains no " in message
        assert backend.asked == [], "nothing is sent without the certificate"
    finally:
        await running.shut_down()
        await backend.stop()


@pytest.mark.slow
async def test_servers_on_one_store_with_folders_of_their_own_are_all_believed(tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path / 'store.db'}"
    servers = [await started(config(tmp_path, name, storage)) for name in ("one", "other")]
    try:
        found = await bundle(servers[0], 2)
        assert set(found) == {signer(tmp_path / name / "pki").certificate for name in ("one", "other")}
    finally:
        for one in servers:
            await one.shut_down()


@pytest.mark.slow
async def test_servers_on_one_folder_share_an_authority(tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path / 'store.db'}"
    servers = [await started(config(tmp_path, "same", storage)) for _ in range(2)]
    try:
        for one in servers:
            assert await bundle(one, 1) == [signer(tmp_path / "same" / "pki").certificate]
    finally:
        for one in servers:
            await one.shut_down()


@pytest.mark.slow
@pytest.mark.parametrize("given", ["certificate", "authority"])
async def test_what_options_name_comes_first(tmp_path: Path, given: str) -> None:
    """With either of them somebody else says who is a front proxy."""
    files = ensure_front_proxy(tmp_path / "given", SystemClock().now())
    authority = tmp_path / "given" / "front-proxy-ca.crt"
    options = ControlPlaneOptions(proxy_client_cert_file=files.certificate, proxy_client_key_file=files.key)
    backend = await ScriptedBackend().start(tmp_path)
    running = await started(
        config(tmp_path, requestheader_client_ca_file=None if given == "certificate" else authority),
        options if given == "certificate" else None,
    )
    try:
        await register(running, backend)
        await condition(running, backend, "Passed")
        assert not list((tmp_path / "one" / "pki").glob("front-proxy*"))
        if given == "authority":
            assert await bundle(running, 1) == [signer(tmp_path / "given").certificate]
    finally:
        await running.shut_down()
        await backend.stop()
