"""Credentials that clients fetch themselves: tokens that are asked for, exec plugins, the login of an issuer."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import lightkube
import pytest
import trustme
import yaml
from database_process import free_port
from issuer_kit import ForeignKey
from kubectl import Kubectl
from kubernetes import client as k8s
from kubernetes import config as k8s_config
from lightkube.resources.authentication_v1 import SelfSubjectReview
from server_process import ControlPlaneProcess

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(720),
    pytest.mark.usefixtures("sockets_collected"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

PLUGIN = """#!/bin/sh
echo called >> {folder}/calls
token=$(cat {folder}/token)
[ $(wc -l < {folder}/calls) -le {bad} ] && token=not-yet
printf '{{"apiVersion":"{version}","kind":"ExecCredential","status":{{"token":"%s"}}}}' "$token"
"""


class Login:
    """An issuer over HTTPS; `token` signs for the audience ``app``."""

    def __init__(self) -> None:
        self.key = ForeignKey()
        self.ca = trustme.CA()
        self.url = f"https://127.0.0.1:{free_port()}"
        documents = {
            "/.well-known/openid-configuration": {"issuer": self.url, "jwks_uri": f"{self.url}/keys"},
            "/keys": {"keys": [self.key.jwk]},
        }

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = documents.get(self.path)
                self.send_response(404 if found is None else 200)
                self.end_headers()
                self.wfile.write(json.dumps(found).encode())

            def log_message(self, *unused: Any) -> None: ...

        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.ca.issue_cert("127.0.0.1").configure_cert(tls)
        self.server = ThreadingHTTPServer(("127.0.0.1", int(self.url.rpartition(":")[2])), Handler)
        self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def token(self, **claims: Any) -> str:
        return self.key.signed({"iss": self.url, "aud": "app", "exp": 4_000_000_000, **claims})

    def configuration(self) -> dict[str, Any]:
        mappings = {
            "username": {"expression": "'login:' + claims.sub"},
            "groups": {"claim": "groups", "prefix": "login:"},
            "extra": [{"key": "example.com/tenant", "valueExpression": "claims.tenant"}],
        }
        rules = [{"expression": "claims.tenant != 'closed'", "message": "closed"}]
        authority = self.ca.cert_pem.bytes().decode()
        issuer = {"url": self.url, "audiences": ["app"], "certificateAuthority": authority}
        return {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "AuthenticationConfiguration",
            "jwt": [{"issuer": issuer, "claimMappings": mappings, "claimValidationRules": rules}],
        }


@pytest.fixture(scope="module")
def login() -> Iterator[Login]:
    made = Login()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture(scope="module")
def plane(login: Login, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlaneProcess]:
    file = tmp_path_factory.mktemp("login") / "authentication.yaml"
    file.write_text(yaml.safe_dump(login.configuration()))
    options = ["--authentication-config", str(file)]
    with ControlPlaneProcess(tmp_path_factory.mktemp("plane"), "memory://", options) as server:
        yield server


@pytest.fixture(scope="module")
def kubectl(go_programs: Path, plane: ControlPlaneProcess, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    return Kubectl(str(go_programs / "kubectl"), plane.kubeconfig, tmp_path_factory.mktemp("home"))


Kubeconfig = Callable[..., Path]


@pytest.fixture
def kubeconfig(plane: ControlPlaneProcess, tmp_path: Path) -> Kubeconfig:
    """Makes a kubeconfig whose user is `user`."""

    def make(**user: Any) -> Path:
        tree = yaml.safe_load(plane.kubeconfig.read_text())
        tree["users"][0]["user"] = user
        file = tmp_path / "kubeconfig"
        file.write_text(yaml.safe_dump(tree))
        return file

    return make


@pytest.fixture
def plugin(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Makes an exec plugin that gives `token`, after `bad` others."""

    def make(token: str, bad: int = 0, version: str = "v1") -> dict[str, Any]:
        (tmp_path / "token").write_text(token)
        program = tmp_path / "plugin"
        api_version = f"client.authentication.k8s.io/{version}"
        program.write_text(PLUGIN.format(folder=tmp_path, bad=bad, version=api_version))
        program.chmod(0o755)
        return {"apiVersion": api_version, "command": str(program), "interactiveMode": "Never"}

    return make


def python_clients(kubeconfig: Path) -> Iterator[dict[str, Any]]:
    """Who the user of a kubeconfig is, as the Python clients are told. lightkube knows v1beta1 of plugins only."""
    configuration = k8s.Configuration()
    k8s_config.load_kube_config(str(kubeconfig), client_configuration=configuration)
    with k8s.ApiClient(configuration) as client:
        made = k8s.AuthenticationV1Api(client).create_self_subject_review(k8s.V1SelfSubjectReview())
        yield {"username": made.status.user_info.username, "groups": made.status.user_info.groups}
    config = lightkube.KubeConfig.from_file(str(kubeconfig))
    with lightkube.Client(config) as other:  # type: ignore[attr-defined]
        found = other.create(SelfSubjectReview()).status.userInfo
        yield {"username": found.username, "groups": found.groups}


ROBOT = "system:serviceaccount:default:robot"


def test_a_token_that_kubectl_asks_for(kubectl: Kubectl, kubeconfig: Kubeconfig, plugin: Any) -> None:
    kubectl("create", "sa", "robot", "-n", "default")
    token = kubectl("create", "token", "robot", "-n", "default", "--duration=20m").out.strip()
    without = str(kubeconfig(token=token))
    who = kubectl("auth", "whoami", "--kubeconfig", without).rows
    assert ["Username", ROBOT] in who
    assert any("system:serviceaccounts:default" in " ".join(row) for row in who)
    for told in python_clients(kubeconfig(token=token)):
        assert told["username"] == ROBOT
    for told in python_clients(kubeconfig(exec=plugin(token, version="v1beta1"))):
        assert told["username"] == ROBOT
    assert "cannot list resource" in kubectl.fails("get", "cm", "-n", "default", "--kubeconfig", without)
    bad = str(kubeconfig(token=token[:-8] + "AAAAAAAA"))
    assert "must be logged in" in kubectl.fails("auth", "whoami", "--kubeconfig", bad)
    kubectl("delete", "sa", "robot", "-n", "default")
    without = str(kubeconfig(token=token))
    assert "must be logged in" in kubectl.fails("auth", "whoami", "--kubeconfig", without)


def test_a_login_of_an_issuer(kubectl: Kubectl, kubeconfig: Kubeconfig, login: Login, plugin: Any) -> None:
    token = login.token(sub="ann", groups=["devs"], tenant="t-1")
    who = kubectl("auth", "whoami", "--kubeconfig", str(kubeconfig(token=token))).rows
    assert ["Username", "login:ann"] in who
    assert ["Extra: example.com/tenant", "[t-1]"] in who
    groups = ["login:devs", "system:authenticated"]
    for told in python_clients(kubeconfig(exec=plugin(token, version="v1beta1"))):
        assert told == {"username": "login:ann", "groups": groups}
    for refused in (login.token(sub="ann", tenant="closed"), login.token(sub="ann"), login.token(tenant="t-1")):
        bad = str(kubeconfig(token=refused))
        assert "must be logged in" in kubectl.fails("auth", "whoami", "--kubeconfig", bad)
    reviewed = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    made = json.loads(kubectl("create", "-f", "-", "-o", "json", stdin=reviewed).out)
    assert made["status"]["user"]["username"] == "login:ann"


def test_client_go_asks_its_plugin_again_after_401(
    kubectl: Kubectl, kubeconfig: Kubeconfig, login: Login, plugin: Any, tmp_path: Path
) -> None:
    file = str(kubeconfig(exec=plugin(login.token(sub="eve", tenant="t-1"), bad=1)))
    kubectl.run("auth", "whoami", "--kubeconfig", file)
    assert ["Username", "login:eve"] in kubectl("auth", "whoami", "--kubeconfig", file).rows
    assert len((tmp_path / "calls").read_text().split()) >= 2
