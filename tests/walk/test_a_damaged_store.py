"""A server on a store with damaged pages: it says so, and only what lies on them is out of reach."""

from __future__ import annotations

import asyncio
import logging
import re
from pathlib import Path

import pytest
from walk_kit import BOATS, CRATES, boat, everything, failure, key, made

from oarlock.storage.backend import StorageError
from oarlock.storage.sqlite.backend import SqliteBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.server import InMemory

PAGE = 4096
OBJECTS = 60
C17 = key("crates", "default", "c17")


def server(folder: Path) -> InMemory:
    clock = VirtualClock()
    return InMemory(everything(), backend=SqliteBackend(folder / "store.db", clock), clock=clock)


async def fill(folder: Path) -> None:
    """Objects of two pages each, so that no two lie on one."""
    async with server(folder) as api:
        await made(api, BOATS, boat("a"))
        for number in range(OBJECTS):
            spec = {"size": 1, "free": {"mark": f"<mark {number}>", "rest": "x" * 2 * PAGE}}
            await made(api, CRATES, {"metadata": {"name": f"c{number}"}, "spec": spec})


INDEX, LIVE, VALUE = range(3)
"""Where a key is in the file: in the index of the history, among the live keys, and with its value."""


def damage(folder: Path, text: str, where: int) -> None:
    """Fill the page with rubbish."""
    path = folder / "store.db"
    content = bytearray(path.read_bytes())
    pages = sorted({found.start() // PAGE for found in re.finditer(re.escape(text.encode()) + b"[^0-9]", content)})
    assert len(pages) == 3
    content[pages[where] * PAGE : (pages[where] + 1) * PAGE] = b"\xa5" * PAGE
    path.write_bytes(content)


async def until_looked_through(api: InMemory) -> None:
    for _ in range(500):
        if api.parts.storage.integrity.findings:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("nobody looked through the store")


def test_objects_on_a_damaged_page_are_named_and_nothing_else_stops(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        await fill(tmp_path)
        damage(tmp_path, C17, VALUE)
        async with server(tmp_path) as api:
            answers = {number: await api.get(f"{CRATES}/c{number}") for number in range(OBJECTS)}
            lost = {number for number, answer in answers.items() if answer.status != 200}
            assert 0 < len(lost) < 10
            for number in lost:
                assert failure(answers[number])[0] == 500
                assert (
                    f"crates/default/c{number}: the store is damaged where this object lies"
                    in answers[number].json["message"]
                )
            listed = failure(await api.get(CRATES))
            assert listed[0] == 500
            assert f"crates/default/c{min(lost)}" in listed[2]
            await made(api, BOATS, boat("b"))
            assert [item["metadata"]["name"] for item in (await api.get(BOATS)).json["items"]] == ["a", "b"]
            await until_looked_through(api)
            ready = await api.get("/readyz")
            assert ready.status == 500
            assert b"[-]storage-integrity failed: reason withheld" in ready.body
            assert (await api.get("/readyz?exclude=storage-integrity")).status == 200
            assert (await api.get("/livez")).status == 200
        text = caplog.text
        assert f"crates/default/c{min(lost)} can't be read" in text
        assert "the store is damaged: SQLite: table log" in text
        assert "oarlock storage check" in text

    caplog.set_level(logging.INFO)
    asyncio.run(scenario())


def test_damage_where_nobody_reads_is_told_all_the_same(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        await fill(tmp_path)
        damage(tmp_path, C17, INDEX)
        async with server(tmp_path) as api:
            assert len((await api.get(CRATES)).json["items"]) == OBJECTS
            assert (await api.get(BOATS)).status == 200
            await until_looked_through(api)
            assert b"[-]storage-integrity failed" in (await api.get("/readyz")).body
        assert "the store is damaged: SQLite: table log" in caplog.text

    asyncio.run(scenario())


def test_a_sound_store_says_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        await fill(tmp_path)
        async with server(tmp_path) as api:
            assert await api.parts.storage.backend.check(quick=True) == []
            assert (await api.get("/readyz/storage-integrity")).body == b"ok"

    asyncio.run(scenario())


def test_a_server_that_cannot_tell_which_objects_there_are_does_not_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        await fill(tmp_path)
        damage(tmp_path, C17, LIVE)
        with pytest.raises(StorageError, match=r"store\.db is damaged .*restore it"):
            await server(tmp_path).__aenter__()

    asyncio.run(scenario())
