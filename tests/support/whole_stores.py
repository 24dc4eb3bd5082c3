"""Empty stores of every kind, and what is done with whole ones. See also: `stores`, for the kinds."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from oarlock.storage.backend import KV
from oarlock.storage.care.opening import opened
from oarlock.storage.care.snapshot import EVERYTHING, OperationProgress
from stores import store_of

__all__ = ["NewStore", "contents", "fill", "new_store", "silent"]

NewStore = Callable[[str], str]


@pytest.fixture
def new_store(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> NewStore:
    """A function that returns the URL of an empty store of a kind, beside the test's own folder."""
    folder, numbers = tmp_path_factory.mktemp("stores"), count()

    def make(kind: str) -> str:
        place = Path(folder, str(next(numbers)))
        place.mkdir()
        return store_of(kind, request, place).url

    return make


def silent(progress: OperationProgress) -> None:
    """Shows no progress."""


async def fill(url: str, count: int, prefix: str = "/registry/test.example.com/things/default/") -> None:
    """Create keys, change every third and delete every fifth, so that revisions aren't in the order of keys."""
    async with opened(url, create=True) as backend:
        for number in range(count):
            key = f"{prefix}{number * 7919 % count:06}"
            rev = (await backend.put(key, b"%d" % number, expect=0)).rev
            if number % 3 == 0:
                rev = (await backend.put(key, b"%d again" % number, expect=rev)).rev
            if number % 5 == 0:
                await backend.delete(key, expect=rev)


async def contents(url: str) -> list[KV]:
    """Everything in a store, in the order of revisions."""
    async with opened(url) as backend:
        page = await backend.list(*EVERYTHING)
    return sorted(page.kvs, key=lambda kv: kv.mod_rev)
