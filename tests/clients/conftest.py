"""Servers and clients: each example runs once for all tests here, each test has a namespace of its own.

``kubectl`` runs a test with each kubectl there is: the one on the PATH, Debian's 1.20, and those OARLOCK_KUBECTL
names (paths, joined like PATH). ``@pytest.mark.kubectl("1.24")`` says which version a test needs.
"""

from __future__ import annotations

import gc
import json
import os
import re
import ssl
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kubectl import DEBIANS, Kubectl, NoKubectl, debians, on_the_path
from server_process import ServerProcess

ON_THE_PATH, DEBIAN = "the one on the PATH", "Debian's 1.20"


@pytest.fixture(scope="session")
def hello(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("hello"), "hello", "memory://") as server:
        yield server


@pytest.fixture(scope="session")
def wardle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("wardle"), "wardle") as server:
        yield server


@pytest.fixture(scope="session")
def moorings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    program = Path(__file__).parent / "moorings" / "server.py"
    with ServerProcess(tmp_path_factory.mktemp("moorings"), program, "memory://") as server:
        yield server


@pytest.fixture
def restartable(tmp_path: Path) -> Iterator[ServerProcess]:
    """A hello server of the test's own, on SQLite, which the test may kill and start again."""
    with ServerProcess(tmp_path / "server", "hello") as server:
        yield server


@pytest.fixture
def sockets_collected() -> Iterator[None]:
    """Sockets that a client leaves to the garbage collector are gone before another test is blamed for them."""
    yield
    gc.collect()


@pytest.fixture
def namespace(request: pytest.FixtureRequest) -> str:
    """A namespace no other test uses."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")
    return name if len(name) <= 63 else f"{name[:54]}-{zlib.crc32(name.encode()):08x}"


@dataclass(frozen=True)
class API:
    """The plainest client: one request, one JSON answer."""

    server: ServerProcess
    tls: ssl.SSLContext

    def __call__(self, method: str, path: str, body: object = None, content: str = "application/json") -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.server.token}", "Content-Type": content}
        request = urllib.request.Request(self.server.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self.tls, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()}") from None

    def merge(self, path: str, patch: object) -> Any:
        return self("PATCH", path, patch, "application/merge-patch+json")


@pytest.fixture(scope="session")
def api() -> Callable[[ServerProcess], API]:
    return lambda server: API(server, server.tls())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "which_kubectl" in metafunc.fixturenames:
        others = [path for path in os.environ.get("OARLOCK_KUBECTL", "").split(os.pathsep) if path]
        kinds = [ON_THE_PATH, DEBIAN, *others]
        names = ["path", "debian", *(Path(path).name for path in others)]
        metafunc.parametrize("which_kubectl", kinds, ids=names, indirect=True, scope="session")


@pytest.fixture(scope="session")
def kubectls() -> dict[str, str | NoKubectl]:
    """What was found of each kind, or why it wasn't; looked for once."""
    return {}


@pytest.fixture(scope="session")
def which_kubectl(request: pytest.FixtureRequest, kubectls: dict[str, str | NoKubectl]) -> str:
    kind: str = request.param
    if kind not in kubectls:
        try:
            kubectls[kind] = _find(kind)
        except NoKubectl as reason:
            kubectls[kind] = reason
    found = kubectls[kind]
    if isinstance(found, NoKubectl):
        pytest.skip(f"kubectl, {kind}: {found}")
    return found


def _find(kind: str) -> str:
    if kind == ON_THE_PATH:
        return on_the_path()
    if kind == DEBIAN:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "oarlock-tests" / "kubectl-1.20"
        return debians(cache)
    return kind


@pytest.fixture(scope="session")
def kubectl_of_hello(which_kubectl: str, hello: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    return _checked(Kubectl(which_kubectl, hello.kubeconfig, tmp_path_factory.mktemp("home")))


@pytest.fixture(scope="session")
def kubectl_of_wardle(which_kubectl: str, wardle: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    return _checked(Kubectl(which_kubectl, wardle.kubeconfig, tmp_path_factory.mktemp("home")))


def _checked(kubectl: Kubectl) -> Kubectl:
    if kubectl.version < DEBIANS:
        pytest.skip(f"kubectl {kubectl.version} is older than what the tests are written for")
    return kubectl


@pytest.fixture
def kubectl(request: pytest.FixtureRequest, kubectl_of_hello: Kubectl) -> Kubectl:
    """kubectl on the hello server, in a version the test's marker asks for."""
    return _new_enough(request, kubectl_of_hello)


@pytest.fixture
def wardle_kubectl(request: pytest.FixtureRequest, kubectl_of_wardle: Kubectl) -> Kubectl:
    """The same on the wardle server."""
    return _new_enough(request, kubectl_of_wardle)


def _new_enough(request: pytest.FixtureRequest, kubectl: Kubectl) -> Kubectl:
    marker = request.node.get_closest_marker("kubectl")
    assert marker is not None, "say which version of kubectl the test needs: @pytest.mark.kubectl('1.20')"
    needed = tuple(int(part) for part in marker.args[0].split("."))
    if kubectl.version < needed:
        major, minor = kubectl.version
        pytest.skip(f"needs kubectl {marker.args[0]}, and this is {major}.{minor}")
    return kubectl
