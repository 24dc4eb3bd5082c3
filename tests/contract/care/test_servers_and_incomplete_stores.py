"""No server starts on a store that is still being filled."""

from __future__ import annotations

from pathlib import Path

import pytest

from oarlock import APIServer, Model, Resource
from oarlock.server.clock import SystemClock
from oarlock.server.config import ServerConfig
from oarlock.server.lifecycle import start
from oarlock.storage.backend import StorageError
from oarlock.storage.care.opening import opened
from oarlock.storage.care.unfinished import Filling, begin_filling, end_filling
from oarlock.testing.contracts.support import refused

pytestmark = pytest.mark.anyio


class KeelSpec(Model):
    """What is wanted."""

    length: int = 1


class Keel(Resource, group="care.example.com", version="v1"):
    """A keel."""

    spec: KeelSpec = KeelSpec()


class Silent:
    """A terminal nobody looks at."""

    def print_result(self, line: str) -> None: ...

    def print_message(self, line: str) -> None: ...


async def test_a_server_says_which_command_completes_the_store_it_refuses(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    config = ServerConfig(storage=url, bind_address="127.0.0.1", secure_port=0)
    async with opened(url, create=True) as backend:
        await begin_filling(backend, Filling("restore", "f00", "oarlock storage restore x.backup"))
    server = APIServer(serve=[Keel], name="keels")
    error = await refused(start(server, config, SystemClock(), Silent()), StorageError)
    assert "run `oarlock storage restore x.backup` again" in str(error)
    async with opened(url) as backend:
        await end_filling(backend)
    running = await start(server, config, SystemClock(), Silent())
    await running.shut_down()
