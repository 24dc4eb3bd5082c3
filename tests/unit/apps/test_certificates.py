"""Certificates on request: who may ask for what, who approves, and what is signed."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from oarlock.apps.controllers.certificates.signing import KUBELET_SERVING, BadAuthority, SigningAuthority, refusal
from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.apps.controlplane.options import ControlPlaneOptions
from oarlock.server.config import ServerConfig
from oarlock.testing import InMemory, ServerThread, VirtualClock

CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET = "kubernetes.io/kube-apiserver-client-kubelet"
YEAR = timedelta(days=365)


def made_request(name: str, *organizations: str, dns: str = "") -> x509.CertificateSigningRequest:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    attributes += [x509.NameAttribute(NameOID.ORGANIZATION_NAME, one) for one in organizations]
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(attributes))
    if dns:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(dns)]), critical=False)
    return builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())


def asking(name: str, request: x509.CertificateSigningRequest, signer: str, **spec: Any) -> dict[str, Any]:
    pem = base64.b64encode(request.public_bytes(Encoding.PEM)).decode()
    return {
        "metadata": {"name": name},
        "spec": {"request": pem, "signerName": signer, "usages": ["client auth"], **spec},
    }


async def approve(api: InMemory, name: str) -> None:
    tree = (await api.get(f"{CSRS}/{name}")).json
    tree["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "Test"}]}
    assert (await api.request("PUT", f"{CSRS}/{name}/approval", tree)).status == 200


@pytest.mark.anyio
async def test_what_is_approved_is_signed_and_cleaned_up_later() -> None:
    clock = VirtualClock()
    async with InMemory(ControlPlane(), clock=clock) as api:
        await api.post(CSRS, asking("a", made_request("jane", "dev"), CLIENT, expirationSeconds=86_400))
        await approve(api, "a")
        await clock.run(1)
        status = (await api.get(f"{CSRS}/a")).json["status"]
        certificate = x509.load_pem_x509_certificate(base64.b64decode(status["certificate"]))
        assert certificate.subject.rfc4514_string() == "O=dev,CN=jane"
        assert certificate.not_valid_after_utc.timestamp() == pytest.approx(clock.now() - 1 + 86_400, abs=2)
        await clock.run(3_700)
        assert (await api.get(f"{CSRS}/a")).status == 404


@pytest.mark.anyio
async def test_what_a_signer_does_not_sign_has_failed() -> None:
    clock = VirtualClock()
    async with InMemory(ControlPlane(), clock=clock) as api:
        usages = ["client auth", "server auth"]
        await api.post(CSRS, asking("a", made_request("jane"), CLIENT, usages=usages))
        await approve(api, "a")
        await clock.run(1)
        status = (await api.get(f"{CSRS}/a")).json["status"]
        assert [one["type"] for one in status["conditions"]] == ["Approved", "Failed"]
        assert "certificate" not in status


@pytest.mark.anyio
async def test_nodes_are_approved_if_they_may_ask() -> None:
    clock = VirtualClock()
    async with InMemory(ControlPlane(), clock=clock) as api:
        await api.post(CSRS, asking("node", made_request("system:node:n", "system:nodes"), KUBELET))
        await api.post(CSRS, asking("other", made_request("jane", "system:nodes"), KUBELET))
        await clock.run(2)
        node, other = [(await api.get(f"{CSRS}/{name}")).json["status"] for name in ("node", "other")]
        assert node["conditions"][0]["reason"] == "AutoApproved"
        assert node["certificate"]
        assert other == {}


def test_serving_certificates_of_nodes_name_them() -> None:
    usages = ["digital signature", "server auth"]
    assert refusal(KUBELET_SERVING, made_request("system:node:n", "system:nodes", dns="n.local"), usages) == ""
    assert "required" in refusal(KUBELET_SERVING, made_request("system:node:n", "system:nodes"), usages)
    assert "organization" in refusal(KUBELET_SERVING, made_request("system:node:n", "dev", dns="n"), usages)


def test_the_authority_is_kept(tmp_path: Path) -> None:
    first = SigningAuthority.kept(tmp_path / "pki", 1_700_000_000, YEAR)
    assert SigningAuthority.kept(tmp_path / "pki", 1_800_000_000, YEAR).pem == first.pem
    assert (tmp_path / "pki" / "signer-ca.key").stat().st_mode & 0o077 == 0
    other = SigningAuthority.kept(tmp_path / "other", 1_700_000_000, YEAR)
    assert other.pem != first.pem
    with pytest.raises(BadAuthority, match="not the key of the certificate"):
        SigningAuthority.read(tmp_path / "pki/signer-ca.crt", tmp_path / "other/signer-ca.key", YEAR)


def test_servers_that_start_at_once_keep_one_authority(tmp_path: Path) -> None:
    """What each of them has is what the files have; none fails."""
    folder = tmp_path / "pki"
    at_once = threading.Barrier(8)

    def start() -> bytes:
        at_once.wait()
        return SigningAuthority.kept(folder, 1_700_000_000, YEAR).pem

    with ThreadPoolExecutor(8) as pool:
        pems = {one.result() for one in [pool.submit(start) for _ in range(8)]}
    assert pems == {SigningAuthority.kept(folder, 1_700_000_000, YEAR).pem}


def test_a_certificate_for_clients_alone_says_nothing_of_its_key() -> None:
    """An empty KeyUsage is refused by OpenSSL."""
    authority = SigningAuthority.made(1_700_000_000, YEAR)
    kinds = {"client auth": None, "digital signature": True}
    for usage, expected in kinds.items():
        signed = x509.load_pem_x509_certificate(authority.sign(made_request("jane"), [usage], 1_700_000_000, None))
        found = [one.value for one in signed.extensions if isinstance(one.value, x509.KeyUsage)]
        assert [one.digital_signature for one in found] == ([] if expected is None else [expected])


def asked(url: str, tls: ssl.SSLContext, token: str = "", **request: Any) -> tuple[int, Any]:
    headers = {"content-type": "application/json"}
    if token:
        headers["authorization"] = f"Bearer {token}"
    body = request.pop("body", None)
    data = None if body is None else json.dumps(body).encode()
    try:
        wanted = urllib.request.Request(url, data, headers, **request)
        with urllib.request.urlopen(wanted, context=tls, timeout=20) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def signed_for(server: ServerThread, folder: Path) -> tuple[ssl.SSLContext, dict[str, Any]]:
    """Ask a server for a client certificate and approve it: a context with it, and the request's status."""
    token = server.token
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "jane")])
    request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    tls = ssl.create_default_context(cafile=str(server.ca))
    assert asked(server.url + CSRS, tls, token, body=asking("jane", request, CLIENT))[0] == 201
    tree = asked(f"{server.url}{CSRS}/jane", tls, token)[1]
    tree["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "Test"}]}
    assert asked(f"{server.url}{CSRS}/jane/approval", tls, token, body=tree, method="PUT")[0] == 200
    status: dict[str, Any] = {}
    until = time.monotonic() + 60
    while not status.get("certificate") and time.monotonic() < until:
        status = asked(f"{server.url}{CSRS}/jane", tls, token)[1]["status"]
        time.sleep(0.02)
    if status.get("certificate"):
        file = folder / "jane.pem"
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        file.write_bytes(base64.b64decode(status["certificate"]) + pem)
        tls = ssl.create_default_context(cafile=str(server.ca))
        tls.load_cert_chain(file)
    return tls, status


def who_am_i(server: ServerThread, tls: ssl.SSLContext) -> str:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    _, tree = asked(f"{server.url}/apis/authentication.k8s.io/v1/selfsubjectreviews", tls, body=review)
    name: str = tree.get("status", {}).get("userInfo", {}).get("username", "")
    return name


def test_a_server_lets_clients_in_by_what_it_signs_itself(tmp_path: Path) -> None:
    with ServerThread(ControlPlane(), folder=tmp_path) as server:
        tls, status = signed_for(server, tmp_path)
        assert status["certificate"]
        assert who_am_i(server, tls) == "jane"


def test_a_server_signs_nothing_that_it_would_not_accept(tmp_path: Path) -> None:
    """Clients are let in by another authority, which another program may sign with."""
    elsewhere = SigningAuthority.made(time.time(), YEAR)
    (tmp_path / "clients.crt").write_bytes(elsewhere.pem)
    config = ServerConfig(storage="memory://", client_ca_file=tmp_path / "clients.crt")
    with ServerThread(ControlPlane(), folder=tmp_path / "server", config=config) as server:
        token, tls = server.token, ssl.create_default_context(cafile=str(server.ca))
        assert asked(server.url + CSRS, tls, token, body=asking("jane", made_request("jane"), CLIENT))[0] == 201
        tree = asked(f"{server.url}{CSRS}/jane", tls, token)[1]
        tree["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "Test"}]}
        assert asked(f"{server.url}{CSRS}/jane/approval", tls, token, body=tree, method="PUT")[0] == 200
        status = asked(f"{server.url}{CSRS}/jane", tls, token)[1]["status"]
        assert "certificate" not in status
        assert not (tmp_path / "server" / "pki" / "signer-ca.crt").exists()


def test_a_server_trusts_the_authority_that_it_is_given_to_sign_with(tmp_path: Path) -> None:
    kept = SigningAuthority.kept(tmp_path, time.time(), YEAR)
    options = ControlPlaneOptions(
        cluster_signing_cert_file=SigningAuthority.kept_at(tmp_path),
        cluster_signing_key_file=tmp_path / "signer-ca.key",
    )
    with ServerThread(ControlPlane(options=options), folder=tmp_path / "server") as server:
        tls, status = signed_for(server, tmp_path)
        issuer = x509.load_pem_x509_certificate(base64.b64decode(status["certificate"])).issuer
        assert issuer == x509.load_pem_x509_certificate(kept.pem).subject
        assert who_am_i(server, tls) == "jane"
