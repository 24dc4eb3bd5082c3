"""A server on a restored store tells every client to list again, and none starts before all is there."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from silent_terminal import Silent
from whole_stores import silent

from oarlock import APIServer, Model, Resource
from oarlock.client.clock import SystemClock
from oarlock.server.assembly.lifecycle import start
from oarlock.server.config import ServerConfig
from oarlock.storage.backend import StorageError
from oarlock.storage.care.operations import backup, opened
from oarlock.storage.care.restore import restore
from oarlock.storage.care.snapshot import Filling, begin_filling, end_filling
from oarlock.testing.contracts.support import refused
from oarlock.testing.thread import ServerThread

pytestmark = pytest.mark.anyio

KEELS = "/apis/care.example.com/v1/namespaces/default/keels"


class KeelSpec(Model):
    """What is wanted."""

    length: int = 1


class Keel(Resource, group="care.example.com", version="v1"):
    """A keel."""

    spec: KeelSpec = KeelSpec()


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


def keels() -> APIServer:
    return APIServer(serve=[Keel], name="keels")


@pytest.mark.parametrize("way", ["copied back by hand", "restored"])
def test_a_client_that_knows_a_later_revision_is_answered_410_at_once(tmp_path: Path, way: str) -> None:
    path = tmp_path / "store.db"
    config = ServerConfig(storage=f"sqlite:///{path}", data_dir=tmp_path / "data")
    with ServerThread(keels(), folder=tmp_path, config=config) as running:
        running.client().post(KEELS, {"metadata": {"name": "kept"}})
    asyncio.run(backup(config.storage, tmp_path / "a.backup", silent))
    shutil.copy(path, tmp_path / "copy.db")
    with ServerThread(keels(), folder=tmp_path, config=config) as running:
        client = running.client()
        for number in range(20):
            made = client.post(KEELS, {"metadata": {"name": f"lost{number}"}}).json
        page = client.get(f"{KEELS}?limit=1").json["metadata"]["continue"]
        known = made["metadata"]["resourceVersion"]
    if way == "restored":
        path.unlink()
        shutil.rmtree(tmp_path / "data")  # a restore says for itself that it is another epoch
        asyncio.run(restore(tmp_path / "a.backup", config.storage, "again", silent))
    else:
        shutil.copy(tmp_path / "copy.db", path)
    with ServerThread(keels(), folder=tmp_path, config=config) as running:
        client = running.client()
        listed = client.get(KEELS).json
        assert [item["metadata"]["name"] for item in listed["items"]] == ["kept"]
        assert int(listed["metadata"]["resourceVersion"]) > int(known)
        with client.watch(f"{KEELS}?resourceVersion={known}") as events:
            kind, status = events.next()
            assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
        assert client.get(f"{KEELS}?limit=1&continue={page}").status == 410
        assert client.get(f"{KEELS}?resourceVersion={known}&resourceVersionMatch=Exact").status == 410
        assert client.get(f"{KEELS}?resourceVersion={known}").status == 200
        assert client.get(f"{KEELS}/lost3").status == 404
        with client.watch(f"{KEELS}?resourceVersion={listed['metadata']['resourceVersion']}") as events:
            client.post(KEELS, {"metadata": {"name": "new"}})
            assert events.next()[1]["metadata"]["name"] == "new"
