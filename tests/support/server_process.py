"""An example of this repository as a process of its own, for tests that talk to it as a user would.

A server is started with ``python -m oarlock serve`` on a free port, with certificates, a kubeconfig and a token made
for it in its folder, and is ended by its process id. What it logged is shown when it doesn't start.
"""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path

from database_process import free_port

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "peertoken"
READY_S = 120.0
LEAVE_S = 60.0


class ServerProcess:
    """`ServerProcess(folder, "wardle").start()`; `with` stops it. A path is a server that is no example."""

    def __init__(
        self, folder: Path, example: str | Path, storage: str | None = None, options: Iterable[str] = ()
    ) -> None:
        self.folder = folder
        self.example = example
        self.storage = storage or f"sqlite:///{folder / 'store.db'}"
        self.options = list(options)
        self.port = free_port()
        self.token = TOKEN
        self.kubeconfig = folder / "kubeconfig"
        self.ca = folder / "pki" / "ca.crt"
        self._log = folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tokens.csv").write_text(f'{TOKEN},admin,admin-uid,"system:masters"\n')

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def start(self) -> ServerProcess:
        """Start, and wait until the server says it is ready."""
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(self._command(), stdout=log, stderr=log, cwd=ROOT, env=environment())
        try:
            self._wait_until_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        """Ask the server to leave, as a service manager would."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the server at once: nothing is flushed, nobody is told."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """A crash, and a new start on the same store and port."""
        self.kill()
        self.start()

    def oarlock(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Another ``oarlock`` command beside the server."""
        command = [sys.executable, "-m", "oarlock", *arguments]
        return subprocess.run(
            command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=120, check=True
        )

    def compact(self, revision: int | str | None = None) -> None:
        """``oarlock storage compact`` on the server's store, at its newest revision unless one is given."""
        at = () if revision is None else ("--revision", str(revision))
        self.oarlock("storage", "compact", "--storage", self.storage, *at)

    def restart_compacted(self, revision: str) -> None:
        """Stop it, compact its store at `revision`, and start it again."""
        self.stop()
        self.compact(revision)
        self.start()

    def tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.ca))

    def __enter__(self) -> ServerProcess:
        return self.start() if self._process is None else self

    def __exit__(self, *unused: object) -> None:
        self.stop()

    def _command(self) -> list[str]:
        return [
            *(sys.executable, "-m", "oarlock", *self._subject()),
            *("--secure-port", str(self.port), "--storage", self.storage, "--cert-dir", str(self.folder / "pki")),
            *("--token-auth-file", str(self.folder / "tokens.csv"), "--write-kubeconfig", str(self.kubeconfig)),
            *("--data-dir", str(self.folder), "--anonymous-paths", "/readyz", *self.options),
        ]

    def _subject(self) -> list[str]:
        """The command, and what it serves."""
        program = self.example if isinstance(self.example, Path) else program_of(self.example)
        return ["serve", str(program)]

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        unverified = ssl.create_default_context()
        unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
        until = time.monotonic() + READY_S
        while time.monotonic() < until:
            if self._process.poll() is not None:
                raise AssertionError(f"the server did not start (exit code {self._process.returncode}):\n{self.log}")
            try:
                with urllib.request.urlopen(f"{self.url}/readyz", context=unverified, timeout=5):
                    return
            except urllib.error.HTTPError as error:
                error.close()
            except OSError:
                pass
            time.sleep(0.02)
        raise AssertionError(f"the server was not ready within {READY_S:g} s:\n{self.log}")

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(how)
        try:
            process.wait(LEAVE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"the server did not leave within {LEAVE_S:g} s:\n{self.log}") from None


class ControlPlaneProcess(ServerProcess):
    """``oarlock up`` as a process of its own, with RBAC."""

    def __init__(self, folder: Path, storage: str | None = None, options: Iterable[str] = ()) -> None:
        super().__init__(folder, "up", storage, ["--authorization-mode", "RBAC", *options])

    def _subject(self) -> list[str]:
        return ["up"]


def program_of(example: str) -> str:
    """The file that an example is served from: those that the scaffold makes have it in a package below src/."""
    scaffolded = f"examples/{example}/src/{example.replace('-', '_')}/server.py"
    return scaffolded if (ROOT / scaffolded).is_file() else f"examples/{example}/server.py"


def environment() -> dict[str, str]:
    """This process's environment, in which the source of this checkout comes first."""
    path = os.pathsep.join(part for part in (str(ROOT / "src"), os.environ.get("PYTHONPATH", "")) if part)
    return {**os.environ, "PYTHONPATH": path}
