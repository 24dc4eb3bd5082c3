"""The adapter among the examples, as clients use it: a list in pages, a watch that goes on, a conflict, a shell."""

from __future__ import annotations

import asyncio
import functools
import importlib
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from walk_kit import failure, made

from oarlock import APIServer
from oarlock.testing.server import InMemory

ROOT = Path(__file__).resolve().parents[2]
MACHINES = "/apis/inventory.example.com/v1/machines"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def timed(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Threads work for the example, so time is real."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 60))

    return run


OPENED: list[Any] = []
"""The inventories of the running test: Python 3.13 warns of connections that nobody closes."""


@pytest.fixture(autouse=True)
def examples_on_the_path() -> Iterator[None]:
    sys.path.insert(0, str(ROOT / "examples"))
    yield
    sys.path.remove(str(ROOT / "examples"))
    while OPENED:
        OPENED.pop().close()


def house(where: str | Path = ":memory:", keep: int = 1000) -> tuple[InMemory, Any]:
    """The server, and the database that is somebody else's."""
    inventory = importlib.import_module("machines.inventory").Inventory(str(where), keep=keep)
    OPENED.append(inventory)
    return InMemory(APIServer(serve=[importlib.import_module("machines.machines").Machines(inventory)])), inventory


def machine(name: str, rack: str = "a1", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"rack": rack, **spec}}


def names(tree: Any) -> list[str]:
    return [item["metadata"]["name"] for item in tree["items"]]


@timed
async def test_the_life_of_a_machine():
    api, inventory = house()
    async with api:
        tree = await made(api, MACHINES, {**machine("m"), "metadata": {"name": "m", "labels": {"a": "b"}}})
        assert (tree["spec"], tree["status"]) == ({"rack": "a1", "cores": 4, "powered": False}, {"boots": 0})
        assert (await inventory.find("m")).rack == "a1"
        assert (await api.get(f"{MACHINES}/m")).json == tree
        assert failure(await api.post(MACHINES, machine("m")))[:2] == (409, "AlreadyExists")
        patched = (await api.patch(f"{MACHINES}/m", {"spec": {"cores": 8}, "status": {"boots": 9}})).json
        assert (patched["spec"]["cores"], patched["status"], patched["metadata"]["labels"]) == (
            8,
            {"boots": 0},
            {"a": "b"},
        )
        for kept in ("uid", "creationTimestamp"):
            assert patched["metadata"][kept] == tree["metadata"][kept]
        row = (await api.get(f"{MACHINES}/m", accept=TABLE)).json["rows"][0]
        assert row["cells"] == ["m", "a1", 8, False, 0]
        assert (await api.delete(f"{MACHINES}/m")).status == 200
        assert (await api.get(f"{MACHINES}/m")).status == 404
        assert (await api.post(MACHINES, machine("bad", cores=0))).status == 422


@timed
async def test_a_write_to_what_has_changed_is_a_conflict():
    api, inventory = house()
    async with api:
        tree = await made(api, MACHINES, machine("m"))
        await inventory.reboot("m")  # somebody else's
        assert failure(await api.put(f"{MACHINES}/m", {**tree, "spec": {"rack": "b2"}}))[:2] == (409, "Conflict")
        fresh = (await api.get(f"{MACHINES}/m")).json
        moved = (await api.put(f"{MACHINES}/m", {**fresh, "spec": {**fresh["spec"], "rack": "b2"}})).json
        assert (moved["spec"]["rack"], moved["spec"]["powered"], moved["status"]["boots"]) == ("b2", True, 1)


@timed
async def test_who_owns_a_field_is_kept_by_the_inventory():
    api, _ = house()
    async with api:
        body = {"apiVersion": "inventory.example.com/v1", "kind": "Machine", **machine("m", cores=8)}
        applied = await api.patch(f"{MACHINES}/m?fieldManager=one", body, APPLY)
        assert applied.status == 201, applied
        assert [entry["manager"] for entry in applied.json["metadata"]["managedFields"]] == ["one"]
        other = {**body, "spec": {"rack": "a1", "cores": 16}}
        refused = await api.patch(f"{MACHINES}/m?fieldManager=two", other, APPLY)
        assert failure(refused)[:2] == (409, "Conflict")
        assert ".spec.cores" in failure(refused)[2]
        rebooted = (await api.post(f"{MACHINES}/m/reboot", b"")).json
        assert "fieldOwners" not in rebooted["metadata"]
        assert rebooted["metadata"]["managedFields"] == applied.json["metadata"]["managedFields"]
        assert (await api.patch(f"{MACHINES}/m?fieldManager=two&force=true", other, APPLY)).json["spec"]["cores"] == 16


@timed
async def test_pages_come_from_the_inventory_and_a_watch_goes_on_where_the_list_was():
    api, inventory = house()
    async with api:
        for name in "edcba":
            await made(api, MACHINES, machine(name, rack="b1" if name in "bd" else "a1"))
        first = (await api.get(MACHINES + "?limit=2")).json
        assert names(first) == ["a", "b"]
        await api.patch(f"{MACHINES}/a", {"spec": {"cores": 2}})  # while the client is paging
        second = (await api.get(f"{MACHINES}?limit=3&continue={first['metadata']['continue']}")).json
        assert names(second) == ["c", "d", "e"]
        third = (await api.get(f"{MACHINES}?limit=3&continue={second['metadata']['continue']}")).json
        assert names(third) == []
        version = third["metadata"]["resourceVersion"]
        assert version == first["metadata"]["resourceVersion"]
        assert names((await api.get(MACHINES + "?fieldSelector=spec.rack=b1")).json) == ["b", "d"]
        async with api.watch(f"{MACHINES}?resourceVersion={version}") as events:
            kind, tree = await events.next()
            assert (kind, tree["metadata"]["name"], tree["spec"]["cores"]) == ("MODIFIED", "a", 2)
            await inventory.reboot("e")
            kind, tree = await events.next()
            assert (kind, tree["status"]["boots"]) == ("MODIFIED", 1)
            await api.delete(f"{MACHINES}/e")
            assert (await events.next())[0] == "DELETED"
        async with api.watch(MACHINES + "?fieldSelector=spec.rack=b1") as events:
            told = [await events.next(), await events.next()]
            assert [(kind, tree["metadata"]["name"]) for kind, tree in told] == [("ADDED", "b"), ("ADDED", "d")]
            await api.patch(f"{MACHINES}/b", {"spec": {"rack": "a1"}})
            kind, tree = await events.next()
            assert (kind, tree["metadata"]["name"]) == ("DELETED", "b")


@timed
async def test_who_watches_from_what_is_forgotten_is_told_to_list_again():
    api, inventory = house(keep=3)
    async with api:
        version = (await made(api, MACHINES, machine("m")))["metadata"]["resourceVersion"]
        for _ in range(5):
            await inventory.reboot("m")
        async with api.watch(f"{MACHINES}?resourceVersion={version}") as events:
            kind, status = await events.next()
            assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
            assert status["message"] == "too old resource version: 1 (3)"


@timed
async def test_what_else_a_machine_can_do():
    api, _ = house()
    async with api:
        await made(api, MACHINES, machine("m"))
        off = failure(await api.request("GET", f"{MACHINES}/m/shell?command=nproc", None, UPGRADE))
        assert off == (400, "BadRequest", "m is off")
        booted = await api.post(f"{MACHINES}/m/reboot", b"")
        assert (booted.status, booted.json["spec"]["powered"], booted.json["status"]["boots"]) == (201, True, 1)
        assert (await api.post(f"{MACHINES}/none/reboot", b"")).status == 404
        assert (await api.get(f"{MACHINES}/m/console")).body == b"m booted for the 1. time\n"
        async with api.follow(f"{MACHINES}/m/console?follow=true") as lines:
            assert await lines.line() == b"m booted for the 1. time"
            await api.post(f"{MACHINES}/m/reboot", b"")
            assert await lines.line() == b"m booted for the 2. time"
        async with api.connect(f"{MACHINES}/m/shell?command=nproc") as client:
            assert await client.receive() == (1, b"4\n")
            assert (await client.outcome())["status"] == "Success"
        async with api.connect(f"{MACHINES}/m/shell?command=cat") as client:
            client.send(0, b"hello")
            assert await client.receive() == (1, b"hello")
            client.close_channel(0)
            assert (await client.outcome())["status"] == "Success"
        async with api.connect(f"{MACHINES}/m/shell?command=vi") as client:
            assert await client.receive() == (2, b"vi: command not found\n")
            assert (await client.outcome())["details"]["causes"][0] == {"reason": "ExitCode", "message": "127"}


@timed
async def test_what_another_process_writes_is_seen(tmp_path: Path):
    api, _ = house(tmp_path / "inventory.db")
    _, other = house(tmp_path / "inventory.db")
    async with api, api.watch(MACHINES) as events:
        row = importlib.import_module("machines.inventory").Row("m", "a1", 4, False)
        await other.add(row)
        assert (await events.next(30.0))[1]["metadata"]["name"] == "m"


UPGRADE = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
}
