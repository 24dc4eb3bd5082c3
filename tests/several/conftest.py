"""Servers of several processes, and what tests ask of them. Processes are ended by their ids."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from server_process import ServerProcess

FLUNDERS = "/apis/wardle.example.com/v1alpha1/namespaces/default/flunders"


class Got(NamedTuple):
    """An answer."""

    status: int
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Caller:
    """One connection to one process, whichever has accepted it."""

    def __init__(self, server: ServerProcess, timeout_s: float = 20.0) -> None:
        self._connection = http.client.HTTPSConnection(
            "127.0.0.1", server.port, timeout=timeout_s, context=server.tls()
        )
        self._headers = {"authorization": f"Bearer {server.token}", "content-type": "application/json"}

    def send(self, method: str, path: str, body: Any = None) -> Got:
        encoded = None if body is None else json.dumps(body).encode()
        self._connection.request(method, path, encoded, self._headers)
        answer = self._connection.getresponse()
        return Got(answer.status, answer.read())

    def get(self, path: str) -> Got:
        return self.send("GET", path)

    def watch(self, path: str) -> Iterator[Any]:
        """The events of a watch, until it ends."""
        self._connection.request("GET", path, None, self._headers)
        answer = self._connection.getresponse()
        assert answer.status == 200
        while line := answer.readline():
            yield json.loads(line)

    def create(self, name: str) -> Got:
        return self.send("POST", FLUNDERS, {"metadata": {"name": name}})

    def metrics(self) -> dict[str, float]:
        """Every line of ``/metrics``."""
        lines = self.get("/metrics").body.decode().splitlines()
        parts = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {name: float(value) for name, _, value in parts}

    def close(self) -> None:
        self._connection.close()


def workers_of(server: ServerProcess) -> list[int]:
    """The processes that a supervisor has started."""
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text()
    return [int(pid) for pid in children.split()]


def is_there(pid: int) -> bool:
    """Whether there is such a process, and it hasn't ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def until(true: Callable[[], bool], why: str, seconds: float = 20.0) -> None:
    give_up = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < give_up, why
        time.sleep(0.01)


def connections_of(pid: int) -> int:
    """How many sockets a process has open."""
    count = 0
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it was closed since the folder was read
            count += os.readlink(descriptor).startswith("socket:")
    return count


@contextmanager
def calling(server: ServerProcess, count: int) -> Iterator[list[Caller]]:
    """So many connections, each of which has been answered."""
    callers = []
    try:
        for _ in range(count):
            callers.append(Caller(server))
            assert callers[-1].get(f"{FLUNDERS}?limit=1").status == 200
        yield callers
    finally:
        for caller in callers:
            caller.close()


def with_workers(folder: Path, count: int, *options: str, storage: str | None = None) -> ServerProcess:
    """The wardle example with workers, not yet started."""
    return ServerProcess(
        folder, "wardle", storage, options=["--workers", str(count), "--data-dir", str(folder), *options]
    )


def start_all(server: ServerProcess) -> None:
    """Start a server, and wait until all its workers are ready."""
    banners = server.log.count("serving at") if (server.folder / "server.log").exists() else 0
    server.start()
    until(lambda: server.log.count("serving at") > banners, "all workers are ready")


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Callable[..., ServerProcess]]:
    """Starts the wardle example with workers."""
    running: list[ServerProcess] = []

    def start(count: int, *options: str) -> ServerProcess:
        server = with_workers(tmp_path, count, *options)
        running.append(server)
        start_all(server)
        return server

    yield start
    for server in running:
        server.stop()
