"""No space: writes fail with one line that says so, reads and watches go on, and with space the writes come back."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import oarlock
from oarlock.storage.sqlite.backend import SqliteBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.contracts.support import END, START, Recorder

WORKER = Path(__file__).with_name("sqlite_worker.py")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(oarlock.__path__[0]).parent)}


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, str(WORKER), "commands", str(tmp_path / "store.db")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=ENVIRONMENT,
    )
    yield process
    process.kill()
    process.communicate()


def ask(process: subprocess.Popen[bytes], *command: object) -> Any:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(command).encode() + b"\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def test_the_kernel_refuses_to_let_the_files_grow(worker: subprocess.Popen[bytes]) -> None:
    """A limit on the size of files in a process of its own: the very write that a full disk refuses, is refused."""
    after = ask(worker, "start")
    last = ask(worker, "fill", 50, 1000)
    ask(worker, "watch", after)
    ask(worker, "file size limit", 200_000)
    refusal = {}
    for number in range(200):
        answer = ask(worker, "put", f"{START}more-{number}", 0)
        if isinstance(answer, dict):
            refusal = answer
            break
        assert answer == [True, last + 1]
        last += 1
    assert "no space for" in refusal["Unavailable"], refusal
    assert "writes fail until there is some" in refusal["Unavailable"]
    assert len(refusal["Unavailable"].splitlines()) == 1
    for _ in range(3):
        assert "Unavailable" in ask(worker, "fill", 100, 1000), "it must go on refusing"
    last = ask(worker, "current")
    count = ask(worker, "count")
    assert count == last - after
    assert ask(worker, "events") == list(range(after + 1, last + 1)), "an event of a write that failed, or one too few"
    assert ask(worker, "check") == []
    ask(worker, "file size limit", 2**30)
    assert ask(worker, "put", f"{START}again", 0) == [True, last + 1]
    assert ask(worker, "fill", 500, 1000) == last + 501
    assert ask(worker, "check") == []
    assert ask(worker, "events")[-1] == last + 501


def test_sqlite_may_take_no_more_pages(tmp_path: Path) -> None:
    async def scenario() -> None:
        backend = SqliteBackend(tmp_path / "store.db", VirtualClock())
        await backend.start()
        seen = Recorder(await backend.current_rev())
        await backend.watch(START, END, after=seen.rev, deliver=seen.deliver, failed=seen.failed)
        await backend.put("/t/a", b"x" * 1000, expect=0)

        def limit(pages: int) -> None:
            backend._files.connection.execute(f"PRAGMA max_page_count={pages}")

        await backend._writer.between(lambda: limit(20))
        results = await asyncio.gather(
            *(backend.put(f"/t/{i}", b"x" * 10_000, expect=0) for i in range(50)), return_exceptions=True
        )
        refusals = [result for result in results if isinstance(result, BaseException)]
        assert refusals
        assert all("no space for" in str(error) for error in refusals)
        kv, _ = await backend.get("/t/a")
        assert kv is not None
        assert await backend.count(START, END) == (len(seen.events), backend.known_rev())
        await backend._writer.between(lambda: limit(1_000_000))
        assert (await backend.put("/t/b", b"x" * 100_000, expect=0)).ok
        assert await backend.check() == []
        assert seen.events[-1].key == "/t/b"
        await backend.close()

    asyncio.run(scenario())
