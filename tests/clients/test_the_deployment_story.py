"""The story of docs/deploying.md, with ``oarlock up`` as the cluster: image, manifests, a running pod, its users.

There is no node, so the pod is a process with what the manifests give it (`pod_process`): the image's own Python, a
read-only root, the pod's user, and the service account's files.
"""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from client_certificates import issue_client
from control_plane_process import ControlPlaneProcess
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from image_root import UnpackedImage, python_base, unpacked
from kubectl import Kubectl, NoKubectl, on_the_path
from loopback_endpoints import put_slice
from pod_process import ACCOUNT, PodProcess, no_pods
from server_process import ROOT, environment

from oarlock.client.clock import SystemClock
from oarlock.server.serving.certificates.issuing import CertificatePair, issue
from oarlock.server.serving.certificates.serving_pair import ensure_certificates
from oarlock.storage.url import open_backend

pytestmark = pytest.mark.slow

FLUNDERS = "/apis/wardle.example.com/v1beta1/namespaces/default/flunders"
VERSIONS = ("v1beta1.wardle.example.com", "v1alpha1.wardle.example.com")
FLUNDER = {"apiVersion": "wardle.example.com/v1beta1", "kind": "Flunder", "metadata": {"name": "a"}}
MANIFESTS = ("manifests", "examples/wardle/server.py", "--name", "wardle", "--namespace", "wardle", "--image", "w:1")
STORES = ("", "postgresql://u:p@db.example.com/x", "mysql://u:p@db.example.com/x", "etcd://a.example.com:2379")

Tree = dict[str, Any]


def oarlock(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "oarlock", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=120, check=False
    )


def told(*arguments: str) -> str:
    done = oarlock(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@dataclass
class Cluster:
    """``oarlock up``, and kubectl on it."""

    plane: ControlPlaneProcess
    kubectl: Kubectl

    def read(self, *what: str) -> Tree:
        found: Tree = json.loads(self.kubectl("get", *what, "-o", "json").out)
        return found

    def secret(self, name: str) -> dict[str, str]:
        found: dict[str, str] = self.read("secret", name, "--namespace", "wardle")["data"]
        return found

    def ask(self, path: str, token: str = "") -> int:
        """The status of a GET."""
        connection = self.connect()
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {token or self.plane.token}"})
            answer = connection.getresponse()
            answer.read()
            return answer.status
        finally:
            connection.close()

    def connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", self.plane.port, context=self.plane.tls(), timeout=60)

    def publish(self, port: int | None) -> None:
        """What the endpoint controller writes of a ready pod; None when there is none."""
        endpoints = [] if port is None else [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}]
        labels = {"kubernetes.io/service-name": "wardle"}
        tree = {
            "metadata": {"name": "wardle-1", "labels": labels},
            "addressType": "IPv4",
            "ports": [{"name": "https", "port": port or 8443, "protocol": "TCP"}],
            "endpoints": endpoints,
        }
        asyncio.run(self._store(tree))

    async def _store(self, tree: Tree) -> None:
        backend = open_backend(self.plane.storage, SystemClock())
        await backend.start()
        try:
            await put_slice(backend, "wardle", tree)
        finally:
            await backend.close()

    def available(self, status: str = "True") -> None:
        names = [f"apiservice/{one}" for one in VERSIONS]
        self.kubectl("wait", f"--for=condition=Available={status}", "--timeout=60s", *names)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    try:
        program = on_the_path()
    except NoKubectl as reason:
        pytest.skip(f"kubectl: {reason}")
    folder = tmp_path_factory.mktemp("cluster")
    plane = ControlPlaneProcess(folder, None, front_proxy(folder / "proxy"))
    with (folder / "tokens.csv").open("a") as tokens:
        tokens.write("alice-token,alice,alice-uid\nbob-token,bob,bob-uid\n")
    with plane:
        kubectl = Kubectl(program, plane.kubeconfig, tmp_path_factory.mktemp("home"))
        if kubectl.version < (1, 25):
            pytest.skip("strict validation needs kubectl 1.25")
        yield Cluster(plane, kubectl)


def front_proxy(folder: Path) -> tuple[str, ...]:
    """The options with which a control plane has a certificate that its backends believe."""
    now = time.time()
    ensure_certificates(folder, (), now)
    certificate, key = issue_client(folder, "front-proxy", (), now)
    (folder / "proxy.crt").write_bytes(certificate)
    (folder / "proxy.key").write_bytes(key)
    files = {"proxy-client-cert-file": "proxy.crt", "proxy-client-key-file": "proxy.key"}
    given = [f"--{flag}={folder / file}" for flag, file in files.items()]
    return (*given, f"--requestheader-client-ca-file={folder / 'ca.crt'}", "--requestheader-allowed-names=front-proxy")


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> UnpackedImage:
    why = no_pods()
    if why:
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("image")
    base = python_base(folder / "base")
    told("image", "examples/wardle/server.py", "--base", str(base), "-o", str(folder / "image.tar"))
    return unpacked(folder / "image.tar", folder / "root")


@pytest.fixture(scope="module")
def pods(cluster: Cluster) -> Iterator[list[PodProcess]]:
    """Those that tests have started."""
    running: list[PodProcess] = []
    yield running
    for one in running:
        one.kill()
    cluster.publish(None)


@pytest.fixture
def pod(cluster: Cluster, image: UnpackedImage, pods: list[PodProcess], tmp_path: Path) -> PodProcess:
    """The server as the manifests have it, applied and available; that of an earlier test if it still runs."""
    if pods and pods[-1].runs:
        answers(cluster, pods[-1])
        return pods[-1]
    cluster.kubectl("apply", "--server-side", "--validate=strict", "-f", "-", stdin=told(*MANIFESTS))
    pods.append(pod_of(cluster, image, tmp_path, "first"))
    started(cluster, pods[-1])
    return pods[-1]


def pod_of(cluster: Cluster, image: UnpackedImage, folder: Path, name: str) -> PodProcess:
    workload = cluster.read("statefulset", "wardle", "--namespace", "wardle")
    return PodProcess(folder / name, image, workload, (cluster.plane.url, cluster.plane.ca), folder / "claims")


def started(cluster: Cluster, pod: PodProcess) -> None:
    token = cluster.kubectl("create", "token", pod.spec["serviceAccountName"], "--namespace", "wardle").out.strip()
    pod.start(token, cluster.secret)
    answers(cluster, pod)


def answers(cluster: Cluster, pod: PodProcess) -> None:
    """Have the cluster ask this pod, and wait until it does."""
    cluster.publish(pod.port)
    cluster.available()
    until = time.monotonic() + 60
    while cluster.ask(FLUNDERS) != 200:  # what an earlier pod was available as is looked at again in time
        assert time.monotonic() < until, pod.log
        time.sleep(0.1)


def test_users_of_the_cluster_use_it_as_far_as_roles_let_them(cluster: Cluster, pod: PodProcess) -> None:
    kubectl = cluster.kubectl
    kubectl("apply", "-f", "-", stdin=FLUNDER)
    kubectl("create", "role", "readers", "--verb=get,list", "--resource=flunders.wardle.example.com")
    kubectl("create", "rolebinding", "alice", "--role=readers", "--user=alice")
    assert kubectl("get", "flunders", "-o", "name", "--token=alice-token").lines == ["flunder.wardle.example.com/a"]
    assert "cannot delete resource" in kubectl.fails("delete", "flunder", "a", "--token=alice-token")
    assert "cannot list resource" in kubectl.fails("get", "flunders", "--token=bob-token")
    assert kubectl("get", "fischers", "-o", "name").out == ""
    assert "flunders" in kubectl("api-resources", "--api-group=wardle.example.com").out
    assert "flunderReference" in kubectl("explain", "flunder.spec").out


def test_it_runs_as_nobody_with_a_root_that_nobody_can_write(cluster: Cluster, pod: PodProcess) -> None:
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pod.pid}/status").read_text().splitlines())
    assert status["Uid"].split() == status["Gid"].split() == [str(pod.user)] * 4
    assert pod.user != 0
    assert int(status["CapEff"], 16) == 0
    mounts = [line.split() for line in Path(f"/proc/{pod.pid}/mountinfo").read_text().splitlines()]
    assert next(one[5] for one in mounts if one[4] == "/").startswith("ro")
    assert f"/{ACCOUNT}" in {one[4] for one in mounts}


def test_probes_need_no_certificate_and_open_nothing_else(cluster: Cluster, pod: PodProcess) -> None:
    assert {name: pod.probe(name) for name in ("startupProbe", "livenessProbe", "readinessProbe")} == {
        "startupProbe": 200,
        "livenessProbe": 200,
        "readinessProbe": 200,
    }
    unverified = ssl._create_unverified_context()
    for path in ("/apis/wardle.example.com/v1beta1/flunders", "/metrics", "/version"):
        connection = http.client.HTTPSConnection("127.0.0.1", pod.port, context=unverified, timeout=30)
        connection.request("GET", path, headers={"X-Remote-User": "admin", "X-Remote-Group": "system:masters"})
        assert connection.getresponse().status == 401, path
        connection.close()


def test_a_comparison_finds_what_somebody_changed(cluster: Cluster, pod: PodProcess) -> None:
    check = (*MANIFESTS, "--check", "--kubeconfig", str(cluster.plane.kubeconfig))
    assert "without differences" in told(*check)
    edit = '{"spec": {"template": {"spec": {"containers": [{"name": "apiserver", "image": "w:2"}]}}}}'
    cluster.kubectl("patch", "statefulset", "wardle", "--namespace", "wardle", "-p", edit)
    cluster.kubectl("delete", "networkpolicy", "wardle", "--namespace", "wardle")
    done = oarlock(*check)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "StatefulSet wardle/wardle: spec.template.spec.containers[0].image: w:2, should be w:1",
        "NetworkPolicy wardle/wardle: missing",
    ]
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=told(*MANIFESTS))
    assert "without differences" in told(*check)


def test_the_server_renews_its_certificate_and_no_request_fails(cluster: Cluster, pod: PodProcess) -> None:
    held = {name: base64.b64decode(text) for name, text in cluster.secret("wardle-certificate").items()}
    authority = CertificatePair(
        x509.load_pem_x509_certificates(held["ca.crt"])[0],
        load_pem_private_key(held["ca.key"], None),  # type: ignore[arg-type]
    )
    old = issue(authority, ["wardle.wardle.svc"], datetime.now(UTC) - timedelta(days=80), 90)
    texts = {"tls.crt": old.certificate_pem, "tls.key": old.key_pem}
    data = {name: base64.b64encode(text).decode() for name, text in texts.items()}
    statuses: list[int] = []
    done = threading.Event()

    def ask() -> None:
        while not done.wait(0.05):
            statuses.append(cluster.ask(FLUNDERS))

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        patch = json.dumps({"data": data})
        cluster.kubectl("patch", "secret", "wardle-certificate", "--namespace", "wardle", "--type=merge", "-p", patch)
        until = time.monotonic() + 120
        while served(pod) in (held["tls.crt"], old.certificate_pem):
            assert time.monotonic() < until, pod.log
            time.sleep(0.5)
    finally:
        done.set()
        asking.join()
    assert set(statuses) == {200}
    renewed = {name: base64.b64decode(text) for name, text in cluster.secret("wardle-certificate").items()}
    assert served(pod) == renewed["tls.crt"]
    for name in VERSIONS:
        assert base64.b64decode(cluster.read("apiservice", name)["spec"]["caBundle"]) == renewed["ca.crt"]


def served(pod: PodProcess) -> bytes:
    """The certificate that the server shows."""
    return ssl.get_server_certificate(("127.0.0.1", pod.port), timeout=30).encode()


def test_it_leaves_in_order_and_the_next_one_has_its_objects(
    cluster: Cluster, pod: PodProcess, image: UnpackedImage
) -> None:
    cluster.kubectl("apply", "-f", "-", stdin=FLUNDER)
    watch = cluster.connect()
    watch.request("GET", f"{FLUNDERS}?watch=1", headers={"Authorization": f"Bearer {cluster.plane.token}"})
    events = watch.getresponse()
    assert json.loads(events.readline())["object"]["metadata"]["name"] == "a"
    pod.terminate()
    assert events.read() == b""  # its end, not a cut, which would raise IncompleteRead
    watch.close()
    assert pod.ended() == 0, pod.log
    cluster.publish(None)
    cluster.available("False")
    assert cluster.ask(FLUNDERS) == 503
    other = pod_of(cluster, image, pod.folder.parent, "second")
    try:
        started(cluster, other)
        assert cluster.kubectl("get", "flunders", "-o", "name").lines == ["flunder.wardle.example.com/a"]
    finally:
        other.terminate()
        assert other.ended() == 0
        cluster.publish(None)


def certificate_definitions() -> list[Tree]:
    """The fields of cert-manager's kinds that the manifests have; another is refused by strict validation."""
    text, texts = {"type": "string"}, {"type": "array", "items": {"type": "string"}}
    private: Tree = {"algorithm": text, "size": {"type": "integer"}, "rotationPolicy": text}
    fields: dict[str, Tree] = {
        "Issuer": {
            "selfSigned": {"type": "object"},
            "ca": {"type": "object", "properties": {"secretName": text}},
        },
        "Certificate": {
            "isCA": {"type": "boolean"},
            **dict.fromkeys(("commonName", "secretName", "duration"), text),
            **dict.fromkeys(("dnsNames", "usages"), texts),
            "privateKey": {"type": "object", "properties": private},
            "issuerRef": {"type": "object", "required": ["name"], "properties": {"kind": text, "name": text}},
        },
    }
    made = []
    for kind, properties in fields.items():
        names = {"kind": kind, "plural": f"{kind.lower()}s", "singular": kind.lower(), "listKind": f"{kind}List"}
        spec: Tree = {"type": "object", "properties": properties}
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
        version = {"name": "v1", "served": True, "storage": True, "schema": schema}
        made.append(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": f"{names['plural']}.cert-manager.io"},
                "spec": {"group": "cert-manager.io", "scope": "Namespaced", "names": names, "versions": [version]},
            }
        )
    return made


@pytest.fixture(scope="module")
def with_cert_manager(cluster: Cluster) -> Cluster:
    for definition in certificate_definitions():
        cluster.kubectl("apply", "-f", "-", stdin=definition)
        name = definition["metadata"]["name"]
        cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", f"crd/{name}")
    return cluster


@pytest.mark.parametrize(
    ("store", "certificates"),
    [
        pytest.param(store, certificates, marks=[pytest.mark.thorough] if store and certificates != "renewed" else [])
        for store in STORES
        for certificates in ("renewed", "generated", "cert-manager")
    ],
)
def test_every_object_passes_strict_validation(with_cert_manager: Cluster, certificates: str, store: str) -> None:
    given = ("--certificates", certificates, *(("--storage", store) if store else ()))
    text = told(*MANIFESTS, *given)
    # Namespaced objects need their namespace, also for an apply that stores nothing.
    with_cert_manager.kubectl("apply", "-f", "-", stdin=next(yaml.safe_load_all(text)))
    apply = ("apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", "-")
    lines = with_cert_manager.kubectl(*apply, stdin=text).lines
    assert len(lines) == len(list(yaml.safe_load_all(text)))
