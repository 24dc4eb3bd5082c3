"""h2spec, the conformance suite of others for servers of HTTP/2 and HPACK, over TLS."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from server_process import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(720)]

CASES = 146
WAIT_S = "10"


def test_every_case_of_h2spec_passes(h2spec: Path, tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "server", "hello") as server:
        where = ["--host", "127.0.0.1", "--port", str(server.port), "--path", "/readyz", "--tls", "--insecure"]
        done = subprocess.run(
            [str(h2spec), *where, "--strict", "--timeout", WAIT_S],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=600,
            check=False,
        )
        log = server.log
    found = re.search(r"(\d+) tests, (\d+) passed, (\d+) skipped, (\d+) failed", done.stdout)
    assert found is not None, done.stdout + done.stderr
    cases, passed, skipped, failed = (int(number) for number in found.groups())
    assert (cases, failed) == (CASES, 0), done.stdout[done.stdout.find("Failures") :]
    assert passed + skipped == CASES
    assert skipped <= 1, done.stdout  # one asks for a limit of streams before the server's SETTINGS have come
    assert "Traceback" not in log
