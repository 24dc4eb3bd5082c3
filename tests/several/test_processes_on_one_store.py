"""Several processes on one store are one service, on every store: what one has answered, the others know."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from server_process import ServerProcess

from .conftest import FLUNDERS, Caller, Got, calling, start_all, until, with_workers, workers_of

pytestmark = pytest.mark.slow

STORES = ["sqlite", "postgres", "mariadb", "etcd"]
WRITES = 40


@pytest.fixture(scope="module", params=STORES)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Two workers on a store of each kind, for all tests of this file."""
    storage = None if request.param == "sqlite" else request.getfixturevalue(f"{request.param}_server").fresh()
    server = with_workers(tmp_path_factory.mktemp(request.param), 2, "-v", "1", storage=storage)
    try:
        start_all(server)
        yield server
    finally:
        server.stop()


@pytest.fixture
def pair(server: ServerProcess) -> Iterator[tuple[Caller, Caller]]:
    """Two connections, which two workers have."""
    with calling(server, 2) as [one, other]:
        yield one, other


def names(got: Got, prefix: str) -> list[str]:
    assert got.status == 200, got
    return [item["metadata"]["name"] for item in got.json["items"] if item["metadata"]["name"].startswith(prefix)]


def revision(got: Got) -> int:
    assert got.status in (200, 201), got
    return int(got.json["metadata"]["resourceVersion"])


def test_what_one_has_answered_the_other_shows(pair: tuple[Caller, Caller]) -> None:
    for number in range(WRITES):
        writer, reader = pair if number % 2 else pair[::-1]
        rev = revision(writer.create(f"fresh-{number}"))
        got = reader.get(f"{FLUNDERS}/fresh-{number}")
        assert revision(got) == rev
        listed = reader.get(FLUNDERS)
        assert f"fresh-{number}" in names(listed, "fresh")
        assert revision(listed) >= rev
        assert writer.send("DELETE", f"{FLUNDERS}/fresh-{number}").status == 200
        assert reader.get(f"{FLUNDERS}/fresh-{number}").status == 404


def test_so_it_is_while_workers_die_and_are_replaced(server: ServerProcess) -> None:
    for number in range(4):
        restarts = server.log.count("is ready again")
        os.kill(workers_of(server)[number % 2], signal.SIGKILL)
        for step in range(10):
            name = f"dying-{number}-{step}"
            with calling(server, 2) as [writer, reader]:
                rev = revision(writer.create(name))
                assert revision(reader.get(f"{FLUNDERS}/{name}")) == rev
                assert name in names(reader.get(FLUNDERS), "dying")
        until(lambda restarts=restarts: server.log.count("is ready again") > restarts, "it is replaced")


def test_a_watch_goes_on_at_any_of_them(server: ServerProcess) -> None:
    with calling(server, 2) as [writer, _]:
        at = revision(writer.get(f"{FLUNDERS}?limit=1"))
        expected = [f"watched-{number}" for number in range(20)]
        for name in expected:
            assert writer.create(name).status == 201
    seen: list[str] = []
    while len(seen) < len(expected):
        with calling(server, 2) as both:
            watch = both[len(seen) // 3 % 2].watch(f"{FLUNDERS}?watch=true&resourceVersion={at}")
            for event in itertools.islice(watch, min(3, len(expected) - len(seen))):
                seen.append(event["object"]["metadata"]["name"])
                at = int(event["object"]["metadata"]["resourceVersion"])
    assert seen == expected


@dataclass
class History:
    """What was there at some revisions."""

    states: dict[int, list[str]]
    last: int


def make_history(caller: Caller, prefix: str) -> History:
    states: dict[int, list[str]] = {}
    present: list[str] = []
    for number in range(6):
        states[revision(caller.create(f"{prefix}-{number}"))] = present = [*present, f"{prefix}-{number}"]
    deleted = caller.send("DELETE", f"{FLUNDERS}/{prefix}-2")
    assert deleted.status == 200
    last = revision(caller.get(f"{FLUNDERS}?limit=1"))
    states[last] = [name for name in present if not name.endswith("-2")]
    return History(states, last)


def exact(caller: Caller, rev: int, prefix: str) -> list[str]:
    got = caller.get(f"{FLUNDERS}?resourceVersion={rev}&resourceVersionMatch=Exact")
    assert revision(got) == rev
    return names(got, prefix)


def pages(callers: tuple[Caller, Caller], rev: int, prefix: str) -> list[str]:
    """The list at `rev` in pages of two, each from the other process than the one before."""
    found: list[str] = []
    query, number = f"resourceVersion={rev}&resourceVersionMatch=Exact&limit=2", 0
    while query:
        got = callers[number % 2].get(f"{FLUNDERS}?{query}")
        assert revision(got) == rev
        found += names(got, prefix)
        token = got.json["metadata"].get("continue")
        query, number = f"limit=2&continue={token}" if token else "", number + 1
    return found


def test_a_list_at_an_exact_revision_is_had_from_any_of_them(pair: tuple[Caller, Caller]) -> None:
    history = make_history(pair[0], "exact")
    for rev, expected in history.states.items():
        for caller in pair:
            assert exact(caller, rev, "exact") == expected
        assert pages(pair, rev, "exact") == expected


def test_history_is_the_stores_and_ends_where_it_was_compacted(server: ServerProcess) -> None:
    with calling(server, 2) as [one, _]:
        history = make_history(one, "kept")
    server.stop()
    start_all(server)
    with calling(server, 2) as [one, other]:
        for rev, expected in history.states.items():
            assert exact(one, rev, "kept") == expected
            assert pages((one, other), rev, "kept") == expected
        at = sorted(history.states)[3]
        first = one.get(f"{FLUNDERS}?resourceVersion={at}&resourceVersionMatch=Exact&limit=2")
        server.compact(history.last)
        server.stop()
    start_all(server)
    with calling(server, 2) as [one, other]:
        assert exact(one, history.last, "kept") == history.states[history.last]
        for caller in (one, other):
            gone = caller.get(f"{FLUNDERS}?resourceVersion={at}&resourceVersionMatch=Exact")
            assert failure(gone) == (410, "Expired", "The resourceVersion for the provided list is too old.")
            token = first.json["metadata"]["continue"]
            later = caller.get(f"{FLUNDERS}?limit=2&continue={token}")
            assert failure(later)[:2] == (410, "Expired")
            assert later.json["metadata"]["continue"], "the rest may be had as it is now"


def test_a_revision_that_is_not_there_yet_is_refused(pair: tuple[Caller, Caller]) -> None:
    for caller in pair:
        current = revision(caller.get(f"{FLUNDERS}?limit=1"))
        got = caller.get(f"{FLUNDERS}?resourceVersion={current + 1000}&resourceVersionMatch=Exact")
        status, reason, message = failure(got)
        assert (status, reason) == (504, "Timeout")
        assert message == f"Timeout: Too large resource version: {current + 1000}, current: {current}"
        assert got.json["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


def failure(got: Got) -> tuple[int, str, str]:
    status: Any = got.json
    return got.status, status["reason"], status["message"]


def test_servers_of_their_own_ports_share_a_store_as_workers_do(server: ServerProcess, tmp_path: Path) -> None:
    second = ServerProcess(tmp_path, "wardle", server.storage, options=["--data-dir", str(tmp_path)])
    with second.start(), calling(server, 1) as [one], calling(second, 1) as [other]:
        for number in range(WRITES // 2):
            writer, reader = (one, other) if number % 2 else (other, one)
            rev = revision(writer.create(f"second-{number}"))
            assert revision(reader.get(f"{FLUNDERS}/second-{number}")) == rev
            assert f"second-{number}" in names(reader.get(FLUNDERS), "second")
