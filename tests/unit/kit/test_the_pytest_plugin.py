"""The fixtures of the pytest plugin, in runs of pytest as users have them."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from oarlock.testing import plugin

pytestmark = pytest.mark.slow

RunPytest = Callable[..., "subprocess.CompletedProcess[str]"]

PROJECT = Path(__file__).resolve().parents[3] / "pyproject.toml"

CONFTEST = """\
import pytest
import things


@pytest.fixture
def oarlock_app():
    return things.server
"""


def outcomes(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """How each test went, by name."""
    found = re.findall(r"^(PASSED|FAILED|ERROR|SKIPPED) \S+::(\w+)", done.stdout, re.MULTILINE)
    assert found, done.stdout + done.stderr
    return {name: outcome for outcome, name in found}


def test_fixtures_ask_the_server_of_the_conftest(run_pytest: RunPytest) -> None:
    sync = """\
import pytest
from oarlock import APIServer
from oarlock.testing import HTTPClient, InMemoryClient
from things import THINGS, Thing, server

other = APIServer(serve=[Thing], name="other")


def test_in_memory(client):
    assert isinstance(client, InMemoryClient)
    with client.watch(THINGS) as events:
        assert client.post(THINGS, {"metadata": {"name": "a"}}).status == 201
        assert events.next()[0] == "ADDED"


def test_each_test_has_a_store_of_its_own(client, oarlock_client):
    assert client is oarlock_client
    assert client.get(THINGS).json["items"] == []


def test_over_tls(oarlock_server, client):
    assert isinstance(client, HTTPClient)
    assert client.url == oarlock_server.url
    assert client.post(THINGS, {"metadata": {"name": "a"}}).status == 201


@pytest.fixture
def busy(oarlock_server):
    return oarlock_server.client().post(THINGS, {"metadata": {"name": "of-the-fixture"}})


def test_one_server_is_meant_whoever_asks_for_it(busy, client):
    assert [one["metadata"]["name"] for one in client.get(THINGS).json["items"]] == ["of-the-fixture"]


class TestOwnClients:
    @pytest.fixture
    def client(self, client):
        return {"mine": client}

    def test_a_fixture_of_the_same_name_wins(self, client):
        assert client["mine"].get(THINGS).status == 200
"""
    with_anyio = """\
import pytest
from oarlock.testing import InMemory
from things import THINGS, server


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
async def api():
    async with InMemory(server) as api:
        yield api


@pytest.mark.anyio
async def test_async(api):
    async with api.watch(THINGS) as events:
        await api.post(THINGS, {"metadata": {"name": "a"}})
        assert (await events.next())[0] == "ADDED"


@pytest.mark.anyio
async def test_a_real_server_beside(oarlock_server, client):
    assert client.get(THINGS).status == 200


@pytest.mark.anyio
async def test_what_would_hold_the_loop_is_refused(client):
    with pytest.raises(RuntimeError, match="async with InMemory"):
        client.get(THINGS)
"""
    done = run_pytest(others=["anyio"], conftest=CONFTEST, test_sync=sync, test_with_anyio=with_anyio)
    assert outcomes(done) == {
        "test_in_memory": "PASSED",
        "test_each_test_has_a_store_of_its_own": "PASSED",
        "test_over_tls": "PASSED",
        "test_one_server_is_meant_whoever_asks_for_it": "PASSED",
        "test_a_fixture_of_the_same_name_wins": "PASSED",
        "test_async": "PASSED",
        "test_a_real_server_beside": "PASSED",
        "test_what_would_hold_the_loop_is_refused": "PASSED",
    }, done.stdout


def test_the_nearest_marker_names_the_server_and_who_has_none_is_told(run_pytest: RunPytest) -> None:
    test_marked = """\
import pytest
import things
from oarlock import APIServer

pytestmark = pytest.mark.oarlock_app(things.server)
other = APIServer(serve=[things.Thing], name="other")


def test_of_the_module(oarlock_app):
    assert oarlock_app is things.server


@pytest.mark.oarlock_app(other)
def test_its_own(oarlock_app):
    assert oarlock_app is other
"""
    done = run_pytest("--strict-markers", test_marked=test_marked, test_bare="def test_nobodys(client): pass\n")
    expected = {"test_of_the_module": "PASSED", "test_its_own": "PASSED", "test_nobodys": "ERROR"}
    assert outcomes(done) == expected, done.stdout
    assert all(line in done.stdout for line in plugin.HOW.splitlines())
    assert "Traceback" not in done.stdout


def test_pytest_asyncio(run_pytest: RunPytest) -> None:
    pytest.importorskip("pytest_asyncio", reason="pytest-asyncio isn't installed")
    test_things = """\
import pytest
from oarlock.testing import InMemory
from things import THINGS, server


@pytest.fixture
async def api():
    async with InMemory(server) as api:
        yield api


async def test_async(api):
    assert (await api.post(THINGS, {"metadata": {"name": "a"}})).status == 201


async def test_a_real_server_beside(oarlock_server, client):
    assert client.get(THINGS).status == 200
"""
    options = ("-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function")
    done = run_pytest(*options, others=["asyncio"], conftest=CONFTEST, test_things=test_things)
    assert outcomes(done) == {"test_async": "PASSED", "test_a_real_server_beside": "PASSED"}, done.stdout


def test_tests_that_use_no_fixture_load_nothing(run_pytest: RunPytest) -> None:
    """What is installed everywhere costs nothing where it isn't used."""
    test_other = """\
import sys


def test_it():
    loaded = {name for name in sys.modules if name.partition(".")[0] in ("oarlock", "msgspec", "apsw", "cryptography")}
    assert loaded == {"oarlock", "oarlock.testing", "oarlock.testing.plugin"}
"""
    done = run_pytest(test_other=test_other)
    assert outcomes(done) == {"test_it": "PASSED"}, done.stdout


def test_the_entry_point_is_named_as_the_module() -> None:
    """So that ``-p`` and an installed oarlock mean the same plugin, which is then registered once."""
    points = tomllib.loads(PROJECT.read_text())["project"]["entry-points"]["pytest11"]
    assert plugin.__name__ in points
    assert all(name == module for name, module in points.items())


def test_clients_find_the_kubeconfig_where_they_look_for_it(run_pytest: RunPytest) -> None:
    tests = """\
import os
import kubernetes


def test_a_client_that_is_told_nothing(oarlock_kubeconfig, oarlock_server):
    assert os.environ["KUBECONFIG"] == str(oarlock_kubeconfig) == str(oarlock_server.kubeconfig)
    kubernetes.config.load_kube_config()
    assert kubernetes.client.Configuration.get_default_copy().host == oarlock_server.url


def test_it_is_over_with_the_test():
    assert os.environ["KUBECONFIG"] == "elsewhere"
    assert kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION == "elsewhere"
"""
    conftest = f"import os\nos.environ['KUBECONFIG'] = 'elsewhere'\n{CONFTEST}"
    done = run_pytest("-W", "ignore", conftest=conftest, test_kubeconfig=tests)
    assert set(outcomes(done).values()) == {"PASSED"}, done.stdout


def test_faults_are_those_of_the_server_that_the_client_asks(run_pytest: RunPytest) -> None:
    tests = """\
from things import THINGS, Thing


def test_in_memory(client, oarlock_faults):
    oarlock_faults.fail("list", Thing)
    assert [client.get(THINGS).status for _ in range(2)] == [500, 200]


def test_on_a_port(client, oarlock_faults, oarlock_server):
    assert oarlock_faults is oarlock_server.faults
    oarlock_faults.fail("list", Thing)
    assert [client.get(THINGS).status for _ in range(2)] == [500, 200]
"""
    done = run_pytest(conftest=CONFTEST, test_faults=tests)
    assert set(outcomes(done).values()) == {"PASSED"}, done.stdout
