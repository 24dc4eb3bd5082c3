"""`PodAnswers`: logs of simulated pods, and commands in them, as their `PodBehaviour` says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from oarlock import Channels, errors, subresource
from oarlock.extend import PodHooks, Tree
from oarlock_cluster.nodes.kubelets import SimulatedNodes

__all__ = ["PodAnswers"]

NOT_FOUND = 127


def _container(pod: Tree, name: str) -> Tree:
    """The status of a container that runs, or has run. Raises BadRequest."""
    spec, status = pod["spec"], pod.get("status") or {}
    names = [each["name"] for kind in ("containers", "initContainers") for each in spec.get(kind) or ()]
    wanted = name or spec["containers"][0]["name"]
    if wanted not in names:
        raise errors.BadRequest(f"container {wanted} is not valid for pod {pod['metadata']['name']}")
    every = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    found: Tree = next((each for each in every if each["name"] == wanted), {"name": wanted})
    state = found.get("state") or {}
    if not ("running" in state or "terminated" in state or found.get("restartCount")):
        reason = (state.get("waiting") or {}).get("reason") or "ContainerCreating"
        name = pod["metadata"]["name"]
        raise errors.BadRequest(f'container "{wanted}" in pod "{name}" is waiting to start: {reason}')
    return found


def _builtin(pod: Tree, command: Sequence[str]) -> tuple[int, str]:
    """What a few commands answer in every container; there are no others."""
    name, *rest = command or ("",)
    if name == "echo":
        return 0, " ".join(rest) + "\n"
    if name == "hostname":
        return 0, str(pod["spec"].get("hostname") or pod["metadata"]["name"]) + "\n"
    if name in ("true", "false"):
        return int(name == "false"), ""
    return NOT_FOUND, f'exec: "{name}": executable file not found in $PATH\n'


class PodAnswers(PodHooks):
    """Answers for the kubelets of simulated nodes."""

    def __init__(self, nodes: SimulatedNodes) -> None:
        self._nodes = nodes

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
        """The lines that the container has logged; with `follow` the log ends with the pod."""
        found = _container(parent, container)
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
        _container(parent, container)
        answer = self._nodes.behaviour(parent).answer or _builtin
        code, text = answer(parent, command)
        await (channels.stderr if code == NOT_FOUND else channels.stdout).write(text.encode())
        return code

    @subresource("attach", connect=True)
    async def attach(self, channels: Channels, parent: dict[str, Any], *, container: str = "") -> int:
        """The container's output, until the pod ends."""
        found = _container(parent, container)
        for line in self._lines(parent, found["name"]):
            await channels.stdout.write(f"{line}\n".encode())
        await self._nodes.ended(parent)
        return 0
