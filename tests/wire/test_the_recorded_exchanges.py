"""Every exchange recorded with the Go sample server, sent to wardle in a process of its own, answers as recorded.

And alike on every store.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from recorded_exchanges import TOOL, MemoryServerProcess, Replayed, replay
from server_process import ServerProcess

ROOT = Path(__file__).resolve().parents[2]

MOST_DIFFERENCES = 8


@pytest.mark.slow
@pytest.mark.timeout(360)
def test_every_exchange_is_answered_as_recorded_on_every_store(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """All stores at the same time, because most of a replay is waiting."""
    if not TOOL.exists():
        pytest.skip("the replay tool and its recording are not beside this checkout")
    servers: dict[str, ServerProcess] = {
        "memory": MemoryServerProcess(tmp_path / "memory"),
        "sqlite": ServerProcess(tmp_path / "sqlite", "wardle"),
    }
    missing = []
    for database in ("postgres", "mariadb", "etcd"):
        try:
            url = request.getfixturevalue(database).fresh()
        except pytest.skip.Exception as error:
            missing.append(str(error))
        else:
            servers[database] = ServerProcess(tmp_path / database, "wardle", url)
    with ThreadPoolExecutor() as threads:
        replayed = dict(zip(servers, threads.map(replay, servers.values()), strict=True))
    for store, result in replayed.items():
        _must_be_as_recorded(store, result)
    if missing:
        pytest.skip(f"all is well on {', '.join(replayed)}; {'; '.join(missing)}")


def _must_be_as_recorded(store: str, result: Replayed) -> None:
    expected = differences()
    assert len(result.exchanges) > 200
    unexpected = sorted(result.failed - expected)
    assert not unexpected, f"on {store}, answered otherwise than recorded: {unexpected}\n{result.printed}"
    agreed = sorted(expected - result.failed)
    assert not agreed, f"on {store}, answered as recorded after all, and still listed as if not: {agreed}"


def test_deliberate_differences_are_few() -> None:
    assert len(differences()) <= MOST_DIFFERENCES


def differences() -> set[int]:
    """The exchanges in the first column of the table in docs/differences.md."""
    document = (ROOT / "docs" / "differences.md").read_text()
    return {int(number) for number in re.findall(r"^\| *(\d+) *\|", document, re.MULTILINE)}
