"""A database's server as a process that the tests start: its folder, its port, its end.

It can't outlive the tests. It is ended when the tests end, by the kernel when they are killed (``setpriv --pdeathsig``,
where there is one), and the folder of a killed run is removed by the next. The kernel ends it with the *thread* that
started it, so it is started from one that lives as long as it is needed.

See also: `databases` for the kinds.
"""

from __future__ import annotations

import atexit
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

READY_S = 60.0
LEAVE_S = 30.0
STARTS = 5
"""How often a start is tried, each time on another port: between choosing a port and taking it, others may take it."""

_PREFIX = "oarlock-databases-"
_POLL_S = 0.01
_PORTS = range(15000, 32000)
"""Below the ports that Linux gives to outgoing connections, which would take the port of a server that restarts."""


class NoDatabase(Exception):
    """The program isn't on this machine, or can't be run here. The text says why."""


class DatabaseProcess(ABC):
    """One server of a database on a port of 127.0.0.1, with its data in a folder of its own; `with` starts and ends it.

    `options` are more arguments for the program; they may be changed before a `restart`.
    """

    program: ClassVar[str]
    ready_lines: ClassVar[tuple[str, ...]]
    """The server has started when its log has a line with one of these."""
    user: ClassVar[str | None] = None
    """Whose process it is where the tests run as root."""
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    death_signal: ClassVar[str] = "KILL"

    def __init__(self, *options: str) -> None:
        self.executable = self.find_executable()
        self.options: list[str] = list(options)
        self.choose_ports()
        self.folder = new_folder(self.user if os.geteuid() == 0 else None)
        self.data = self.folder / "data"
        self._log = self.folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    # What the kinds say

    def find_executable(self) -> str:
        return executable(self.program)

    @abstractmethod
    def create_data(self) -> None:
        """Fill `data`."""

    @abstractmethod
    def command(self) -> list[str]:
        """The server's command line, without `options`."""

    # What tests do with it

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.program} doesn't run"
        return self._process.pid

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, on the data that is there or on new data, and wait until it is ready."""
        if self.data.exists():
            self.launch()
            self.wait_until_ready()
            return
        for attempt in range(STARTS):
            try:
                self.create_data()
                self.launch()
                self.wait_until_ready()
                return
            except AssertionError:
                if attempt == STARTS - 1:
                    raise
                shutil.rmtree(self.data, ignore_errors=True)
                self.choose_ports()

    def choose_ports(self) -> None:
        """Find free ports to listen on."""
        self.port = free_port()

    def launch(self) -> None:
        """Start the process, without waiting until it is ready."""
        self._log_start = len(self.log)
        command = self.as_user(*self.command(), *self.options)
        with open(self._log, "ab") as log:
            # A session of its own: Ctrl-C in the terminal is for the tests, which end it themselves.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
                env={**os.environ, "LC_ALL": "C"},
            )

    def wait_until_ready(self) -> None:
        try:
            self._wait_until_ready()
        except BaseException:
            self.kill()
            raise

    def ensure_running(self) -> None:
        """Start it again if a test left it stopped or killed, and continue it if one left it suspended."""
        if self.runs:
            self.resume()
        else:
            self.restart()

    def stop(self) -> None:
        """Ask it to leave, and wait until it has gone. Nothing happens when it doesn't run."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.send_signal(self.stop_signal)
        try:
            process.wait(LEAVE_S)
        except subprocess.TimeoutExpired:
            kill_all(process.pid)
            process.wait()
            raise AssertionError(f"{self.program} did not leave within {LEAVE_S:g} s:\n{self._tail()}") from None

    def kill(self) -> None:
        """``kill -9`` of all its processes; they are gone when this returns."""
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            children = kill_all(process.pid)
            process.wait()
            _wait_until_gone(children)

    def restart(self) -> None:
        """A crash, and a new start on the same data and port."""
        self.kill()
        self.launch()
        self.wait_until_ready()

    def suspend(self) -> None:
        """SIGSTOP to all its processes: connections stay open, and nothing answers."""
        for pid in [self.pid, *children_of(self.pid)]:
            _signal(pid, signal.SIGSTOP)

    def resume(self) -> None:
        for pid in [self.pid, *children_of(self.pid)]:
            _signal(pid, signal.SIGCONT)

    def copy_data(self, to: Path) -> None:
        """Copy the data as it is on the disk; it must not run."""
        assert not self.runs, "a copy of data that is written to is of no use"
        command = ["cp", "-a", str(self.data), str(to)]
        subprocess.run(command, check=True, timeout=READY_S)

    def replace_data(self, source: Path) -> None:
        """Take what `copy_data` made instead of the data; it must not run."""
        assert not self.runs, f"{self.program} uses its data"
        shutil.rmtree(self.data)
        subprocess.run(["cp", "-a", str(source), str(self.data)], check=True, timeout=READY_S)

    def close(self) -> None:
        """End it, and remove its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> DatabaseProcess:
        if not self.runs:
            self.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    # For the kinds

    def as_user(self, *command: str) -> list[str]:
        """`command` as the database's user, ended by the kernel when the tests are killed."""
        prefix: list[str] = []
        if self.user is not None and os.geteuid() == 0:
            prefix += [f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"]
        if shutil.which("setpriv"):
            return ["setpriv", *prefix, "--pdeathsig", self.death_signal, "--", *command]
        if prefix:
            raise NoDatabase(f"{self.program} can't be run as root, and there is no setpriv to run it as {self.user}")
        return list(command)

    def run(self, *command: str, env: dict[str, str] | None = None, stdin: str | None = None) -> str:
        """What a helper program prints; it must succeed."""
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=READY_S,
            check=False,
            cwd=self.folder,
            input=stdin,
            env={**os.environ, **(env or {})},
        )
        assert done.returncode == 0, f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    # Internal

    def _wait_until_ready(self) -> None:
        assert self._process is not None, f"{self.program} wasn't started"
        until = time.monotonic() + READY_S
        while time.monotonic() < until:
            if any(line in self.log[self._log_start :] for line in self.ready_lines):
                return
            code = self._process.poll()
            assert code is None, f"{self.program} did not start (exit code {code}):\n{self._tail()}"
            time.sleep(_POLL_S)
        raise AssertionError(f"{self.program} was not ready within {READY_S:g} s:\n{self._tail()}")

    def _tail(self) -> str:
        return "\n".join(self.log[self._log_start :].splitlines()[-30:])


def executable(program: str, also_in: Sequence[str] = ()) -> str:
    """The path of `program`: on the PATH, or where Debian puts what isn't."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", *also_in])
    found = shutil.which(program, path=path)
    if found is None:
        raise NoDatabase(f"there is no {program} on this machine")
    return found


def free_port() -> int:
    """A port nobody listens on now."""
    while True:
        port = random.SystemRandom().choice(_PORTS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def new_folder(user: str | None) -> Path:
    """A folder that is removed with this process. Its path is short, since a socket's may have 107 bytes only."""
    _remove_left_folders()
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if user is not None:
        try:
            entry = pwd.getpwnam(user)
        except KeyError:
            raise NoDatabase(f"there is no user {user} on this machine, and root may not run the server") from None
        os.chown(folder, entry.pw_uid, entry.pw_gid)
    return folder


def children_of(pid: int) -> list[int]:
    """The processes that `pid` started and that still run; empty where there is no /proc."""
    return [child for child, parent in _parents() if parent == pid]


def kill_all(pid: int) -> list[int]:
    """``kill -9`` of a process and of what it started. It is suspended first, so that it starts nothing meanwhile."""
    _signal(pid, signal.SIGSTOP)
    children = children_of(pid)
    for process in [pid, *children]:
        _signal(process, signal.SIGKILL)
    return children


def _parents() -> Iterator[tuple[int, int]]:
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            after_name = entry.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if after_name[0] != "Z":
            yield int(entry.parent.name), int(after_name[1])


def _wait_until_gone(processes: Iterable[int]) -> None:
    until = time.monotonic() + LEAVE_S
    waiting = set(processes)
    while waiting and time.monotonic() < until:
        waiting &= {pid for pid, _ in _parents()}
        if waiting:
            time.sleep(_POLL_S)
    assert not waiting, f"processes {sorted(waiting)} outlived kill -9"


def _signal(pid: int, signal_: signal.Signals) -> None:
    try:
        os.kill(pid, signal_)
    except ProcessLookupError:
        pass


def _remove_left_folders() -> None:
    """Remove the folders of test runs that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdecimal() and not _lives(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
