"""wardle behind the real kube-apiserver: its namespaces, policies and webhooks hold for what wardle keeps.

Runs where kube-apiserver is (``OARLOCK_KUBE_APISERVER`` or PATH), with etcd and kubectl.
"""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aggregated_servers import kubeconfig, of_extension, roles, serving_files
from client_certificates import issue_client
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from databases import EtcdServer
from home_requests import WRECK, WRECKS, all_told, all_told_over_http
from kubectl import Kubectl
from server_process import ServerProcess
from until import until
from webhook_home import GROUP, harbour

from oarlock.net.trust import trusting
from oarlock.server.serving.certificates.issuing import new_authority
from oarlock.testing import InMemory
from oarlock.testing.client import HTTPClient

PROGRAM = os.environ.get("OARLOCK_KUBE_APISERVER") or shutil.which("kube-apiserver")
KUBECTL = shutil.which("kubectl")
pytestmark = pytest.mark.skipif(PROGRAM is None or KUBECTL is None, reason="kube-apiserver or kubectl isn't here")
USERS = ("admin", "alice", "bob", "extension")
FLUNDERS = "wardle.example.com"
Tree = dict[str, Any]


class KubeAPIServer(ServerProcess):
    """kube-apiserver over an etcd; `USERS` log in with ``NAME-token``."""

    def __init__(self, folder: Path, etcd: EtcdServer) -> None:
        super().__init__(folder, "kube-apiserver")
        now = datetime.now(UTC)
        authority = new_authority(now)
        (folder / "pki").mkdir()
        (folder / "pki" / "ca.crt").write_bytes(authority.certificate_pem)
        (folder / "pki" / "ca.key").write_bytes(authority.key_pem)
        certificate, key = serving_files(folder, authority, "127.0.0.1", "localhost")
        shown = issue_client(folder / "pki", "front-proxy", (), now.timestamp())
        (folder / "proxy.crt").write_bytes(shown[0])
        (folder / "proxy.key").write_bytes(shown[1])
        signing = rsa.generate_private_key(65537, 2048)
        (folder / "sa.key").write_bytes(
            signing.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
        )
        rows = [f'{user}-token,{user},{user}-uid,"{"system:masters" if user == "admin" else ""}"' for user in USERS]
        (folder / "tokens.csv").write_text("\n".join([*rows, ""]))
        self.token = "admin-token"
        self.arguments = [
            *(f"--etcd-servers={etcd.client_url}", f"--etcd-prefix=/kube-{os.getpid()}-{self.port}"),
            *(f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}"),
            *(f"--token-auth-file={folder / 'tokens.csv'}", "--authorization-mode=RBAC"),
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={folder / 'sa.key'}",
            f"--service-account-key-file={folder / 'sa.key'}",
            "--service-cluster-ip-range=10.96.0.0/16",
            f"--proxy-client-cert-file={folder / 'proxy.crt'}",
            f"--proxy-client-key-file={folder / 'proxy.key'}",
            f"--requestheader-client-ca-file={folder / 'pki' / 'ca.crt'}",
            *("--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group"),
            *("--requestheader-extra-headers-prefix=X-Remote-Extra-", "--requestheader-allowed-names=front-proxy"),
        ]

    def login(self, user: str) -> Path:
        """The kubeconfig of one of `USERS`."""
        return kubeconfig(self, user)

    def _command(self) -> list[str]:
        assert PROGRAM is not None
        return [PROGRAM, "--bind-address=127.0.0.1", f"--secure-port={self.port}", *self.arguments]


class Behind(ServerProcess):
    """A server behind `front`, whose rules it applies; it is called `name` there."""

    def __init__(self, folder: Path, front: KubeAPIServer, example: str | Path, name: str) -> None:
        super().__init__(folder, example)
        self.name = name
        self.authority = new_authority(datetime.now(UTC))
        certificate, key = serving_files(folder, self.authority, f"{name}.default.svc")
        login = str(front.login("extension"))
        self.options = [
            *("--authentication-kubeconfig", login, "--authorization-kubeconfig", login, "--kubeconfig", login),
            *("--tls-cert-file", str(certificate), "--tls-private-key-file", str(key)),
        ]


def users_of(front: KubeAPIServer, home: Path) -> dict[str, Kubectl]:
    assert KUBECTL is not None
    return {user: Kubectl(KUBECTL, front.login(user), home) for user in USERS}


def available(admin: Kubectl, server: Behind, group: str, *versions: str) -> None:
    """Have the cluster send requests for `group` to `server`."""
    service = {"type": "ExternalName", "externalName": "localhost"}
    made: Tree = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": server.name, "namespace": "default"}}
    items = [made | {"spec": service}]
    for number, version in enumerate(versions, 1):
        spec = {
            "group": group,
            "version": version,
            "groupPriorityMinimum": 1000,
            "versionPriority": 5 * number,
            "service": {"namespace": "default", "name": server.name, "port": server.port},
            "caBundle": base64.b64encode(server.authority.certificate_pem).decode(),
        }
        head = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService"}
        items.append(head | {"metadata": {"name": f"{version}.{group}"}, "spec": spec})
    admin("apply", "-f", "-", stdin={"apiVersion": "v1", "kind": "List", "items": items})
    for version in versions:
        admin("wait", "--for=condition=Available", "--timeout=120s", f"apiservice/{version}.{group}")


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory, etcd_server: EtcdServer) -> Iterator[KubeAPIServer]:
    """A cluster in which `extension` has the rights that it needs."""
    with KubeAPIServer(tmp_path_factory.mktemp("kube") / "front", etcd_server) as started:
        assert isinstance(started, KubeAPIServer)
        admin = users_of(started, started.folder)["admin"]
        until(lambda: admin.run("get", "namespace", "default").code == 0)
        admin("apply", "-f", "-", stdin=of_extension())
        yield started


@pytest.fixture(scope="module")
def users(front: KubeAPIServer) -> Iterator[dict[str, Kubectl]]:
    """kubectl as each user, in front of wardle."""
    known = users_of(front, front.folder)
    admin = known["admin"]
    rules: Tree = {"apiGroups": [FLUNDERS], "resources": ["*"], "verbs": ["*"]}
    admin("apply", "-f", "-", stdin=roles("alice", rules))
    with Behind(front.folder.parent / "wardle", front, "wardle", "wardle") as wardle:
        assert isinstance(wardle, Behind)
        available(admin, wardle, FLUNDERS, "v1alpha1", "v1beta1")
        yield known


def flunder(name: str, namespace: str = "default") -> Tree:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": f"{FLUNDERS}/v1alpha1", "kind": "Flunder", "metadata": metadata, "spec": {}}


REGISTRATION = "admissionregistration.k8s.io/v1"
MATCHED = {"apiGroups": [FLUNDERS], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["flunders"]}
POLICY = {
    "apiVersion": "v1",
    "kind": "List",
    "items": [
        {
            "apiVersion": REGISTRATION,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "no-evil"},
            "spec": {
                "matchConstraints": {"resourceRules": [MATCHED]},
                "validations": [{"expression": "!object.metadata.name.startsWith('evil')"}],
            },
        },
        {
            "apiVersion": REGISTRATION,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": "no-evil"},
            "spec": {"policyName": "no-evil", "validationActions": ["Deny"]},
        },
    ],
}
WEBHOOK = {
    "apiVersion": REGISTRATION,
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "dead"},
    "webhooks": [
        {
            "name": "dead.example.com",
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [MATCHED],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "watched"}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
    ],
}


def create(kubectl: Kubectl, tree: Tree) -> None:
    kubectl("create", "--validate=false", "-f", "-", stdin=tree)


def refusal(kubectl: Kubectl, tree: Tree) -> str:
    return kubectl.fails("create", "--validate=false", "-f", "-", stdin=tree)


def test_users_have_the_rights_that_the_cluster_gives_them(users: dict[str, Kubectl]) -> None:
    create(users["alice"], flunder("of-alice"))
    assert "of-alice" in users["admin"]("get", "flunders").out
    assert "Forbidden" in users["bob"].fails("get", "flunders")
    users["alice"]("apply", "--server-side", "-f", "-", stdin=flunder("of-alice"))
    with users["alice"].running("get", "flunders", "--watch", "-o", "name") as watch:
        watch.line_with("of-alice")
        create(users["admin"], flunder("later"))
        watch.line_with("later")


def test_policies_and_webhooks_of_the_cluster_refuse(users: dict[str, Kubectl]) -> None:
    admin, alice = users["admin"], users["alice"]
    admin("create", "namespace", "watched")
    create(admin, POLICY)
    create(admin, WEBHOOK)
    dry = ("create", "--validate=false", "--dry-run=server", "-f", "-")
    denied = until(lambda: alice.run(*dry, stdin=flunder("evil")).err)
    assert "ValidatingAdmissionPolicy 'no-evil'" in denied
    called = until(lambda: alice.run(*dry, stdin=flunder("a", "watched")).err)
    assert "failed calling webhook" in called
    create(alice, flunder("good"))


def test_nothing_is_created_where_no_namespace_is_or_one_goes(users: dict[str, Kubectl]) -> None:
    admin, alice = users["admin"], users["alice"]
    assert 'namespaces "nowhere" not found' in refusal(alice, flunder("a", "nowhere"))
    admin("create", "namespace", "leaving")
    create(alice, flunder("before", "leaving"))
    admin("delete", "namespace", "leaving", "--wait=false")
    dry = ("create", "--validate=false", "--dry-run=server", "-f", "-")
    why = until(lambda: alice.run(*dry, stdin=flunder("late", "leaving")).err)
    assert "is being terminated" in why


HARBOUR = """
import sys

sys.path.insert(0, {folder!r})
from webhook_home import harbour

server = harbour()
"""


async def of_our_own() -> Tree:
    """What a server in memory answers."""
    async with InMemory(harbour()) as api:
        return await all_told(api)


def test_writes_end_as_in_our_own_server(front: KubeAPIServer) -> None:
    own = asyncio.run(of_our_own())
    admin = users_of(front, front.folder)["admin"]
    folder = front.folder.parent / "harbour"
    folder.mkdir()
    (folder / "server.py").write_text(HARBOUR.format(folder=str(Path(__file__).parents[1] / "support")))
    with Behind(folder, front, folder / "server.py", "harbour") as server:
        assert isinstance(server, Behind)
        available(admin, server, GROUP, "v1alpha1", "v1")
        client = HTTPClient(front.url, trusting(file=front.ca), "admin-token")
        until(lambda: client.post(WRECKS, WRECK).status in (201, 409))
        ship: Tree = {"apiVersion": f"{GROUP}/v1", "kind": "Berth", "metadata": {"name": "x"}}
        dry = f"/apis/{GROUP}/v1/namespaces/default/berths?dryRun=All"
        until(lambda: client.post(dry, ship | {"spec": {"ship": "titanic"}}).status == 403)
        through = all_told_over_http(client)
    assert {name: (own[name], through[name]) for name in own if own[name] != through[name]} == {}
