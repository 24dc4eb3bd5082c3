"""``oarlock up`` as a process of its own: TLS, RBAC, two tokens, SQLite with every write durable.

The load is from a user whom a Role lets in, as most clients of a control plane are; the administrator prepares.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.wardle import TOKEN, Server, free_port, wait_until_ready

ADMIN = "benchmark-admin"


@contextmanager
def control_plane(folder: Path | None = None, options: Sequence[str] = ()) -> Iterator[Server]:
    """Start a control plane, wait until it is ready, stop it by its pid. In a `folder` it finds what was there."""
    with tempfile.TemporaryDirectory(prefix="oarlock-bench-") as temporary:
        where = folder or Path(temporary)
        (where / "tokens.csv").write_text(f'{TOKEN},bench,bench\n{ADMIN},admin,admin,"system:masters"\n')
        port = free_port()
        command = [
            *(sys.executable, "-m", "oarlock", "up", "--secure-port", str(port), "--cert-dir", str(where / "pki")),
            *("--storage", f"sqlite:///{where / 'store.db'}", "--token-auth-file", str(where / "tokens.csv")),
            *("--write-kubeconfig", str(where / "kubeconfig"), "--data-dir", str(where), *options),
        ]
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        started = time.monotonic()
        with open(where / "server.log", "ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        try:
            wait_until_ready(process, port, where)
            yield Server(process.pid, port, where, time.monotonic() - started)
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Administrator:
    """Requests of the administrator, one after the other on one connection."""

    def __init__(self, server: Server) -> None:
        self._connection = http.client.HTTPSConnection("localhost", server.port, context=server.tls("http/1.1"))

    def ask(self, method: str, path: str, body: Any = None, accept: str = "application/json") -> tuple[int, bytes]:
        headers = {"authorization": f"Bearer {ADMIN}", "accept": accept, "content-type": "application/json"}
        data = None if body is None else json.dumps(body)
        self._connection.request(method, path, data, headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def create(self, path: str, body: Any) -> None:
        """Create an object, which must succeed."""
        status, answer = self.ask("POST", path, body)
        if status != 201:
            raise SystemExit(f"{path}: {status} {answer[:500].decode()}")
