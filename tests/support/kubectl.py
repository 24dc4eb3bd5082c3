"""kubectl as tests use it: where there is one, in which version, and one command or a running one.

Nothing of the user's kubectl is read or written: home and discovery cache are in the test's folder.
"""

from __future__ import annotations

import functools
import json
import os
import queue
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

DEBIANS = (1, 20)
"""The version of Debian's package, and the oldest the tests are written for."""

COMMAND_S = 120.0


class NoKubectl(Exception):
    """There is none of the kind asked for. The text says why."""


@dataclass(frozen=True)
class Answer:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def rows(self) -> list[list[str]]:
        """A printed table: a list of words for each line, the header first."""
        return [re.split(r"\s{2,}", line.strip()) for line in self.lines]


def client_version(path: str, environment: dict[str, str]) -> tuple[int, int]:
    """Major and minor. A dispatching kubectl has the version of the server its kubeconfig names."""
    command = [path, "version", "--client", "-o", "json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=COMMAND_S, check=False)
    if done.returncode:
        raise NoKubectl(f"{path} doesn't say its version: {done.stderr.strip()}")
    version = json.loads(done.stdout)["clientVersion"]
    return int(version["major"]), int(re.sub(r"\D", "", version["minor"]))


class Kubectl:
    """One kubectl, talking to one server."""

    def __init__(self, path: str, kubeconfig: Path, home: Path) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("KUBE", "GOOGLE"))},
            "HOME": str(home),
            "KUBECACHEDIR": str(home / "cache"),
            "KUBECONFIG": str(kubeconfig),
        }
        self.version = client_version(path, self._environment)

    def __call__(self, *arguments: str, stdin: object = None) -> Answer:
        """Run a command that must succeed. `stdin` that isn't text goes in as JSON."""
        answer = self.run(*arguments, stdin=stdin)
        assert answer.code == 0, f"kubectl {' '.join(arguments)}: exit code {answer.code}\n{answer.out}{answer.err}"
        return answer

    def fails(self, *arguments: str, stdin: object = None) -> str:
        """Run a command that must fail: what it said."""
        answer = self.run(*arguments, stdin=stdin)
        assert answer.code != 0, f"kubectl {' '.join(arguments)} succeeded:\n{answer.out}{answer.err}"
        return answer.err

    def run(self, *arguments: str, stdin: object = None) -> Answer:
        text = stdin if isinstance(stdin, str) or stdin is None else json.dumps(stdin)
        done = subprocess.run(
            [self.path, *arguments],
            env=self._environment,
            input=text,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    @contextmanager
    def running(self, *arguments: str) -> Iterator[Running]:
        """A command that goes on, such as a watch; ended when the block is left."""
        process = subprocess.Popen(
            [self.path, *arguments],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        running = Running(process)
        try:
            yield running
        finally:
            process.kill()
            process.wait()
            running.close()


class Running:
    """What a running command prints, line by line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._name = str(process.args)
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def line(self, timeout: float = 60.0) -> str:
        """The next line; fails when there is none in time, or no more."""
        try:
            line = self._lines.get(timeout=timeout)
        except queue.Empty:
            raise AssertionError(f"{self._name}: printed nothing more within {timeout:g} s") from None
        assert line is not None, f"{self._name}: ended early"
        return line

    def line_with(self, *words: str) -> str:
        """The next line that contains all of `words`."""
        while True:
            line = self.line()
            if all(word in line for word in words):
                return line

    def has_line(self, seconds: float) -> bool:
        """Whether there is a line to be had, now or within `seconds`."""
        until = time.monotonic() + seconds
        while self._lines.empty() and time.monotonic() < until:
            time.sleep(0.01)
        return not self._lines.empty()

    def rest(self, timeout: float = 60.0) -> str:
        """All that is still printed until the command ends by itself, which it must do with exit code 0."""
        code = self._process.wait(timeout)
        self._reader.join(timeout)
        lines: list[str] = []
        while not self._lines.empty():
            line = self._lines.get()
            if line is not None:
                lines.append(line)
        text = "\n".join(lines)
        assert code == 0, f"{self._name}: exit code {code}\n{text}"
        return text

    def still_runs(self, seconds: float = 0.2) -> bool:
        """Whether it goes on for a while."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self._process.poll() is not None:
                return False
            time.sleep(0.02)
        return True

    def close(self) -> None:
        self._reader.join(5)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)


def on_the_path() -> str:
    """The kubectl a user of this machine gets."""
    found = shutil.which("kubectl")
    if found is None:
        raise NoKubectl("no kubectl on the PATH")
    return found


def debians(cache: Path) -> str:
    """Debian's kubectl, unpacked in `cache` and not installed; taken from there the next time."""
    if (on_path := shutil.which("kubectl")) and is_debians(on_path):
        raise NoKubectl("it is the one on the PATH")
    path = cache / "usr" / "bin" / "kubectl"
    if path.exists():
        return str(path)
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise NoKubectl("Debian's kubectl can only be had where there are apt-get and dpkg")
    cache.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache.parent) as folder:
        try:
            _quietly("apt-get", "download", "kubernetes-client", cwd=folder)
        except NoKubectl:
            if os.geteuid() != 0:
                raise
            _quietly("apt-get", "update", cwd=folder)
            _quietly("apt-get", "download", "kubernetes-client", cwd=folder)
        packages = [str(file) for file in Path(folder).glob("*.deb")]
        if len(packages) != 1:
            raise NoKubectl("apt-get has no package kubernetes-client")
        unpacked = Path(folder) / "unpacked"
        _quietly("dpkg", "-x", packages[0], str(unpacked), cwd=folder)
        if not (unpacked / "usr" / "bin" / "kubectl").exists():
            raise NoKubectl("the package kubernetes-client has no kubectl")
        try:
            unpacked.rename(cache)
        except OSError:
            if not path.exists():  # another process may have been faster
                raise
    return str(path)


@functools.cache
def is_debians(path: str) -> bool:
    """Whether a kubectl is of the version that Debian has."""
    try:
        return client_version(path, dict(os.environ)) == DEBIANS
    except NoKubectl:
        return False


def _quietly(*command: str, cwd: str) -> None:
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        raise NoKubectl(f"{' '.join(command)} took too long") from None
    if done.returncode:
        raise NoKubectl(f"{' '.join(command)}: {_last(done.stderr.splitlines())}")


def _last(lines: Sequence[str]) -> str:
    return lines[-1] if lines else "failed"
