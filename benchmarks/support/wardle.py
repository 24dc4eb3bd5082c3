"""The wardle example as a process of its own: TLS, a static token, SQLite with every write durable."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "benchmark-token"
FLUNDERS = "/apis/wardle.example.com/v1alpha1/namespaces/default/flunders"
OTHER_VERSION = "/apis/wardle.example.com/v1beta1/namespaces/default/flunders"
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Server:
    """A running server: where it is, and what it has used."""

    pid: int
    port: int
    folder: Path
    ready_s: float

    @property
    def ca(self) -> str:
        return str(self.folder / "pki" / "ca.crt")

    def tls(self, *protocols: str) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca)
        context.set_alpn_protocols(list(protocols))
        return context

    def cpu_s(self) -> float:
        """CPU seconds used so far, user and system, of all threads."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def rss_mb(self) -> float:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        return 0.0


def free_port() -> int:
    import socket  # noqa: PLC0415 (only where a port has to be found)

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def command(folder: Path, port: int, storage: str, options: Sequence[str]) -> list[str]:
    return [
        *(sys.executable, "-m", "oarlock", "serve", str(ROOT / "examples" / "wardle" / "server.py")),
        *("--secure-port", str(port), "--storage", storage, "--cert-dir", str(folder / "pki")),
        *("--token-auth-file", str(folder / "tokens.csv"), "--anonymous-paths", "/readyz"),
        *("--write-kubeconfig", str(folder / "kubeconfig"), "--data-dir", str(folder), *options),
    ]


@contextmanager
def wardle(storage: str | None = None, folder: Path | None = None, options: Sequence[str] = ()) -> Iterator[Server]:
    """Start a server, wait until it is ready, stop it by its pid."""
    with tempfile.TemporaryDirectory(prefix="oarlock-bench-") as temporary:
        where = folder or Path(temporary)
        (where / "tokens.csv").write_text(f'{TOKEN},bench,bench,"system:masters"\n')
        port = free_port()
        started = time.monotonic()
        # an installed package has its bytecode beside it, whatever this shell thinks of writing bytecode
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        with open(where / "server.log", "ab") as log:
            process = subprocess.Popen(
                command(where, port, storage or f"sqlite:///{where / 'store.db'}", options),
                stdout=log,
                stderr=log,
                env=environment,
            )
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


def wait_until_ready(process: subprocess.Popen[bytes], port: int, folder: Path) -> None:
    unverified = ssl._create_unverified_context()
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if process.poll() is not None:
            sys.exit("the server did not start:\n" + (folder / "server.log").read_text())
        try:
            with urllib.request.urlopen(f"https://127.0.0.1:{port}/readyz", context=unverified, timeout=5):
                return
        except OSError:
            time.sleep(0.005)
    sys.exit("the server did not become ready within 60 s")


def flunder(name: str, number: int = 0) -> bytes:
    """An object of about 1 KB that carries 300 bytes of managedFields, as most real objects do."""
    return _TEMPLATE.replace(b"NAME", name.encode()).replace(b"N100", str(number % 100).encode())


_TEMPLATE = (
    b'{"apiVersion":"wardle.example.com/v1alpha1","kind":"Flunder","metadata":{"name":"NAME","labels":{"app":"bench",'
    b'"bucket":"bN100","tier":"backend-of-the-example"},"annotations":{"example.com/description":"an object of about '
    b'one kilobyte that carries some annotations, as real objects do","example.com/owner":"team-storage@example.com",'
    b'"example.com/n":"N100"},"managedFields":[{"manager":"bench","operation":"Update","apiVersion":'
    b'"wardle.example.com/v1alpha1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":'
    b'{"f:annotations":{".":{},"f:example.com/description":{},"f:example.com/owner":{}},"f:labels":{".":{},"f:app":{},'
    b'"f:bucket":{},"f:tier":{}}},"f:spec":{"f:reference":{},"f:referenceType":{}}}}]},"spec":{"reference":'
    b'"some-flunder-N100","referenceType":"Flunder"}}'
)
