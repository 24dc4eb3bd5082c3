"""``oarlock storage migrate``: what it says, and what it leaves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oarlock.cli import progress
from oarlock.storage.sqlite.backend import SqliteBackend
from oarlock.testing.clock import VirtualClock

NEXT = '''\
from __future__ import annotations

from oarlock import APIServer, Model, Resource, Spoke, StoredCollection


class Spec(Model):
    """What is wanted."""

    length: int = 1


class OldSpec(Model):
    """What was wanted."""

    size: int = 1


class Thing(Resource, group="test.example.com", version="v2"):
    """A thing."""

    spec: Spec = Spec()


class OldThing(Spoke[Thing], version="v1"):
    """A thing, before."""

    spec: OldSpec = OldSpec()

    def to_hub(self) -> Thing:
        return Thing(metadata=self.metadata, spec=Spec(length=self.spec.size))

    @classmethod
    def from_hub(cls, hub: Thing) -> OldThing:
        return cls(metadata=hub.metadata, spec=OldSpec(size=hub.spec.length))


class Things(StoredCollection[Thing]):
    """Written as v2."""


server = APIServer(serve=[Things, OldThing], name="things")
'''
PREFIX = "/registry/test.example.com/things/default/"


@pytest.fixture
def stored(folder: Path) -> Callable[[dict[str, bytes] | None], dict[str, bytes]]:
    """Put these values into ``store.db``; returns all there are."""

    def run(values: dict[str, bytes] | None = None) -> dict[str, bytes]:
        async def main() -> dict[str, bytes]:
            backend = SqliteBackend(folder / "store.db", VirtualClock())
            await backend.start()
            await asyncio.gather(*(backend.put(key, value, expect=0) for key, value in (values or {}).items()))
            page = await backend.list("/", "0")
            await backend.close()
            return {kv.key: kv.value for kv in page.kvs}

        return asyncio.run(main())

    return run


def old(name: str, size: int) -> bytes:
    tree = {"apiVersion": "test.example.com/v1", "kind": "Thing", "metadata": {"name": name}, "spec": {"size": size}}
    return json.dumps(tree).encode()


def test_migrating(folder: Path, oarlock: Any, stored: Any) -> None:
    (folder / "things.py").write_text(NEXT)
    stored({f"{PREFIX}{n}": old(n, size) for size, n in enumerate("abc")})
    storage = ("--storage", "sqlite:///store.db")
    done = oarlock("storage", "migrate", "things.py", *storage)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "things.test.example.com: 3 of 3 rewritten as v2\n"
    found = json.loads(stored()[f"{PREFIX}c"])
    assert (found["apiVersion"], found["spec"]) == ("test.example.com/v2", {"length": 2})
    again = oarlock("storage", "migrate", "things:server", *storage)
    assert again.stdout == "things.test.example.com: 0 of 3 rewritten as v2\n"


def test_progress_is_shown(folder: Path, oarlock: Any, stored: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY_S", 0.0)
    (folder / "things.py").write_text(NEXT)
    stored({f"{PREFIX}{n:04}": old(f"{n:04}", n) for n in range(1100)})
    done = oarlock("storage", "migrate", "things.py", "--storage", "sqlite:///store.db")
    assert done.stdout == "things.test.example.com: 1100 of 1100 rewritten as v2\n"
    assert done.stderr.splitlines() == [
        "things.test.example.com: 500 of 1100 checked, 500 rewritten",
        "things.test.example.com: 1000 of 1100 checked, 1000 rewritten",
        "things.test.example.com: 1100 of 1100 checked, 1100 rewritten",
        "things.test.example.com: 500 of 1100 checked again, 1100 rewritten",
        "things.test.example.com: 1000 of 1100 checked again, 1100 rewritten",
        "things.test.example.com: 1100 of 1100 checked again, 1100 rewritten",
    ]


def test_what_cant_be_read_is_listed(folder: Path, oarlock: Any, stored: Any) -> None:
    (folder / "things.py").write_text(NEXT)
    stored({PREFIX + "a": old("a", 1), PREFIX + "b": b"{"})
    done = oarlock("storage", "migrate", "things.py", "--storage", "sqlite:///store.db")
    assert done.returncode == 1
    assert done.stdout.splitlines()[0] == "things.test.example.com: 1 of 2 rewritten as v2"
    assert done.stdout.splitlines()[1].startswith(PREFIX + "b: ")
    assert done.stderr.startswith("oarlock: 1 object in sqlite:///store.db can't be read")
    assert stored()[PREFIX + "b"] == b"{"


def test_without_a_store_nothing_is_made(folder: Path, oarlock: Any) -> None:
    done = oarlock("storage", "migrate", "things.py", "--storage", "sqlite:///none.db")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert not (folder / "none.db").exists()
    assert oarlock("storage", "migrate", "things.py", "--storage", "memory://").returncode == 1
