"""No space for a database: writes fail with one line, reads and watches go on, and with space the writes come back."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from database_process import NoDatabase
from databases import EtcdServer, MariadbServer, PostgresServer

from oarlock.storage.backend import Backend, OutcomeUnknown, Unavailable
from oarlock.testing.contracts.support import END, START, record
from stores import Store

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

LARGE = 200_000
AGAIN_S = 30.0

log = logging.getLogger("oarlock.testing.faults")


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[None]:
    """Put `folder`, with what is in it, on a disk of its own."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a small disk")
    owner = folder.stat()
    aside = folder.with_name(folder.name + ".aside")
    shutil.move(folder, aside)
    folder.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    if subprocess.run(mounting, capture_output=True, check=False).returncode != 0:
        pytest.skip("no file system may be mounted here")
    try:
        subprocess.run(["cp", "-a", f"{aside}/.", str(folder)], check=True)
        os.chown(folder, owner.st_uid, owner.st_gid)
        folder.chmod(owner.st_mode & 0o7777)
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


async def fill(backend: Backend) -> tuple[dict[str, int], Unavailable]:
    """Write until nothing goes any more: what was acknowledged, and the refusal."""
    acknowledged = {}
    for number in range(2_000):
        key = f"{START}{number:05}"
        try:
            acknowledged[key] = (await backend.put(key, os.urandom(LARGE), expect=0)).rev
        except Unavailable as error:
            return acknowledged, error
    raise AssertionError("the disk is never full")


async def filled(store: Store, make_space: Callable[[], None] | None = None) -> None:
    """Writes fail when there is no space for more, and are done again when `make_space` has made some."""
    backend = store.open()
    await backend.start()
    seen = await record(backend, await backend.current_rev())
    acknowledged, refusal = await fill(backend)
    log.info("%d written, then: %s", len(acknowledged), refusal)
    assert len(str(refusal).splitlines()) == 1
    assert isinstance(refusal, OutcomeUnknown) or re.search("space|full", str(refusal)), refusal
    page = await backend.list(START, END)
    live = {kv.key: kv.mod_rev for kv in page.kvs}
    assert {key: live.get(key) for key in acknowledged} == acknowledged, "reads go on, and nothing is lost"
    await seen.until(max(acknowledged.values()))
    if make_space is not None:
        make_space()
        began = time.monotonic()
        while not await writes(backend):
            assert time.monotonic() - began < AGAIN_S, "there is space, and no write succeeds"
            await asyncio.sleep(0.1)
    await backend.close()


async def writes(backend: Backend) -> bool:
    try:
        return (await backend.put(f"{START}again-{time.monotonic()}", b"x", expect=0)).ok
    except Unavailable:
        return False


async def test_the_disk_of_postgresql_is_full() -> None:
    server = started(PostgresServer)
    try:
        server.stop()
        with small_disk(server.data, 140):
            server.launch()
            server.wait_until_ready()
            ballast = server.data / "ballast"
            ballast.write_bytes(b"x" * 40_000_000)
            url = server.fresh()
            server.sql("CHECKPOINT")  # reads go on, unless they need a page of memory whose content has no room
            await filled(Store(url, server), ballast.unlink)
            server.kill()
    finally:
        server.close()


async def test_the_table_space_of_mariadb_is_full() -> None:
    """Its own limit: on a full disk MariaDB ends itself."""
    limit = ("--innodb-file-per-table=0", "--innodb-data-file-path=ibdata1:12M:autoextend:max:60M")
    with started(MariadbServer, *limit) as server:
        await filled(Store(server.fresh(), server))


async def test_the_quota_of_etcd_is_used_up() -> None:
    """Its own limit: an alarm, which only an operator takes back."""
    with started(EtcdServer, "--quota-backend-bytes", str(16 * 1024 * 1024)) as server:
        await filled(Store(server.fresh(), server))


Server = TypeVar("Server", PostgresServer, MariadbServer, EtcdServer)


def started(kind: type[Server], *options: str) -> Server:
    try:
        server = kind(*options)
        server.start()
    except NoDatabase as error:
        pytest.skip(str(error))
    return server
