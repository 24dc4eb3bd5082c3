"""Certificates on request: who may approve and sign for whom, and what nobody may ask for."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from oarlock import ControlPlane
from oarlock.testing import InMemory

pytestmark = pytest.mark.anyio

RBAC = "/apis/rbac.authorization.k8s.io/v1"
CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
CLIENT = "kubernetes.io/kube-apiserver-client"
OURS = "example.com/robots"
APPROVED = {"type": "Approved", "status": "True", "reason": "Test", "message": ""}
Tree = dict[str, Any]


def asking(name: str, signer: str, *organizations: str) -> Tree:
    subject = [x509.NameAttribute(NameOID.COMMON_NAME, "robot")]
    subject += [x509.NameAttribute(NameOID.ORGANIZATION_NAME, one) for one in organizations]
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
    made = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    spec = {"request": base64.b64encode(made.public_bytes(Encoding.PEM)).decode(), "signerName": signer}
    return {"metadata": {"name": name}, "spec": {**spec, "usages": ["client auth"]}}


async def allow(api: InMemory, verbs: list[str], signer: str) -> None:
    """Alice may change requests and their parts, and do `verbs` for `signer`."""
    group = "certificates.k8s.io"
    parts = [f"certificatesigningrequests{part}" for part in ("", "/approval", "/status")]
    rules = [{"verbs": ["*"], "apiGroups": [group], "resources": parts}]
    if verbs:
        rules.append({"verbs": verbs, "apiGroups": [group], "resources": ["signers"], "resourceNames": [signer]})
    role = {"metadata": {"name": "alice"}, "rules": rules}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "alice"}
    binding = {"metadata": {"name": "alice"}, "roleRef": reference, "subjects": [{"kind": "User", "name": "alice"}]}
    assert (await api.post(f"{RBAC}/clusterroles", role)).status == 201
    assert (await api.post(f"{RBAC}/clusterrolebindings", binding)).status == 201


async def as_alice(api: InMemory, path: str, tree: Tree) -> Any:
    return await api.request("PUT", path, tree, {"impersonate-user": "alice", "content-type": "application/json"})


@pytest.mark.parametrize(
    ("verbs", "signer", "status"),
    [
        ([], OURS, 403),
        (["sign"], OURS, 403),
        (["approve"], "example.com/others", 403),
        (["approve"], "example.com/*", 200),
        (["approve"], OURS, 200),
    ],
)
async def test_who_approves_may_approve_for_that_signer(verbs: list[str], signer: str, status: int) -> None:
    async with InMemory(ControlPlane()) as api:
        await allow(api, verbs, signer)
        tree = (await api.post(CSRS, asking("a", OURS))).json
        answer = await as_alice(api, f"{CSRS}/a/approval", {**tree, "status": {"conditions": [APPROVED]}})
        assert answer.status == status
        if status == 403:
            assert (
                'user not permitted to approve requests with signerName "example.com/robots"' in answer.json["message"]
            )


@pytest.mark.parametrize(("verbs", "status"), [([], 403), (["approve"], 403), (["sign"], 200)])
async def test_who_fails_a_request_may_sign_for_that_signer(verbs: list[str], status: int) -> None:
    async with InMemory(ControlPlane()) as api:
        await allow(api, verbs, OURS)
        tree = (await api.post(CSRS, asking("a", OURS))).json
        failed = {"type": "Failed", "status": "True", "reason": "Test", "message": ""}
        answer = await as_alice(api, f"{CSRS}/a/status", {**tree, "status": {"conditions": [failed]}})
        assert answer.status == status
        assert (await as_alice(api, f"{CSRS}/a/status", (await api.get(f"{CSRS}/a")).json)).status == 200, "no change"


async def test_nobody_asks_to_be_of_those_who_may_do_everything() -> None:
    async with InMemory(ControlPlane()) as api:
        refused = await api.post(CSRS, asking("a", CLIENT, "dev", "system:masters"))
        assert refused.status == 403
        assert f"use of {CLIENT} signer with system:masters group is not allowed" in refused.json["message"]
        assert (await api.post(CSRS, asking("a", OURS, "system:masters"))).status == 201
        assert (await api.post(CSRS, asking("b", CLIENT, "dev"))).status == 201
