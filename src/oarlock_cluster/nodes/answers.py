"""`PodAnswers`: logs of simulated pods, and commands in them, as their `PodBehaviour` says.

Files that ``kubectl cp`` brings to a container are kept in memory as long as the pod runs; ``tar``, ``cat`` and
``test -d`` see them.
"""

from __future__ import annotations

import asyncio
import io
import posixpath
import tarfile
from collections.abc import AsyncIterator, Sequence
from typing import Any

from oarlock import Channels, Pipe, errors, subresource
from oarlock.extend import PodHooks, Tree
from oarlock_cluster.nodes.kubelets import SimulatedNodes

__all__ = ["PodAnswers"]

NOT_FOUND = 127
MOST_BYTES = 8 * 1024 * 1024
"""How much can be copied to a container at once, and how much its files may have together."""
PIECE_BYTES = 32 * 1024

_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
_STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
ContainerFiles = dict[str, bytes | None]
"""The files of a container by path; None is a directory."""
_DIRECTORIES: ContainerFiles = dict.fromkeys(
    ("/", "/etc", "/home", "/mnt", "/opt", "/root", "/run", "/srv", "/tmp", "/usr", "/var")
)


def _container(pod: Tree, name: str) -> Tree:
    """The status of a container that runs, or has run. Raises BadRequest."""
    spec, status = pod["spec"], pod.get("status") or {}
    names = [each["name"] for kind in _CONTAINERS for each in spec.get(kind) or ()]
    wanted = name or spec["containers"][0]["name"]
    if wanted not in names:
        raise errors.BadRequest(f"container {wanted} is not valid for pod {pod['metadata']['name']}")
    every = [each for kind in _STATUSES for each in status.get(kind) or ()]
    found: Tree = next((each for each in every if each["name"] == wanted), {"name": wanted})
    state = found.get("state") or {}
    if not ("running" in state or "terminated" in state or found.get("restartCount")):
        reason = (state.get("waiting") or {}).get("reason") or "ContainerCreating"
        name = pod["metadata"]["name"]
        raise errors.BadRequest(f'container "{wanted}" in pod "{name}" is waiting to start: {reason}')
    return found


def _builtin(pod: Tree, files: ContainerFiles, command: Sequence[str]) -> tuple[int, bytes]:
    """What a few commands answer in every container; there are no others."""
    name, *rest = command or ("",)
    if name == "echo":
        return 0, f"{' '.join(rest)}\n".encode()
    if name == "hostname":
        return 0, f"{pod['spec'].get('hostname') or pod['metadata']['name']}\n".encode()
    if name in ("true", "false"):
        return int(name == "false"), b""
    if name == "test" and rest[:1] == ["-d"]:
        path = _path(*rest[1:])
        return int(files.get(path, b"") is not None), b""
    if name == "cat" and rest and all(files.get(_path(each)) is not None for each in rest):
        return 0, b"".join(files[_path(each)] or b"" for each in rest)
    if name == "cat":
        return 1, f"cat: {' '.join(rest)}: No such file or directory\n".encode()
    return NOT_FOUND, f'exec: "{name}": executable file not found in $PATH\n'.encode()


def _path(*parts: str) -> str:
    return posixpath.normpath(posixpath.join("/", *parts))


def _packed(files: ContainerFiles, paths: Sequence[str]) -> bytes:
    """An archive of files and directories. Raises KeyError for a path that isn't there."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for wanted in map(_path, paths):
            found = [path for path in sorted(files) if path == wanted or path.startswith(f"{wanted.rstrip('/')}/")]
            if not found:
                raise KeyError(wanted)
            for path in found:
                data, member = files[path], tarfile.TarInfo(path.lstrip("/"))
                member.type, member.mode = (tarfile.DIRTYPE, 0o755) if data is None else (tarfile.REGTYPE, 0o644)
                member.size = len(data or b"")
                archive.addfile(member, io.BytesIO(data or b""))
    return packed.getvalue()


def _unpacked(data: bytes, directory: str) -> ContainerFiles:
    """The files of an archive, and the directories in which they are. Raises tarfile.TarError."""
    files: ContainerFiles = {}
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        for member in archive:
            if member.isfile() or member.isdir():
                content = archive.extractfile(member)
                files[_path(directory, member.name)] = None if content is None else content.read()
    for path in list(files):
        while (path := posixpath.dirname(path)) != "/":
            files[path] = None
    return files


def _tar_arguments(arguments: Sequence[str]) -> tuple[str, str, list[str]]:
    """Whether to pack (``c``) or unpack (``x``), in which directory, and what."""
    mode, directory, paths = "", "/", []
    given = iter(arguments)
    for each in given:
        if each == "-C":
            directory = next(given, "/")
        elif each != "-" and not each.startswith("--"):
            if mode:
                paths.append(each)
            else:
                mode = each.lstrip("-")[:1]
    return mode, directory, [posixpath.join(directory, path) for path in paths]


class PodAnswers(PodHooks):
    """Answers for the kubelets of simulated nodes."""

    def __init__(self, nodes: SimulatedNodes) -> None:
        self._nodes = nodes
        self._files: dict[tuple[str, str], tuple[Tree, ContainerFiles]] = {}

    def _lines(self, pod: Tree, container: str) -> list[str]:
        log = self._nodes.behaviour(pod).log
        text = log(pod, container) if callable(log) else log
        return text.splitlines()

    @subresource("log")
    async def log(
        self,
        parent: dict[str, Any],
        *,
        container: str = "",
        follow: bool = False,
        tail_lines: int | None = None,
        timestamps: bool = False,
    ) -> AsyncIterator[bytes]:
        """The lines that the container has logged; with `follow` the log ends with the pod, or with its process."""
        found = _container(parent, container)
        process = self._nodes.process(parent, found["name"])
        if process is not None:
            async for said in process.lines(follow=follow, tail=tail_lines, timestamps=timestamps):
                yield said
            return
        state = found.get("state") or {}
        began = (state.get("running") or state.get("terminated") or {}).get("startedAt") or ""
        lines = self._lines(parent, found["name"])
        for line in lines if tail_lines is None else lines[max(0, len(lines) - tail_lines) :]:
            yield (f"{began} {line}\n" if timestamps else f"{line}\n").encode()
        if follow:
            await self._nodes.ended(parent)

    @subresource("exec", connect=True)
    async def exec(
        self,
        channels: Channels,
        parent: dict[str, Any],
        *,
        container: str = "",
        command: list[str] = [],  # noqa: B006 (a default of the query)
    ) -> int:
        """What the command prints, and its exit code."""
        found = _container(parent, container)
        _, files = self._files.get((parent["metadata"]["uid"], found["name"]), (parent, _DIRECTORIES))
        answer = self._nodes.behaviour(parent).answer
        if answer is not None:
            code, text = answer(parent, command)
            output = text.encode()
        elif command[:1] == ["tar"]:
            code, output = await self._tar(channels, parent, found["name"], files, command[1:])
        else:
            code, output = _builtin(parent, files, command)
        failed = answer is None and code and output
        await (channels.stderr if failed or code == NOT_FOUND else channels.stdout).write(output)
        return code

    async def _tar(
        self, channels: Channels, pod: Tree, container: str, files: ContainerFiles, arguments: Sequence[str]
    ) -> tuple[int, bytes]:
        mode, directory, paths = _tar_arguments(arguments)
        if mode == "c":
            try:
                return 0, _packed(files, paths)
            except KeyError as error:
                return 2, f"tar: {error.args[0]}: Cannot stat: No such file or directory\n".encode()
        if mode != "x":
            return 2, b"tar: it packs and unpacks\n"
        data = bytearray()
        async for piece in channels.stdin:
            data += piece
            if len(data) > MOST_BYTES:
                return 2, b"tar: No space left on device\n"
        try:
            files = {**files, **_unpacked(bytes(data), directory)}
        except tarfile.TarError as error:
            return 2, f"tar: {error}\n".encode()
        if sum(len(content or b"") for content in files.values()) > MOST_BYTES:
            return 2, b"tar: No space left on device\n"
        self._files = {key: kept for key, kept in self._files.items() if self._nodes.runs(kept[0])}
        self._files[pod["metadata"]["uid"], container] = pod, files
        return 0, b""

    @subresource("attach", connect=True)
    async def attach(self, channels: Channels, parent: dict[str, Any], *, container: str = "") -> int:
        """The container's output, until the pod ends."""
        found = _container(parent, container)
        process = self._nodes.process(parent, found["name"])
        if process is not None:
            async for said in process.lines(follow=True):
                await channels.stdout.write(said)
            return process.end.code if process.end is not None else 0
        for line in self._lines(parent, found["name"]):
            await channels.stdout.write(f"{line}\n".encode())
        await self._nodes.ended(parent)
        return 0

    @subresource("portforward", ports=True)
    async def portforward(self, parent: dict[str, Any], port: int, pipe: Pipe) -> None:
        """A connection to a function, or to a port of this machine."""
        target = self._nodes.behaviour(parent).ports.get(port)
        if target is None:
            raise ConnectionRefusedError(f"dial tcp4 127.0.0.1:{port}: connect: connection refused")
        if callable(target):
            await target(pipe)
        else:
            await _connect(target, pipe)


async def _connect(port: int, pipe: Pipe) -> None:
    """Carry bytes to a port of this machine and back, until it has closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def send() -> None:
        while data := await pipe.read():
            writer.write(data)
            await writer.drain()
        writer.write_eof()

    sending = asyncio.create_task(send())
    try:
        while data := await reader.read(PIECE_BYTES):
            await pipe.write(data)
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        writer.close()
