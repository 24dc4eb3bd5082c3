"""The pytest plugin: fixtures `oarlock_app`, `client` (also `oarlock_client`), `oarlock_faults`, `oarlock_server`,
`oarlock_kubeconfig`.

pytest loads it wherever oarlock is installed (entry point ``pytest11``), so it imports nothing of oarlock until a
fixture is used. ``-p no:oarlock.testing.plugin`` keeps it out.
See also: `client` and `thread`, which the fixtures are made of.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from oarlock import testing

if TYPE_CHECKING:
    from pathlib import Path

    from oarlock.apps.api_server import APIServer
    from oarlock.testing.client import TestClient
    from oarlock.testing.faults import RequestFaults
    from oarlock.testing.thread import ServerThread

MARKER = "oarlock_app"
HOW = """\
which server? Say it in conftest.py:

    @pytest.fixture
    def oarlock_app():
        return server  # your APIServer

or for one test, class or module: @pytest.mark.oarlock_app(server)"""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{MARKER}(server): the APIServer that `client` and `oarlock_server` use")


@pytest.fixture
def oarlock_app(request: pytest.FixtureRequest) -> APIServer:
    """The `APIServer` under test, made to be overridden: that of the nearest ``@pytest.mark.oarlock_app(server)``."""
    marker = request.node.get_closest_marker(MARKER)
    if marker is None or len(marker.args) != 1:
        pytest.fail(HOW, pytrace=False)
    found: APIServer = marker.args[0]
    return found


@pytest.fixture
def oarlock_server(oarlock_app: APIServer, tmp_path: Path) -> Iterator[ServerThread]:
    """`oarlock_app` as a real server, empty, on a free port, until the test ends; see `ServerThread`."""
    with testing.ServerThread(oarlock_app, folder=tmp_path / "oarlock") as running:
        yield running


@pytest.fixture
def oarlock_kubeconfig(oarlock_server: ServerThread, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The kubeconfig of `oarlock_server`, which clients in this process and below it take by default.

    ``KUBECONFIG`` names it until the test ends; so does the package ``kubernetes``, which reads that once, when it is
    imported. No pod's service account is found.
    """
    kubeconfig = oarlock_server.kubeconfig
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    read_before = sys.modules.get("kubernetes.config.kube_config")
    if read_before is not None:
        monkeypatch.setattr(read_before, "KUBE_CONFIG_DEFAULT_LOCATION", str(kubeconfig))
    return kubeconfig


@pytest.fixture
def oarlock_client(request: pytest.FixtureRequest, oarlock_app: APIServer) -> Iterator[TestClient]:
    """An administrator's requests to `oarlock_app`: in memory, or to `oarlock_server` where the test uses that too."""
    if "oarlock_server" in request.fixturenames:
        running: ServerThread = request.getfixturevalue("oarlock_server")
        yield running.client()
        return
    with testing.InMemoryClient(oarlock_app) as in_memory:
        yield in_memory


@pytest.fixture
def oarlock_faults(oarlock_client: TestClient, request: pytest.FixtureRequest) -> RequestFaults:
    """What goes wrong on purpose with requests to `oarlock_app`, wherever `client` asks it."""
    if "oarlock_server" in request.fixturenames:
        running: ServerThread = request.getfixturevalue("oarlock_server")
        return running.faults
    assert isinstance(oarlock_client, testing.InMemoryClient)
    return oarlock_client.faults


@pytest.fixture
def client(oarlock_client: TestClient) -> TestClient:
    """`oarlock_client`, by the name that other frameworks' tests have for it."""
    return oarlock_client
