"""``store`` runs a test on a store of each kind, ``database_store`` on each that has a server of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from stores import DATABASES, KINDS, Store, store_of


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return store_of(request.param, request, tmp_path)


@pytest.fixture(params=DATABASES)
def database_store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return store_of(request.param, request, tmp_path)


@pytest.fixture
async def grpc_without_its_past(anyio_backend: Any) -> None:
    """gRPC has one poller a process. What it still has for the loop of an earlier test is no failure of this one."""
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        stale = "Event loop is closed" in str(context.get("exception"))
        if stale and "PollerCompletionQueue" in str(context.get("handle")):
            return
        if before is None:
            loop.default_exception_handler(context)
        else:
            before(loop, context)

    loop.set_exception_handler(handle)
