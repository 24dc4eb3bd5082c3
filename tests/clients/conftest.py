"""Servers and clients: each example runs once for all tests here, each test has a namespace of its own.

``kubectl`` runs a test with each kubectl there is: the one on the PATH, Debian's 1.20, and those OARLOCK_KUBECTL
names (paths, joined like PATH). ``@pytest.mark.kubectl("1.24")`` says which version a test needs. Debian's runs all of
them in a thorough run only, else those that ``@pytest.mark.also_the_oldest`` marks.
"""

from __future__ import annotations

import functools
import gc
import json
import os
import re
import shutil
import ssl
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from control_plane_process import ControlPlaneProcess
from go_programs import H2SPEC, NoGoModules, built
from kubectl import DEBIANS, Kubectl, NoKubectl, debians, is_debians, on_the_path
from leaving_out import leave_out
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


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A control plane. Tests change nothing in it that others rely on."""
    with ControlPlaneProcess(tmp_path_factory.mktemp("plane"), "memory://") as server:
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
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
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
        kinds: dict[str, Any] = {"path": ON_THE_PATH, "debian": DEBIAN, **{Path(path).name: path for path in others}}
        if needed_version(metafunc.definition) > DEBIANS:
            del kinds["debian"]
        if not metafunc.definition.get_closest_marker("also_the_oldest") and "debian" in kinds:
            kinds["debian"] = pytest.param(DEBIAN, marks=pytest.mark.thorough)
        metafunc.parametrize("which_kubectl", [*kinds.values()], ids=[*kinds], indirect=True, scope="session")


def needed_version(item: pytest.Item) -> tuple[int, ...]:
    """The oldest kubectl that a test is for."""
    marker = item.get_closest_marker("kubectl")
    return tuple(int(part) for part in marker.args[0].split(".")) if marker is not None else DEBIANS


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    leave_out(config, items, _missing)


def _missing(item: pytest.Item) -> str | None:
    fixtures = getattr(item, "fixturenames", ())
    if "helm_program" in fixtures and helm() is None:
        return "no helm on the PATH, and OARLOCK_HELM names none"
    if "go_program" in fixtures and go() is None:
        return "no go on the PATH"
    callspec = getattr(item, "callspec", None)
    if callspec is None or "which_kubectl" not in callspec.params:
        return None
    kind = callspec.params["which_kubectl"]
    found = find_kubectl(kind)
    if isinstance(found, NoKubectl):
        return f"kubectl, {kind}: {found}"
    if kind == ON_THE_PATH and needed_version(item) > DEBIANS and is_debians(found):
        return f"the kubectl on the PATH is {'.'.join(map(str, DEBIANS))}, and a later one is needed"
    return None


@functools.cache
def find_kubectl(kind: str) -> str | NoKubectl:
    """The path of a kubectl, or why there is none; looked for once."""
    try:
        if kind == ON_THE_PATH:
            return on_the_path()
        if kind == DEBIAN:
            return debians(own_cache() / "kubectl-1.20")
    except NoKubectl as reason:
        return reason
    return kind


def own_cache() -> Path:
    """Where programs that tests use are kept from one run to the next."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "oarlock-tests"


def helm() -> str | None:
    return os.environ.get("OARLOCK_HELM") or shutil.which("helm")


def go() -> str | None:
    return shutil.which("go")


@pytest.fixture(scope="session")
def helm_program() -> str | None:
    return helm()


@pytest.fixture(scope="session")
def go_program() -> str | None:
    return go()


@pytest.fixture(scope="session")
def go_programs(go_program: str) -> Path:
    """The folder with the programs of client-go/, built; skipped where Go's modules can't be had."""
    try:
        return built(go_program, own_cache())
    except NoGoModules as reason:
        pytest.skip(f"the modules of client-go can't be had: {reason}")


@pytest.fixture(scope="session")
def h2spec(go_program: str) -> Path:
    """The program of that name, built; skipped where its modules can't be had."""
    try:
        return built(go_program, own_cache(), H2SPEC) / "h2spec"
    except NoGoModules as reason:
        pytest.skip(f"the modules of h2spec can't be had: {reason}")


@pytest.fixture(scope="session")
def clients(go_programs: Path) -> Path:
    """The program that uses client-go."""
    return go_programs / "clients"


@pytest.fixture(scope="session")
def which_kubectl(request: pytest.FixtureRequest) -> str | NoKubectl:
    return find_kubectl(request.param)


KubectlAt = Callable[[ServerProcess], Kubectl]


@pytest.fixture(scope="session")
def any_kubectl_at(which_kubectl: str, tmp_path_factory: pytest.TempPathFactory) -> KubectlAt:
    """kubectl on a server; what it has discovered there is kept for the tests that follow."""

    @functools.cache
    def make(kubeconfig: Path) -> Kubectl:
        return Kubectl(which_kubectl, kubeconfig, tmp_path_factory.mktemp("home"))

    return lambda server: make(server.kubeconfig)


@pytest.fixture
def kubectl_at(request: pytest.FixtureRequest, any_kubectl_at: KubectlAt) -> KubectlAt:
    """The same, in a version that the test's marker asks for."""

    def make(server: ServerProcess) -> Kubectl:
        kubectl = any_kubectl_at(server)
        needed = needed_version(request.node)
        if kubectl.version < needed:
            major, minor = kubectl.version
            pytest.skip(f"needs kubectl {'.'.join(map(str, needed))}, and this is {major}.{minor}")
        return kubectl

    return make


@pytest.fixture
def kubectl(kubectl_at: KubectlAt, hello: ServerProcess) -> Kubectl:
    """kubectl on the hello server."""
    return kubectl_at(hello)


@pytest.fixture
def wardle_kubectl(kubectl_at: KubectlAt, wardle: ServerProcess) -> Kubectl:
    """The same on the wardle server."""
    return kubectl_at(wardle)
