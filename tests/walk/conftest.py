"""Puts this folder on the path, so that tests can import `walk_kit`, what they all walk with.

What writes is walked twice: over a store in memory, and over one that behaves as if it were on another machine.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import apply_kit
import walk_kit

import oarlock.endpoints.watching.watcher
import oarlock.storage.pacing
import oarlock.testing.server
from oarlock.storage.memory import MemoryBackend
from oarlock.testing.contracts.network import NetworkBackend

OVER_A_NETWORK = (
    "test_create",
    "test_deleting",
    "test_deleting_collections",
    "test_informers",
    "test_lost_races",
    "test_server_side_apply",
    "test_the_catalog_is_replaced",
    "test_updating",
    "test_watching",
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.definition.path.stem in OVER_A_NETWORK:
        metafunc.fixturenames.append("store")
        metafunc.parametrize("store", ["memory", "network"], indirect=True)


@pytest.fixture
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which kind of store the test is walked over."""
    if request.param == "network":
        for module in (oarlock.testing.server, walk_kit, apply_kit, request.module):
            monkeypatch.setattr(module, "MemoryBackend", _over_a_network, raising=False)


def _over_a_network(clock: Any) -> NetworkBackend:
    return NetworkBackend(MemoryBackend(clock), seed=5)


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """No slice of work ends while a test walks: real time passes as it likes on a machine under load."""
    for module in (oarlock.storage.pacing, oarlock.endpoints.watching.watcher):
        monkeypatch.setattr(module, "SLICE_S", 600.0)
