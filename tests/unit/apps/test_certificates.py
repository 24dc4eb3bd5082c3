"""Certificates on request: who may ask for what, who approves, and what is signed."""

from __future__ import annotations

import base64
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from oarlock.apps.controllers.certificates.authority import BadAuthority, SigningAuthority
from oarlock.apps.controllers.certificates.signers import KUBELET_SERVING, refusal
from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.testing import InMemory, VirtualClock

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
