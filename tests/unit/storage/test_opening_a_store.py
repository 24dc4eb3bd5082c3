"""A URL or file that can't be a store is refused in one line that says what to do."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import apsw
import pytest

from oarlock.storage.backend import StorageError
from oarlock.storage.memory import MemoryBackend
from oarlock.storage.sql.dialect import SCHEMA_VERSION
from oarlock.storage.sqlite.backend import SqliteBackend
from oarlock.storage.url import open_backend, sqlite_path
from oarlock.testing.clock import VirtualClock


@pytest.mark.parametrize("url", ["memory:", "memory://", "memory:///"])
def test_memory(url: str) -> None:
    assert isinstance(open_backend(url, VirtualClock()), MemoryBackend)


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///store.db", "store.db"),
        ("sqlite:///data/store.db", "data/store.db"),
        ("sqlite:////var/lib/store.db", "/var/lib/store.db"),
        ("sqlite:///with%20space%3F.db", "with space?.db"),
    ],
)
def test_three_slashes_are_relative_and_four_absolute(url: str, path: str) -> None:
    assert sqlite_path(url) == Path(path)
    assert isinstance(open_backend(url, VirtualClock()), SqliteBackend)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "store.db",
        "sqlite",
        "sqlite:",
        "sqlite://",
        "sqlite:///",
        "sqlite:////",
        "sqlite://store.db",
        "sqlite:///folder/",
        "sqlite:///a.db?mode=ro",
        "sqlite:///a.db#part",
        "sqlite:///a%00.db",
        "sqlite:///%ff.db",
        "sqlite://[/a.db",
        "etcd:localhost",
        "etcd://",
        "etcd://db.example.com",
        "etcd://localhost/a//b",
        "etcd://localhost:http",
        "etcd://localhost?mode=ro",
        "etcd://localhost?cert=/a.pem",
        "etcd://localhost?user=root",
        "etcd://localhost?insecure=true&ca=/a.pem",
        "etcd://localhost?ca=/a.pem&ca=/b.pem",
        "memory://name",
        "file:///a.db",
    ],
)
def test_other_urls_are_refused_in_one_line(url: str) -> None:
    with pytest.raises(StorageError) as refusal:
        open_backend(url, VirtualClock())
    text = str(refusal.value)
    assert text.startswith(f"cannot use {url!r} as storage: ")
    assert len(text.splitlines()) == 1


def start(path: Path, *, create: bool = True) -> None:
    async def scenario() -> None:
        backend = SqliteBackend(path, VirtualClock(), create=create)
        await backend.start()
        await backend.close()

    asyncio.run(scenario())


def refusal_of(path: Path, *, create: bool = True) -> str:
    with pytest.raises(StorageError) as refusal:
        start(path, create=create)
    assert len(str(refusal.value).splitlines()) == 1
    assert str(refusal.value).startswith(f"cannot open the store {path}")
    return str(refusal.value)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert f"the directory {tmp_path / 'no'} doesn't exist" in refusal_of(tmp_path / "no" / "store.db")


def test_a_folder_instead_of_a_file(tmp_path: Path) -> None:
    assert "it is a directory" in refusal_of(tmp_path)


def test_a_file_that_is_not_there_and_not_to_be_made(tmp_path: Path) -> None:
    assert "the file doesn't exist" in refusal_of(tmp_path / "store.db", create=False)
    assert list(tmp_path.iterdir()) == [], "a question must leave nothing behind"


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"apiVersion: v1\n" * 1000)
    assert "not a SQLite database" in refusal_of(tmp_path / "store.db")
    assert (tmp_path / "store.db").read_bytes() == b"apiVersion: v1\n" * 1000
    assert [path.name for path in tmp_path.iterdir()] == ["store.db"], "a refusal must leave nothing behind"


def test_a_file_that_only_begins_like_a_database(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 8000)
    assert "not a SQLite database" in refusal_of(tmp_path / "store.db")


def test_a_database_of_another_program(tmp_path: Path) -> None:
    other = apsw.Connection(str(tmp_path / "store.db"))
    other.execute("CREATE TABLE bookmarks (url)")
    other.close()
    assert "another program" in refusal_of(tmp_path / "store.db")


def test_a_store_of_a_newer_version(tmp_path: Path) -> None:
    start(tmp_path / "store.db")
    newer = apsw.Connection(str(tmp_path / "store.db"))
    newer.execute("UPDATE meta SET schema_version = ?", (SCHEMA_VERSION + 1,))
    newer.close()
    assert "upgrade oarlock or choose another file" in refusal_of(tmp_path / "store.db")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert "permission denied" in refusal_of(tmp_path / "store.db")


def test_a_place_for_the_locks_that_is_taken(tmp_path: Path) -> None:
    (tmp_path / "store.db.d").write_text("a file")
    assert "store.db.d" in refusal_of(tmp_path / "store.db")


def test_a_file_with_two_names(tmp_path: Path) -> None:
    start(tmp_path / "store.db")
    os.link(tmp_path / "store.db", tmp_path / "other.db")
    assert "several names" in refusal_of(tmp_path / "other.db")


def test_whoever_comes_by_a_link_meets_the_others(tmp_path: Path) -> None:
    async def scenario() -> None:
        (tmp_path / "link.db").symlink_to(tmp_path / "store.db")
        first = SqliteBackend(tmp_path / "store.db", VirtualClock())
        second = SqliteBackend(tmp_path / "link.db", VirtualClock())
        await first.start()
        assert first.known_rev() is not None
        await second.start()
        assert (first.known_rev(), second.known_rev()) == (None, None)
        await second.close()
        await first.close()

    asyncio.run(scenario())
    assert sorted(path.name for path in tmp_path.glob("*.d")) == ["store.db.d"]


def test_a_store_is_for_its_owner_only(tmp_path: Path) -> None:
    start(tmp_path / "store.db")
    for path in (tmp_path / "store.db", tmp_path / "store.db.d" / "commit.lock"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "store.db.d").stat().st_mode) == 0o700


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    (tmp_path / "store.db").touch()
    start(tmp_path / "store.db", create=False)
    start(tmp_path / "store.db", create=False)


def test_a_store_that_failed_to_open_can_be_opened_later(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"not a database" * 100)
    refusal_of(tmp_path / "store.db")
    (tmp_path / "store.db").unlink()
    start(tmp_path / "store.db")


def test_a_store_may_lie_deep(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120) / ("e" * 120)
    deep.mkdir(parents=True)
    start(deep / "store.db")


def test_closing_a_store_that_was_never_opened(tmp_path: Path) -> None:
    asyncio.run(SqliteBackend(tmp_path / "store.db", VirtualClock()).close())
