"""A server process whose clients have no credential, and much to say: its memory stays what it was."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from server_process import ServerProcess

MIB = 1024 * 1024
LONG = 900_000
COUNT = 60
GROWS_BYTES = 40 * MIB
FLUNDERS = "/apis/wardle.example.com/v1alpha1/flunders"

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")


@pytest.fixture(scope="module")
def wardle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("wardle"), "wardle", "memory://") as server:
        yield server


def resident(server: ServerProcess) -> int:
    """How much memory the server has, in bytes."""
    for line in Path(f"/proc/{server.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the server has no memory at all")


def ask(server: ServerProcess, what: str, n: int, connection: http.client.HTTPSConnection) -> int:
    spelled = f"{n:0{LONG}}"
    path, headers = FLUNDERS, {}
    if what == "query":
        path = f"{FLUNDERS}?labelSelector={spelled}"
    elif what == "escapes":
        path = f"{FLUNDERS}?labelSelector={n}" + "%41" * (LONG // 3)
    elif what == "path":
        path = f"{FLUNDERS}/{spelled}"
    elif what == "probe":
        path = f"/readyz?{spelled}"
    elif what == "accept":
        headers["Accept"] = f"application/json;x={spelled},*/*"
    elif what == "token":
        headers["Authorization"] = f"Bearer {spelled}"
    elif what == "name of a header":
        headers[f"x-{spelled}"] = "x"
    elif what == "websocket":
        headers |= {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Protocol": "a," * (LONG // 2)}
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    answer.read()
    return answer.status


@pytest.mark.slow
@pytest.mark.parametrize(
    "what", ["query", "escapes", "path", "probe", "accept", "token", "name of a header", "websocket"]
)
def test_what_strangers_say_is_forgotten(wardle: ServerProcess, what: str) -> None:
    connection = http.client.HTTPSConnection(
        "127.0.0.1", wardle.port, context=ssl.create_default_context(cafile=str(wardle.ca)), timeout=30
    )
    for n in range(5):
        ask(wardle, what, n, connection)  # what the first ones of a kind need is there afterwards
    before = resident(wardle)
    answered = {ask(wardle, what, n, connection) for n in range(5, COUNT)}
    connection.close()
    assert answered == ({200} if what == "probe" else {401})
    assert resident(wardle) - before < GROWS_BYTES
