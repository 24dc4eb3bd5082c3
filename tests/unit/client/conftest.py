"""A server whose boats a client reads and writes, in process and over HTTP."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from boats import boat_server

from oarlock.client import Client, connect
from oarlock.testing import InMemory, ServerThread


@pytest.fixture(params=["in process", "http"])
async def client(request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    """A client of a server that has no objects yet."""
    if request.param == "in process":
        async with InMemory(boat_server()) as api, api.client() as in_process:
            yield in_process
    else:
        with ServerThread(boat_server()) as running:
            async with connect(running.kubeconfig) as over_http:
                yield over_http
