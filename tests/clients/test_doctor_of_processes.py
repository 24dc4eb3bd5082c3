"""``oarlock doctor`` against real processes that are broken in one way each: ``oarlock up``, and wardle behind it.

The objects of the cluster are what a person or a kubelet would have written. Requests go to wardle, or to a server with
another certificate, by the annotation ``oarlock.dev/url``; without one the Service is looked at.
"""

from __future__ import annotations

import base64
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aggregated_servers import Front, Wardle, of_extension, serving_files
from database_process import free_port
from until import until

from oarlock.cli import main
from oarlock.net.trust import trusting
from oarlock.server.serving.certificates.issuing import CertificatePair, issue, new_authority
from oarlock.testing.client import HTTPClient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

Tree = dict[str, Any]
GROUP = "wardle.example.com"
HOST = "shop.shop.svc"
LABELS = {"app": "shop"}
MOMENT = datetime.fromtimestamp(time.time(), UTC)  # a handshake looks at the machine's clock
OLD = new_authority(datetime(2010, 1, 1, tzinfo=UTC))
RBAC = "rbac.authorization.k8s.io"
ACCOUNT = {"kind": "ServiceAccount", "namespace": "shop", "name": "shop"}
LOOKS = ["get", "list", "watch"]
RULES: list[Tree] = [
    {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": LOOKS},
    {"apiGroups": ["flowcontrol.apiserver.k8s.io"], "resources": ["*"], "verbs": LOOKS},
    {"apiGroups": [""], "resources": ["namespaces", "resourcequotas"], "verbs": LOOKS},
    {"apiGroups": [""], "resources": ["resourcequotas/status"], "verbs": ["update"]},
]
CONFIG_MAP = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"


def b64(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


def tree(api_version: str, kind: str, name: str, namespace: str = "", **rest: Any) -> Tree:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **rest.pop("metadata", {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def bound(kind: str, name: str, namespace: str = "") -> tuple[str, Tree]:
    """A role that the account of the server has, and where it goes."""
    ref = {"apiGroup": RBAC, "kind": kind.removesuffix("Binding"), "name": name}
    where = f"namespaces/{namespace}/" if namespace else ""
    made = tree(f"{RBAC}/v1", kind, f"of-{name}", namespace, roleRef=ref, subjects=[ACCOUNT])
    return f"/apis/{RBAC}/v1/{where}{kind.lower()}s", made


def rights(*, delegates: bool = True, reads: bool = True, rules: list[Tree] = RULES) -> list[tuple[str, Tree]]:
    """What the account of the server may do."""
    made = [
        (f"/apis/{RBAC}/v1/clusterroles", tree(f"{RBAC}/v1", "ClusterRole", "rules", rules=rules)),
        bound("ClusterRoleBinding", "rules"),
    ]
    if delegates:
        made.append(bound("ClusterRoleBinding", "system:auth-delegator"))
    if reads:
        made.append(bound("RoleBinding", "extension-apiserver-authentication-reader", "kube-system"))
    return made


READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
WAITING = {"containerStatuses": [{"name": "a", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}
"""As a kubelet writes it, without what a Pod must have besides."""
for status in WAITING["containerStatuses"]:
    status |= {"image": "shop:1", "imageID": "", "ready": False, "restartCount": 0}
SERVICE = {"clusterIP": "None", "selector": LABELS, "ports": [{"name": "https", "port": 443}]}
UNREADY = {"addresses": ["192.0.2.1"], "conditions": {"ready": False}}


def by_service(**change: Any) -> Tree:
    """Objects that are right but for `change`; None is for one that isn't there."""
    return {"service": SERVICE, "endpoints": [UNREADY], "pod": READY, "rights": rights(), **change}


def by_url(url: str = "", **change: Any) -> Tree:
    """A backend at `url`, the extension server unless given, that is right but for `change`."""
    return {"url": url or "extension", **change}


def trusts(text: str | None) -> Tree:
    """What the cluster says of its front proxy."""
    return by_url(trust={"requestheader-client-ca-file": text})


FOREIGN = new_authority(MOMENT)
REFUSED = "isn't accepted for shop.shop.svc"
BROKEN: dict[str, tuple[Tree, str]] = {
    "no Service": (by_service(service=None), "Service shop/shop: doesn't exist"),
    "its port": (
        by_service(service=SERVICE | {"ports": [{"name": "https", "port": 80}]}),
        "Service shop/shop: has no port 443; it has 80",
    ),
    "no endpoints": (by_service(endpoints=None), "Endpoints: there are none"),
    "not ready": (by_service(), "Endpoints: 1 not ready"),
    "no Pod": (by_service(pod=None), "Pods: none has the labels app=shop"),
    "no image": (by_service(pod=WAITING), "Pod shop-1: container a: ImagePullBackOff"),
    "no node": (by_service(pod={"phase": "Pending"}), "Pod shop-1: isn't ready: phase Pending"),
    "no delegation": (
        by_service(rights=rights(delegates=False)),
        "ServiceAccount shop/shop: may not create TokenReviews",
    ),
    "no ConfigMap": (
        by_service(rights=rights(reads=False)),
        "may not read the ConfigMap kube-system/extension-apiserver-authentication",
    ),
    "no policies": (
        by_service(rights=rights(rules=RULES[1:])),
        "may not watch validatingadmissionpolicies, so that nothing can be written",
    ),
    "no quotas": (
        by_service(rights=rights(rules=RULES[:3])),
        "may not update resourcequotas/status, so that nothing can be written",
    ),
    "no flow schemas": (
        by_service(rights=rights(rules=[RULES[0], *RULES[2:]])),
        "may not watch flowschemas, so that the built-in ones divide its requests",
    ),
    "no bundle": (by_url(bundle=None), "caBundle: is empty"),
    "no PEM": (by_url(bundle=b64(b"x")), "caBundle: contains no certificate"),
    "an expired bundle": (by_url(bundle=b64(OLD.certificate_pem)), "caBundle: expired on 2019"),
    "an authority": (by_url(bundle=b64(FOREIGN.certificate_pem)), f"{REFUSED}: "),
    "nothing listens": (by_url("nobody"), "nothing listens there"),
    "another server": (by_url(version="v9"), "another server answers behind the Service"),
    "a name": (by_url("name"), "it is for other: serve a certificate that caBundle signed"),
    "an expired certificate": (by_url("expired"), "x509: certificate has expired or is not yet valid"),
    "an old certificate": (by_url("old"), "is for shop.shop.svc, for 3"),
    "no TLS": (by_url("plain"), f"{REFUSED}: it doesn't speak TLS"),
    "an address": (by_url("http://127.0.0.1:1"), "'http://127.0.0.1:1' must be https://HOST:PORT"),
    "no answer": (by_url("silent", version="v2"), "NetworkPolicy"),
    "another front proxy": (trusts(FOREIGN.certificate_pem.decode()), "doesn't trust the cluster's front proxy"),
    "no front proxy": (trusts(None), "has no requestheader-client-ca-file"),
    "a broken front proxy": (trusts("x"), "requestheader-client-ca-file contains no certificate"),
    "an old front proxy": (trusts(OLD.certificate_pem.decode()), "requestheader-client-ca-file has expired"),
}


class Backend:
    """A server that answers each connection with one text, or with none, over TLS unless there is no certificate."""

    def __init__(self, pair: CertificatePair | None, folder: Path, answer: bytes = b"") -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        self._answer = answer
        self._tls: ssl.SSLContext | None = None
        self._held: list[socket.socket] = []
        if pair is not None:
            file = folder / f"{self.url.rpartition(':')[2]}.pem"
            file.write_bytes(pair.certificate_pem + pair.key_pem)
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._tls.load_cert_chain(file)
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for connection in self._held:
            connection.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.settimeout(10)
            try:
                if self._tls is not None:
                    connection = self._tls.wrap_socket(connection, server_side=True)
                connection.sendall(self._answer)
            except OSError:  # the client left, as after a certificate that it doesn't accept
                connection.close()
            else:
                self._held.append(connection)


def pod_with(state: Tree) -> Tree:
    args = state.get("args", ["--kubeconfig=in-cluster"])
    return {"containers": [{"name": "a", "image": "shop:1", "args": args}], "serviceAccountName": "shop"}


class Broken:
    """A control plane, a server behind it, and what breaks one or the other."""

    def __init__(self, front: Front, extension: Wardle, urls: dict[str, str]) -> None:
        self.front = front
        self.extension = extension
        self.urls = urls
        self.api = HTTPClient(front.url, trusting(file=front.ca), "admin-token")

    def name(self, state: Tree) -> str:
        return f"{state.get('version', 'v1alpha1')}.{GROUP}"

    @contextmanager
    def made(self, state: Tree) -> Iterator[None]:
        """Have the cluster look so, and as before afterwards."""
        with ExitStack() as undone:
            for path, wanted in self._objects(state):
                answer = self.api.post(path, wanted)
                assert answer.status == 201, answer.json
                undone.callback(self.api.delete, f"{path}/{wanted['metadata']['name']}")
                if wanted["kind"] == "Pod":
                    told = self.api.patch(f"{path}/shop-1/status", {"status": state["pod"]})
                    assert told.status == 200, told.json
            if "trust" in state:
                before = self.api.get(CONFIG_MAP).json["data"]
                undone.callback(self.api.patch, CONFIG_MAP, {"data": before})
                assert self.api.patch(CONFIG_MAP, {"data": state["trust"]}).status == 200
            yield

    def told(self, name: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
        """The exit code of the command, and what it prints."""
        capsys.readouterr()
        login = str(self.front.login("admin"))
        with pytest.raises(SystemExit) as ended:
            main(["doctor", name, "--kubeconfig", login])
        return int(str(ended.value.code or 0)), capsys.readouterr().out

    def look_again(self, name: str) -> None:
        """Have the aggregator look at a backend now, as a change of its APIService does."""
        path = f"/apis/apiregistration.k8s.io/v1/apiservices/{name}"
        self.api.patch(path, {"metadata": {"annotations": {"looked": str(time.monotonic())}}})

    def _objects(self, state: Tree) -> Iterator[tuple[str, Tree]]:
        namespaced = "/api/v1/namespaces/shop"
        if state.get("service"):
            yield f"{namespaced}/services", tree("v1", "Service", "shop", "shop", spec=state["service"])
        if state.get("endpoints"):
            labels = {"labels": {"kubernetes.io/service-name": "shop"}}
            rest = {"addressType": "IPv4", "ports": [{"name": "https", "port": 443}], "endpoints": state["endpoints"]}
            yield (
                "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices",
                tree("discovery.k8s.io/v1", "EndpointSlice", "shop-x", "shop", metadata=labels, **rest),
            )
        if state.get("pod"):
            labels = {"labels": LABELS}
            yield f"{namespaced}/pods", tree("v1", "Pod", "shop-1", "shop", metadata=labels, spec=pod_with(state))
        yield from state.get("rights", ())
        url = state.get("url", "")
        annotations = {"annotations": {"oarlock.dev/url": self.urls.get(url, url)}} if url else {}
        spec = {
            "group": GROUP,
            "version": self.name(state).partition(".")[0],
            "groupPriorityMinimum": 1000,
            "versionPriority": 15,
            "service": {"namespace": "shop", "name": "shop", "port": 443},
            "caBundle": state.get("bundle", b64(self.extension.authority.certificate_pem)),
        }
        metadata = {"metadata": annotations}
        yield (
            "/apis/apiregistration.k8s.io/v1/apiservices",
            tree("apiregistration.k8s.io/v1", "APIService", self.name(state), spec=spec, **metadata),
        )


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broken]:
    folder = tmp_path_factory.mktemp("shop")
    with ExitStack() as stack:
        front = Front(folder / "front")
        stack.enter_context(front)
        api = HTTPClient(front.url, trusting(file=front.ca), "admin-token")
        for one in of_extension()["items"]:
            kind, where = one["kind"].lower(), one["metadata"].get("namespace")
            prefix = f"namespaces/{where}/" if where else ""
            assert api.post(f"/apis/{one['apiVersion']}/{prefix}{kind}s", one).status == 201
        assert api.post("/api/v1/namespaces", tree("v1", "Namespace", "shop")).status == 201
        api.post("/api/v1/namespaces/shop/serviceaccounts", tree("v1", "ServiceAccount", "shop", "shop"))
        extension = Wardle(folder / "wardle", front, "shop")
        serving_files(extension.folder, extension.authority, HOST)
        stack.enter_context(extension)
        urls = {"extension": extension.url, "nobody": f"https://127.0.0.1:{free_port()}"}
        authority = extension.authority
        long_ago = datetime(2010, 1, 1, tzinfo=UTC)
        for name, pair, answer in (
            ("name", issue(authority, ["other"], MOMENT), b""),
            ("expired", issue(authority, [HOST], long_ago), b""),
            ("old", issue(authority, [HOST], MOMENT, 4), b""),
            ("plain", None, b"HTTP/1.1 400 Bad Request\r\n\r\n"),
            ("silent", issue(authority, [HOST], MOMENT), b""),
        ):
            backend = Backend(pair, folder, answer)
            stack.callback(backend.close)
            urls[name] = backend.url
        yield Broken(front, extension, urls)


def test_what_is_well_is_said_to_be(broken: Broken, capsys: pytest.CaptureFixture[str]) -> None:
    state = by_url()
    name = broken.name(state)
    with broken.made(state):
        _, text = until(lambda: (told := broken.told(name, capsys))[0] == 0 and told)
    lines = [line.split(maxsplit=1) for line in text.splitlines()[1:]]
    assert {first for first, _ in lines} == {"ok"}
    assert f"GET /apis/{GROUP}/v1alpha1: is answered" in [rest for _, rest in lines]
    assert any(rest.startswith(f"Certificate of 127.0.0.1:{broken.extension.port}: is for {HOST}") for _, rest in lines)


@pytest.mark.parametrize("what", BROKEN)
def test_what_is_broken_is_named_with_advice(what: str, broken: Broken, capsys: pytest.CaptureFixture[str]) -> None:
    state, sentence = BROKEN[what]
    name = broken.name(state)

    def said() -> str:
        code, text = broken.told(name, capsys)
        if sentence in text:
            assert code == 1
            return text
        broken.look_again(name)
        return ""

    with broken.made(state):
        text = until(said)
    lines = text.splitlines()
    at = next(number for number, line in enumerate(lines) if sentence in line)
    assert lines[at].startswith(("  BAD ", "      → "))
    assert any(line.startswith("      → ") for line in lines[at : at + 2])
    assert lines[-1].startswith("  fix first: ")


@pytest.mark.parametrize(
    ("args", "looked_at"),
    [
        (["--kubeconfig=in-cluster", "--disable-admission-plugins=ValidatingAdmissionPolicy"], ["flowschemas"]),
        (["--kubeconfig=in-cluster", "--enable-priority-and-fairness=false"], ["validatingadmissionpolicies"]),
        ([], []),
    ],
    ids=["a plugin is off", "fairness is off", "no cluster"],
)
def test_only_rights_that_the_server_uses_are_looked_at(
    args: list[str], looked_at: list[str], broken: Broken, capsys: pytest.CaptureFixture[str]
) -> None:
    state = by_service(rights=rights(rules=[]), args=args)
    with broken.made(state):
        text = broken.told(broken.name(state), capsys)[1]
    assert "may not create TokenReviews" not in text
    told_of = [one for one in ("flowschemas", "validatingadmissionpolicies") if f"may not watch {one}" in text]
    assert told_of == looked_at


def test_an_api_service_that_isnt_there_is_told(broken: Broken, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "v9.none.example.com", "--kubeconfig", str(broken.front.login("admin"))])
    assert ended.value.code
    assert "no APIService v9.none.example.com" in capsys.readouterr().err


def test_the_page_says_what_is_said_here_of_each_breakage() -> None:
    page_text = (Path(__file__).parents[2] / "docs" / "deploying.md").read_text()
    rows = page_text[page_text.index("| what is broken |") :].partition("\n\n")[0].splitlines()[2:]
    sentences = [row.rstrip(" |").rpartition("| `")[2].rstrip("`") for row in rows]
    assert len(sentences) > 20
    tested = [sentence for _, sentence in BROKEN.values()]
    assert [one for one in sentences if not any(one in sentence for sentence in tested)] == []
