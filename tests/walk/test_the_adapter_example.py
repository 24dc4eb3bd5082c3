"""A table that is somebody else's, as clients use it: owners of fields, conflicts, and a log of changes that ends."""

from __future__ import annotations

import asyncio
import functools
import importlib
import sqlite3
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from walk_kit import failure, made

from oarlock import APIServer
from oarlock.testing.server import InMemory

SOURCES = Path(__file__).resolve().parents[2] / "examples" / "adapter" / "src"
PARTS = "/apis/warehouse.example.com/v1/namespaces/basel/parts"
APPLY = "application/apply-patch+yaml"
KEPT_CHANGES = 1000
PART = {
    "apiVersion": "warehouse.example.com/v1",
    "kind": "Part",
    "metadata": {"name": "bolt", "labels": {"aisle": "7"}},
    "spec": {"title": "Bolt", "supplier": "acme"},
}


def timed(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Threads work for the example, so time is real."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 60))

    return run


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "parts.db"


@pytest.fixture
def api(database: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemory]:
    """The server of parts, without that of suppliers."""
    monkeypatch.syspath_prepend(str(SOURCES))
    with closing(importlib.import_module("adapter.parts_table").PartsTable(str(database))) as table:
        yield InMemory(APIServer(serve=[importlib.import_module("adapter.collections.parts").Parts(table)]))


def elsewhere(database: Path, statement: str, times: int = 1) -> None:
    """Another program writes, so often."""
    with closing(sqlite3.connect(database)) as other, other:
        other.executemany(statement, [()] * times)


@timed
async def test_what_the_table_keeps_comes_back(api: InMemory) -> None:
    async with api:
        tree = await made(api, PARTS, PART)
        assert (await api.get(f"{PARTS}/bolt")).json == tree
        assert failure(await api.post(PARTS, PART))[:2] == (409, "AlreadyExists")
        patched = (await api.patch(f"{PARTS}/bolt", {"spec": {"stock": 8}})).json
        assert patched["spec"] == {"title": "Bolt", "stock": 8, "supplier": "acme"}
        for kept in ("uid", "creationTimestamp", "labels"):
            assert patched["metadata"][kept] == tree["metadata"][kept]


@timed
async def test_a_write_to_what_another_program_changed_is_a_conflict(api: InMemory, database: Path) -> None:
    async with api:
        tree = await made(api, PARTS, PART)
        elsewhere(database, "UPDATE parts SET stock = 3")
        stale = {**tree, "spec": {**tree["spec"], "title": "Nut"}}
        assert failure(await api.put(f"{PARTS}/bolt", stale))[:2] == (409, "Conflict")
        fresh = (await api.get(f"{PARTS}/bolt")).json
        changed = await api.put(f"{PARTS}/bolt", {**fresh, "spec": {**fresh["spec"], "title": "Nut"}})
        assert changed.json["spec"] == {"title": "Nut", "stock": 3, "supplier": "acme"}


@timed
async def test_who_owns_a_field_is_kept_by_the_table(api: InMemory, database: Path) -> None:
    async with api:
        applied = await api.patch(f"{PARTS}/bolt?fieldManager=one", PART, APPLY)
        assert applied.status == 201, applied
        assert [entry["manager"] for entry in applied.json["metadata"]["managedFields"]] == ["one"]
        other = {**PART, "spec": {"title": "Nut", "supplier": "acme"}}
        refused = failure(await api.patch(f"{PARTS}/bolt?fieldManager=two", other, APPLY))
        assert refused[:2] == (409, "Conflict")
        assert ".spec.title" in refused[2]
        elsewhere(database, "UPDATE parts SET stock = 3")
        found = (await api.get(f"{PARTS}/bolt")).json
        assert found["spec"]["stock"] == 3
        assert "fieldOwners" not in found["metadata"]
        assert found["metadata"]["managedFields"] == applied.json["metadata"]["managedFields"]
        forced = await api.patch(f"{PARTS}/bolt?fieldManager=two&force=true", other, APPLY)
        assert forced.json["spec"] == {"title": "Nut", "stock": 3, "supplier": "acme"}


@timed
async def test_who_watches_from_what_is_forgotten_is_told_to_list_again(api: InMemory, database: Path) -> None:
    async with api:
        version = (await made(api, PARTS, PART))["metadata"]["resourceVersion"]
        elsewhere(database, "UPDATE parts SET stock = stock + 1", KEPT_CHANGES + 2)
        async with api.watch(f"{PARTS}?resourceVersion={version}") as events:
            kind, status = await events.next()
            assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
            assert status["message"] == f"too old resource version: {version}"


@timed
async def test_what_another_program_writes_is_seen(api: InMemory, database: Path) -> None:
    async with api:
        version = (await made(api, PARTS, PART))["metadata"]["resourceVersion"]
        async with api.watch(f"{PARTS}?resourceVersion={version}") as events:
            elsewhere(database, "DELETE FROM parts")
            kind, tree = await events.next(30.0)
            assert (kind, tree["metadata"]["name"]) == ("DELETED", "bolt")
