"""A server whose store was moved away: nothing is acknowledged or claimed to be current, and probes say so."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from walk_kit import BOATS, boat, everything, failure, made, path

from oarlock.storage.sqlite.backend import SqliteBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.server import InMemory


async def until(true: Callable[[], bool]) -> None:
    """Being gone is noticed at once; making sure that nobody was there meanwhile takes a second."""
    for _ in range(1000):
        if true():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("nobody notices")


@pytest.mark.parametrize("name", ["store.db", "store.db-wal", "store.db.d"])
def test_a_store_that_is_moved_away_and_back(tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str) -> None:
    async def scenario() -> None:
        clock = VirtualClock()
        backend = SqliteBackend(tmp_path / "store.db", clock)
        async with InMemory(everything(), backend=backend, clock=clock) as api:
            await made(api, BOATS, boat("a"))
            assert (await api.get("/readyz")).status == 200
            async with api.watch(BOATS) as boats:
                os.rename(tmp_path / name, tmp_path / "aside")
                await until(lambda: backend.known_rev() is None)
                ready = await api.get("/readyz?verbose")
                assert ready.status == 500
                assert b"[-]etcd failed" in ready.body
                assert b"[-]etcd-readiness failed" in ready.body
                for answer in (
                    await api.post(BOATS, boat("b")),
                    await api.patch(f"{BOATS}/a", {"spec": {"crew": 2}}),
                    await api.delete(f"{BOATS}/a"),
                    await api.get(BOATS),
                    await api.get(f"{BOATS}/a"),
                ):
                    assert failure(answer)[:2] == (503, "ServiceUnavailable")
                    assert f"{tmp_path / name} was deleted or moved away" in failure(answer)[2] or name == "store.db.d"
                    assert answer.headers["retry-after"] == "5"
                # a cluster that deletes a namespace asks what there may be in it
                version = BOATS.partition("/namespaces/")[0]
                for document in ("/apis", version.rpartition("/")[0], version, "/openapi/v2"):
                    assert (await api.get(document)).status == 200
                assert (await api.get(f"{BOATS}/a?resourceVersion=0")).status == 200
                assert (await api.get(path("boats") + "?resourceVersion=0")).status == 200
                assert not boats.closed
                assert len([record for record in caplog.records if "the store is gone" in record.getMessage()]) == 1
                os.rename(tmp_path / "aside", tmp_path / name)
                await until(lambda: backend.known_rev() is not None)
                assert (await api.get("/readyz")).status == 200
                await made(api, BOATS, boat("b"))
                assert (await api.get(f"{BOATS}/a")).status == 200
                assert [tree["metadata"]["name"] for _, tree in boats.pending()] == ["a", "b"]

    caplog.set_level(logging.INFO)
    asyncio.run(scenario())
