"""Code that acts in real processes: each of several workers, the end of one, informers over a server that dies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from server_process import ServerProcess

from oarlock.client import Client, connect

pytestmark = [pytest.mark.slow, pytest.mark.anyio]

PROGRAM = '''
import os

from oarlock import APIServer, ObjectMeta, Resource


class Cup(Resource, group="shop.example.com", version="v1", scope="Cluster"):
    """A cup."""

    size: int = 0


class Working:
    async def run(self, client, clock):
        await client.create(Cup(metadata=ObjectMeta(name=f"run-{os.getpid()}")))
        try:
            await clock.sleep(1000)
        finally:
            await client.create(Cup(metadata=ObjectMeta(name=f"cancelled-{os.getpid()}")))


async def started(client):
    await client.create(Cup(metadata=ObjectMeta(name=f"started-{os.getpid()}")))


async def stopped(client):
    await client.create(Cup(metadata=ObjectMeta(name=f"stopped-{os.getpid()}")))


if os.environ.get("QUIET"):
    server = APIServer(serve=[Cup])
else:
    server = APIServer(serve=[Cup], controllers=[Working()], on_start=started, on_stop=stopped)
'''

CUP = "shop.example.com/v1/Cup"


async def cups(client: Client) -> list[str]:
    return sorted([one["metadata"]["name"] async for one in client.list(CUP)])


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110 another process does it
            await asyncio.sleep(0.02)


async def test_each_worker_runs_what_acts_and_ends_it_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "cups.py"
    program.write_text(PROGRAM)
    server = ServerProcess(tmp_path / "server", program, options=["--workers", "2"])
    with server:
        async with connect(server.kubeconfig) as client:
            informer = client.informer(CUP)
            async with informer:
                await until(lambda: len(informer) == 4)
    monkeypatch.setenv("QUIET", "1")
    with server:
        async with connect(server.kubeconfig) as client:
            names = await cups(client)
    pids = {name.partition("-")[2] for name in names}
    assert len(pids) == 2
    assert names == sorted(f"{what}-{pid}" for what in ("started", "run", "cancelled", "stopped") for pid in pids)


async def test_an_informer_goes_on_over_a_server_that_is_killed_and_forgets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUIET", "1")
    program = tmp_path / "cups.py"
    program.write_text(PROGRAM)
    changes: list[tuple[str, bool, bool]] = []
    with ServerProcess(tmp_path / "server", program) as server:
        async with connect(server.kubeconfig) as client, client.informer(CUP) as informer:
            informer.add_handler(
                lambda old, new: changes.append(((new or old or {})["metadata"]["name"], old is None, new is None))
            )
            await informer.synced()
            await client.create(_cup("a"))
            await asyncio.to_thread(server.restart)
            await client.create(_cup("b"))
            await until(lambda: len(changes) == 2)
            await client.delete(CUP, "a")
            newest = await client.create(_cup("c"))
            await asyncio.to_thread(server.restart_compacted, newest["metadata"]["resourceVersion"])
            await client.create(_cup("d"))
            await until(lambda: len(changes) == 5)
            assert sorted(one["metadata"]["name"] for one in informer) == ["b", "c", "d"]
    assert sorted(changes) == [("a", False, True), ("a", True, False), *((name, True, False) for name in "bcd")]


def _cup(name: str) -> dict[str, object]:
    return {"apiVersion": "shop.example.com/v1", "kind": "Cup", "metadata": {"name": name}}
