"""The wardle example as a process of its own: TLS, a static token, SQLite with every write durable."""

from __future__ import annotations

import os
import socket
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

from oarlock.server.serving.certificates.serving_pair import ensure_certificates

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
    checkout: Path = ROOT

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
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def command(folder: Path, port: int, storage: str, options: Sequence[str], checkout: Path = ROOT) -> list[str]:
    return [
        *(sys.executable, "-m", "oarlock", "serve", str(checkout / "examples" / "wardle" / "server.py")),
        *("--storage", storage),
        *serving_flags(folder, port, options),
    ]


def serving_flags(folder: Path, port: int, options: Sequence[str] = ()) -> list[str]:
    """Flags of a server whose files are in `folder`."""
    return [
        *("--secure-port", str(port), "--cert-dir", str(folder / "pki")),
        *("--token-auth-file", str(folder / "tokens.csv"), "--anonymous-paths", "/readyz"),
        *("--write-kubeconfig", str(folder / "kubeconfig"), "--data-dir", str(folder), *options),
    ]


@contextmanager
def wardle(
    storage: str | None = None, folder: Path | None = None, options: Sequence[str] = (), checkout: Path = ROOT
) -> Iterator[Server]:
    """Start a server of a checkout, by default this one; wait until it is ready, stop it by its pid.

    Its certificates are there before it starts, as they are at all starts but the first.
    """
    with tempfile.TemporaryDirectory(prefix="oarlock-bench-") as temporary:
        where = folder or Path(temporary)
        (where / "tokens.csv").write_text(f'{TOKEN},bench,bench,"system:masters"\n')
        ensure_certificates(where / "pki", (socket.gethostname(),), time.time())
        port = free_port()
        started = time.monotonic()
        # an installed package has its bytecode beside it, whatever this shell thinks of writing bytecode
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPATH"] = str(checkout / "src")
        with open(where / "server.log", "ab") as log:
            process = subprocess.Popen(
                command(where, port, storage or f"sqlite:///{where / 'store.db'}", options, checkout),
                stdout=log,
                stderr=log,
                env=environment,
            )
        with stopped_at_the_end(process):
            wait_until_ready(process, port, where)
            yield Server(process.pid, port, where, time.monotonic() - started, checkout)


@contextmanager
def stopped_at_the_end(process: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
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
    """An object of 600 bytes, whose managedFields, labels and annotations make it one of about 1 KB in the store."""
    return _TEMPLATE % {b"name": name.encode(), b"n": number, b"bucket": number % 100}


_TEMPLATE = (
    b'{"apiVersion":"wardle.example.com/v1alpha1","kind":"Flunder","metadata":{"name":"%(name)b","labels":{"app":"bench",'
    b'"bucket":"b%(bucket)d","tier":"backend-of-the-example"},"annotations":{"example.com/description":"an object of '
    b'about one kilobyte that carries some annotations, as real objects do","example.com/owner":'
    b'"team-storage@example.com","example.com/n":"%(n)d"}},"spec":{"reference":"some-flunder-%(n)d","referenceType":'
    b'"Flunder"}}'
)
