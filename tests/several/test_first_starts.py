"""Many processes start first at the same moment on an empty store and an empty folder, and are killed at any.

There is one authority and one token, ever, and whoever gets as far as serving serves with them.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import random
import re
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from server_process import ROOT, environment

from .conftest import FLUNDERS, until

pytestmark = pytest.mark.slow

ROUNDS = int(os.environ.get("OARLOCK_ROUNDS", "1"))
AT_ONCE = 4


class Starter:
    """A server that is started on a free port, killed and started again."""

    def __init__(self, folder: Path, number: int, storage: str) -> None:
        self.folder = folder
        self._log = folder / f"server-{number}.log"
        workers = ["--workers", "2"] if number == 0 else []
        self._command = [
            *(sys.executable, "-m", "oarlock", "serve", str(ROOT / "examples/wardle/server.py"), *workers),
            *("--secure-port", "0", "--storage", storage, "--write-kubeconfig", f"kubeconfig-{number}"),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                self._command, cwd=self.folder, env=environment(), stdout=log, stderr=subprocess.STDOUT
            )

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @property
    def port(self) -> int:
        """Where it serves, 0 before it does. One that couldn't reach its store in time is started again."""
        text = self._log.read_text()
        assert self._process is not None
        if self._process.poll() is not None:
            assert text.startswith("oarlock: cannot open the store: "), text
            self.start()
            return 0
        found = re.search(r"serving at https://127\.0\.0\.1:(\d+)", text)
        return int(found[1]) if found else 0


@contextlib.contextmanager
def looked_at(files: list[Path]) -> Iterator[dict[Path, set[bytes]]]:
    """Everything that anybody could have read in `files` meanwhile."""
    seen: dict[Path, set[bytes]] = {file: set() for file in files}
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.001):
            for file, contents in seen.items():
                with contextlib.suppress(FileNotFoundError):
                    contents.add(file.read_bytes())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def answers(port: int, ca: bytes, token: bytes) -> int:
    """The status of a list, from who must show a certificate of `ca`."""
    context = ssl.create_default_context(cadata=ca.decode())
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=context)
    connection.request("GET", FLUNDERS, headers={"authorization": f"Bearer {token.decode().strip()}"})
    status = connection.getresponse().status
    connection.close()
    return status


@pytest.mark.parametrize("store", ["sqlite", "etcd"])
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_one_authority_and_one_token_ever(
    request: pytest.FixtureRequest, tmp_path: Path, store: str, seed: int
) -> None:
    dice = random.Random(seed)
    if store == "sqlite":
        storage, data = "sqlite:///store.db", tmp_path
        token = data / "store.token"
    else:
        storage, data = request.getfixturevalue("etcd").fresh(), tmp_path / "oarlock-data"
        token = data / "oarlock.token"
    ca = data / "pki" / "ca.crt"
    starters = [Starter(tmp_path, number, storage) for number in range(AT_ONCE)]
    try:
        with looked_at([token, ca]) as seen:
            for one in starters:
                one.start()
            for one in dice.sample(starters, AT_ONCE - 1):
                time.sleep(dice.random() * 0.6)
                one.kill()
                one.start()
            until(lambda: all(one.port for one in starters), "all serve", 60.0)
            for one in starters:
                assert answers(one.port, ca.read_bytes(), token.read_bytes()) == 200
    finally:
        for one in starters:
            one.kill()
    assert len(seen[token]) == len(seen[ca]) == 1
    left = {path.name for path in (*data.iterdir(), *ca.parent.iterdir()) if path.name.startswith(".")}
    assert {name for name in left if not name.endswith(".new")} == set()
