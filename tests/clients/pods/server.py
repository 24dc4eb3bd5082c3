"""Pods as far as clients need them to talk with one: exec, attach and port-forward. Nothing is run in them."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Annotated

from oarlock import (
    APIServer,
    Channels,
    ListMap,
    Model,
    Resource,
    Served,
    StoredCollection,
    errors,
    served_from,
    subresource,
)


class Container(Model):
    """Only its name."""

    name: str
    stdin: bool = False


class PodSpec(Model):
    """What is in a pod."""

    containers: Annotated[list[Container], ListMap("name")] = []


class PodStatus(Model):
    """How it is."""

    phase: str = ""


class Pod(Resource, group="core.example.com", version="v1", status_subresource=True):
    """A pod that pretends."""

    spec: PodSpec
    status: PodStatus | None = None


class Pods(StoredCollection[Pod]):
    """Pods that always run."""

    def prepare(self, new: Pod, old: Pod | None, ctx: object) -> None:
        new.status = PodStatus(phase="Running")

    @subresource("exec", connect=True)
    async def _exec(
        self,
        parent: Pod,
        channels: Channels,
        *,
        command: list[str] = [],  # noqa: B006 never changed
        container: str = "",
        stdin: bool = False,
    ) -> int:
        if container and all(one.name != container for one in parent.spec.containers):
            raise errors.BadRequest(f"container {container} is not valid for pod {parent.metadata.name}")
        await channels.stdout.write(f"{' '.join(command)} in {container}\n".encode())
        while stdin and (data := await channels.stdin.read()):
            await channels.stdout.write(data)
        if command[:1] == ["fail"]:
            await channels.stderr.write(b"it failed\n")
            return 3
        return 0

    @subresource("attach", connect=True)
    async def _attach(self, channels: Channels, *, stdin: bool = False) -> None:
        await channels.stdout.write(b"attached\n")

    @subresource("portforward", connect=True, numbered=32)
    async def _portforward(self, channels: Channels, *, ports: str) -> None:
        """Two channels for each port, one for data and one for errors; both begin with its number."""
        numbers = [int(port) for port in ports.split(",")]
        for place, port in enumerate(numbers):
            for channel in (channels[2 * place], channels[2 * place + 1]):
                await channel.write(struct.pack("<H", port))
        async for data in channels[0]:
            await channels[0].write(data.upper())


def _of_the_core_group(served: Served) -> Served:
    """Classes can't be declared there, but kubectl exec looks nowhere else."""
    return replace(served, definition=replace(served.definition, group=""))


app = APIServer(serve=[_of_the_core_group(served) for served in served_from([Pods])])
