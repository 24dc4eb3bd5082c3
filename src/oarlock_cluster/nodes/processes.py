"""`ContainerProcesses`: containers of simulated nodes that are processes of this machine.

The image ``oarlock.local/NAME`` is a command that the operator of the server has listed under that name. Pods choose
nothing but arguments behind it, and the environment variables that the operator has listed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, TypeGuard

from oarlock.extend import Tree, rfc3339
from oarlock_cluster.nodes.lifecycle import ProcessEnd

__all__ = ["ContainerProcesses", "LocalCommand", "RunningProcess", "commands_of"]

IMAGES = "oarlock.local/"
LOG_BYTES = 1024 * 1024
"""How much is kept of what a container logs: the end of it."""
LINE_BYTES = 16 * 1024
LINE_COST = 128
"""What a line takes besides its text."""
LAST_S = 2.0
"""How long processes have to end when the server ends, and their pipes when they have."""
_LAUNCH = """\
import ctypes, os, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG: not even a killed server leaves the process behind
try:
    os.execvp(sys.argv[1], sys.argv[1:])
except OSError as error:
    print(f"{sys.argv[1]}: {error.strerror}", flush=True)
    sys.exit(128)
"""


@dataclass(frozen=True, slots=True)
class LocalCommand:
    """A command of this machine, and the environment variables that pods may give it, as patterns of their names."""

    command: Sequence[str]
    env: Sequence[str] = ()


def commands_of(tree: Mapping[str, Any]) -> dict[str, LocalCommand]:
    """The ``processes`` of a file: ``NAME: [command…]``, or with ``command`` and ``env``. Raises ValueError."""
    commands = {}
    for name, given in (tree.get("processes") or {}).items():
        parts = given if isinstance(given, Mapping) else {"command": given}
        command, env = parts.get("command"), parts.get("env") or []
        if not _strings(command) or not command or not _strings(env) or not parts.keys() <= {"command", "env"}:
            raise ValueError(f"processes: {name}: write a list of strings, or command: and env: with such lists")
        commands[str(name)] = LocalCommand(tuple(command), tuple(env))
    return commands


def _strings(given: Any) -> TypeGuard[list[str]]:
    return isinstance(given, list) and all(isinstance(each, str) for each in given)


class RunningProcess:
    """One run of a container: the process, and what it has logged."""

    def __init__(self, restarts: int) -> None:
        self.restarts = restarts
        self.end: ProcessEnd | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._grace_s: float | None = None
        self._wanted: signal.Signals | None = None
        self._lines: deque[tuple[float, bytes]] = deque()
        self._bytes = self._dropped = 0
        self._changed = asyncio.Event()

    async def run(self, command: Sequence[str], env: Mapping[str, str], now: Callable[[], float]) -> None:
        """Until the process has ended, and all that it has started."""
        code = 128
        try:
            ours, theirs = os.pipe()
            try:
                reader = asyncio.StreamReader()
                protocol = asyncio.StreamReaderProtocol(reader)
                loop = asyncio.get_running_loop()
                pipe, _ = await loop.connect_read_pipe(lambda: protocol, os.fdopen(ours, "rb"))
                self._process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-I", "-S", "-c", _LAUNCH, *command),
                    env=env,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=theirs,
                    stderr=theirs,
                    start_new_session=True,
                )
            finally:
                os.close(theirs)
            if self._wanted is not None:
                self._signal(self._wanted)
            reading = asyncio.create_task(self._read(reader, now))
            code = await self._process.wait()
            self._signal(signal.SIGKILL)  # what it has left behind
            await asyncio.wait([reading], timeout=LAST_S)
            reading.cancel()
            pipe.close()
        except (OSError, ValueError) as error:
            self._add([str(error).encode()], now())
        self.end = ProcessEnd(now(), code if code >= 0 else 128 - code)
        self._tell()

    def stop(self, grace_s: float) -> None:
        """Ask the process to end, and end it after `grace_s`."""
        if self.end is None and (self._grace_s is None or grace_s < self._grace_s):
            self._grace_s = grace_s
            self._signal(signal.SIGTERM if grace_s else signal.SIGKILL)
            asyncio.get_running_loop().call_later(grace_s, self._signal, signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        """To the process and what it has started; once there is one."""
        self._wanted = number
        if self._process is not None and self.end is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    async def _read(self, reader: asyncio.StreamReader, now: Callable[[], float]) -> None:
        rest = b""
        while piece := await reader.read(LINE_BYTES):
            *lines, rest = (rest + piece).split(b"\n")
            if len(rest) >= LINE_BYTES:
                lines, rest = [*lines, rest], b""
            self._add(lines, now())
        self._add([rest] if rest else [], now())

    def _add(self, lines: Sequence[bytes], now: float) -> None:
        for line in lines:
            self._lines.append((now, line))
            self._bytes += len(line) + LINE_COST
        while self._bytes > LOG_BYTES:
            self._bytes -= len(self._lines.popleft()[1]) + LINE_COST
            self._dropped += 1
        self._tell()

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def lines(
        self, *, follow: bool = False, tail: int | None = None, timestamps: bool = False
    ) -> AsyncIterator[bytes]:
        """What it has logged; with `follow` also what it logs from now on, until it ends."""
        at = self._dropped + (0 if tail is None else max(0, len(self._lines) - tail))
        while True:
            ended = self.end is not None
            new = list(self._lines)[max(0, at - self._dropped) :]
            at = self._dropped + len(self._lines)
            changed = self._changed
            for time, line in new:
                yield (rfc3339(time).encode() + b" " if timestamps else b"") + line + b"\n"
            if ended or not follow:
                return
            await changed.wait()


class ContainerProcesses:
    """The processes of all pods, by what their containers' status says: one that is running has its process."""

    def __init__(self, commands: Mapping[str, LocalCommand]) -> None:
        self._commands = commands
        self._runs: dict[str, dict[str, RunningProcess]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def refusal(self, pod: Tree) -> str:
        """Why the pod can't run."""
        for kind in ("containers", "initContainers"):
            for each in pod["spec"].get(kind) or ():
                image = each.get("image") or ""
                if image.startswith(IMAGES) and image.removeprefix(IMAGES) not in self._commands:
                    return f"{image}: the server's file of nodes has no such process"
                if image.startswith(IMAGES) and (each.get("command") or kind == "initContainers"):
                    return f"{image}: a process can't be an init container, and has no command but the server's"
        return ""

    def of(self, pod: Tree, container: str) -> RunningProcess | None:
        """The last process of a container."""
        return self._runs.get(pod["metadata"]["uid"], {}).get(container)

    def ends(self, pod: Tree, now: Callable[[], float], changed: Callable[[], None]) -> dict[str, ProcessEnd | None]:
        """The containers that are processes, and how they ended; starts those that should run and don't."""
        ends: dict[str, ProcessEnd | None] = {}
        statuses = {each["name"]: each for each in (pod.get("status") or {}).get("containerStatuses") or ()}
        for container in pod["spec"]["containers"]:
            image, name = container.get("image") or "", container["name"]
            command = self._commands.get(image.removeprefix(IMAGES)) if image.startswith(IMAGES) else None
            status = statuses.get(name) or {}
            if command is None:
                continue
            run, restarts = self.of(pod, name), status.get("restartCount") or 0
            if "running" in (status.get("state") or {}) and (run is None or run.restarts < restarts):
                run = self._runs.setdefault(pod["metadata"]["uid"], {})[name] = RunningProcess(restarts)
                whole = [*command.command, *(container.get("args") or ())]
                task = asyncio.create_task(run.run(whole, _environment(pod, container, command), now))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
                task.add_done_callback(lambda _: changed())
            ends[name] = run.end if run is not None else None
        return ends

    def stop(self, pod: Tree, grace_s: float) -> bool:
        """Ask the processes of a pod to end, and end them after `grace_s`; returns whether any still runs."""
        running = [each for each in self._runs.get(pod["metadata"]["uid"], {}).values() if each.end is None]
        for each in running:
            each.stop(grace_s)
        return bool(running)

    def forget(self, pod: Tree) -> None:
        """The pod is gone: its processes are killed, their logs dropped."""
        self.stop(pod, 0)
        self._runs.pop(pod["metadata"]["uid"], None)

    async def close(self) -> None:
        """End all processes."""
        for runs in self._runs.values():
            for each in runs.values():
                each.stop(LAST_S)
        self._runs = {}
        if self._tasks:
            await asyncio.wait(self._tasks)


def _environment(pod: Tree, container: Tree, command: LocalCommand) -> dict[str, str]:
    """What a process needs of the server's, and the variables that the pod may give."""
    own = {name: os.environ[name] for name in ("HOME", "LANG", "PATH", "TMPDIR") if name in os.environ}
    given = {each["name"]: each.get("value") or "" for each in container.get("env") or () if "valueFrom" not in each}
    allowed = {name: text for name, text in given.items() if any(fnmatchcase(name, each) for each in command.env)}
    return {**own, "HOSTNAME": pod["metadata"]["name"], **allowed}
