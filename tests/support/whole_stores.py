"""Empty stores of every kind, and what is done with whole ones. See also: `databases`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from databases import EtcdServer, SqlServer

from oarlock.storage.backend import KV
from oarlock.storage.care.operations import opened
from oarlock.storage.care.snapshot import EVERYTHING, OperationProgress

__all__ = ["STORES", "NewStore", "contents", "fill", "new_store", "silent"]

STORES = ("sqlite", "postgres", "mariadb", "etcd")
"""Every kind of store that has a URL; those with a database are named as the fixture that runs it."""

NewStore = Callable[[str], str]


@pytest.fixture
def new_store(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> NewStore:
    """A function that returns the URL of an empty store of a kind, beside the test's own folder."""
    folder, numbers = tmp_path_factory.mktemp("stores"), count()

    def make(kind: str) -> str:
        place = Path(folder, str(next(numbers)))
        place.mkdir()
        if kind == "sqlite":
            return f"sqlite:///{place / 'store.db'}"
        database: EtcdServer | SqlServer = request.getfixturevalue(kind)
        return database.fresh()

    return make


def silent(progress: OperationProgress) -> None:
    """Shows no progress."""


async def fill(url: str, count: int, prefix: str = "/registry/test.example.com/things/default/") -> None:
    """Create keys, change every third and delete every fifth, so that revisions aren't in the order of keys."""
    async with opened(url, create=True) as backend:
        for numbers in (range(start, min(start + 100, count)) for start in range(0, count, 100)):
            keys = {number: f"{prefix}{number * 7919 % count:06}" for number in numbers}
            puts = [backend.put(key, b"%d" % number, expect=0) for number, key in keys.items()]
            revs = dict(zip(numbers, [result.rev for result in await asyncio.gather(*puts)], strict=True))
            again = [number for number in numbers if number % 3 == 0]
            puts = [backend.put(keys[number], b"%d again" % number, expect=revs[number]) for number in again]
            revs |= zip(again, [result.rev for result in await asyncio.gather(*puts)], strict=True)
            await asyncio.gather(
                *(backend.delete(keys[number], expect=revs[number]) for number in numbers if number % 5 == 0)
            )


async def contents(url: str) -> list[KV]:
    """Everything in a store, in the order of revisions."""
    async with opened(url) as backend:
        page = await backend.list(*EVERYTHING)
    return sorted(page.kvs, key=lambda kv: kv.mod_rev)
