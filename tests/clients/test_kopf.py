"""An operator in kopf, in a process of its own: handlers, retries, finalizers, and a server that goes away under it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kubectl import Running
from server_process import ServerProcess
from until import until

HERE = Path(__file__).parent
MOORINGS = "/apis/moorings.example.com/v1/namespaces/default/moorings"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "server", HERE / "moorings" / "server.py") as server:
        yield server


@contextmanager
def operator(server: ServerProcess, file: Path = HERE / "operators" / "moorings.py") -> Iterator[Running]:
    program = str(file)
    process = subprocess.Popen(
        [sys.executable, "-m", "kopf", "run", "--standalone", "--namespace", "default", "--verbose", program],
        env={**os.environ, "KUBECONFIG": str(server.kubeconfig)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    told = Running(process)
    try:
        yield told
        process.terminate()
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        told.close()


def test_an_operator(server: ServerProcess, api: Callable[[ServerProcess], Any]) -> None:
    call, one = api(server), f"{MOORINGS}/one"
    call("POST", MOORINGS, {"metadata": {"name": "one", "labels": {"stay": "yes"}}, "spec": {"boats": 2}})
    with operator(server) as told:
        told.line_with("one]", "Creation is processed: 2 succeeded; 0 failed")
        told.line_with("one]", "Handling cycle is finished")
        found = call("GET", one)
        assert found["status"] == {"phase": "Taken", "boats": 2}
        assert found["metadata"]["finalizers"] == ["moorings.example.com/operator"]

        call.merge(one, {"spec": {"boats": 7}})
        told.line_with("one]", "failed temporarily: the tide is out")
        told.line_with("one]", "Updating is processed: 1 succeeded; 0 failed")
        told.line_with("one]", "Handling cycle is finished")
        assert call("GET", one)["status"]["boats"] == 7

        server.restart()
        call.merge(one, {"spec": {"boats": 3}})
        told.line_with("one]", "Updating is processed: 1 succeeded; 0 failed")
        told.line_with("one]", "Handling cycle is finished")
        found = call("GET", one)
        assert (found["status"]["boats"], found["metadata"]["generation"]) == (3, 3)

        assert "deletionTimestamp" in call("DELETE", one)["metadata"]
        told.line_with("one]", "failed temporarily: one stays")
        assert call("GET", one)["metadata"]["finalizers"] == ["moorings.example.com/operator"]
        call.merge(one, {"metadata": {"labels": None}})
        told.line_with("one]", "Deletion is processed: 1 succeeded; 0 failed")
        told.line_with("one]", "Deleted, really deleted")
        assert call("GET", MOORINGS)["items"] == []


PROGRAM = re.compile(r"^```python\n# (\S+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def taken_and_held(call: Any) -> None:
    """What the operator of docs/from-kopf.md does, whoever runs it."""
    one = f"{MOORINGS}/one"
    call("POST", MOORINGS, {"metadata": {"name": "one", "labels": {"stay": "yes"}}, "spec": {"boats": 2}})
    until(lambda: call("GET", one).get("status") == {"phase": "Taken", "boats": 2})
    call.merge(one, {"spec": {"boats": 3}})
    until(lambda: call("GET", one)["status"]["boats"] == 3)
    assert "deletionTimestamp" in call("DELETE", one)["metadata"]
    assert call("GET", one)["metadata"]["finalizers"] == ["moorings.example.com/operator"]
    call.merge(one, {"metadata": {"labels": None}})
    until(lambda: call("GET", MOORINGS)["items"] == [])


@pytest.mark.parametrize("home", ["kopf", "oarlock"])
def test_the_operator_of_the_docs_does_the_same_in_both(
    home: str, tmp_path: Path, api: Callable[[ServerProcess], Any]
) -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "from-kopf.md"
    for name, program in PROGRAM.findall(page.read_text()):
        without = program.replace(", controllers=[Moorings()]", "") if home == "kopf" else program
        (tmp_path / name).write_text(without)
    with ServerProcess(tmp_path / "server", tmp_path / "harbour.py") as server:
        if home == "oarlock":
            taken_and_held(api(server))
            return
        with operator(server, tmp_path / "operator_in_kopf.py"):
            taken_and_held(api(server))
