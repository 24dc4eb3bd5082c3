"""The same for pods, so that kubectl's own `logs` and `exec` work: what a kubelet answers in a cluster."""

from collections.abc import AsyncIterator
from typing import Any

from oarlock import Channels, subresource
from oarlock.extend import PodHooks

from .shells import Shell, Shells

Command = list[str]


class PodShells(PodHooks):
    """Each pod is one shell, whatever its containers are."""

    def __init__(self, shells: Shells) -> None:
        self._shells = shells

    def _shell(self, pod: dict[str, Any]) -> Shell:
        return self._shells.of(pod["metadata"]["uid"], f"pod {pod['metadata']['name']} is here")

    @subresource("log")
    async def log(
        self, parent: dict[str, Any], *, follow: bool = False, tail_lines: int | None = None
    ) -> AsyncIterator[bytes]:
        async for line in self._shell(parent).log(follow=follow, tail=tail_lines):
            yield line

    @subresource("exec", connect=True)
    async def exec(self, parent: dict[str, Any], channels: Channels, *, command: Command = []) -> int:  # noqa: B006
        return await self._shell(parent).run(command, channels)
