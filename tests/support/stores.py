"""Stores of every kind that has a URL, for tests of what is done with whole stores.

`NewStore` makes an empty one. A kind whose database isn't installed is skipped by its fixture.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from oarlock.storage.backend import KV
from oarlock.storage.care.opening import opened
from oarlock.storage.care.snapshot import EVERYTHING, OperationProgress

__all__ = ["KINDS", "NewStore", "contents", "fill", "new_store", "silent"]

KINDS = ("sqlite",)
"""Every backend with a URL."""

NewStore = Callable[[str], str]


@pytest.fixture
def new_store(tmp_path: Path, request: pytest.FixtureRequest) -> NewStore:
    """A function that returns the URL of an empty store of a kind."""
    made = iter(range(100))

    def make(kind: str) -> str:
        return f"sqlite:///{tmp_path / f'store{next(made)}.db'}"

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
