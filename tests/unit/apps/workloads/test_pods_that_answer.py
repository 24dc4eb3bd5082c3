"""Logs, commands and connections of pods, answered by a user's code in place of a kubelet."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from oarlock import Channels, Context, DeclarationError, Pipe, errors, subresource
from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.apps.kinds.pods.subresources import PodHooks
from oarlock.testing import InMemory, VirtualClock

PODS = "/api/v1/namespaces/default/pods"


class Shells(PodHooks):
    """Pods that say what they are asked."""

    @subresource("log")
    async def log(
        self, name: str, parent: dict[str, Any], *, container: str = "", tail_lines: int | None = None
    ) -> AsyncIterator[bytes]:
        if container == "none":
            raise errors.BadRequest(f"container {container} is not valid for pod {name}")
        for number in range(tail_lines or 2):
            yield f"{parent['spec']['containers'][0]['name']} {number}\n".encode()

    @subresource("exec", connect=True)
    async def exec(self, channels: Channels, ctx: Context, *, command: list[str] = []) -> int:  # noqa: B006
        await channels.stdout.write(f"{ctx.user.name}: {' '.join(command)}".encode())
        return len(command)

    @subresource("portforward", upgrade="echo/1")
    async def portforward(self, pipe: Pipe) -> None:
        await pipe.write((await pipe.read()).upper())


@pytest.fixture
async def api() -> Any:
    clock = VirtualClock()
    async with InMemory(ControlPlane(pods=Shells()), clock=clock) as server:
        await clock.run(1)
        spec = {"containers": [{"name": "c", "image": "example.com/app:1"}]}
        made = await server.post(PODS, {"metadata": {"name": "a"}, "spec": spec})
        assert made.status == 201, made.json
        yield server


@pytest.mark.anyio
async def test_a_log_is_streamed(api: InMemory) -> None:
    answer = await api.get(f"{PODS}/a/log?tailLines=3")
    assert (answer.status, answer.headers["content-type"], answer.body) == (200, "text/plain", b"c 0\nc 1\nc 2\n")
    refused = await api.get(f"{PODS}/a/log?container=none")
    assert (refused.status, refused.json["message"]) == (400, "container none is not valid for pod a")
    assert (await api.get(f"{PODS}/b/log")).status == 404


@pytest.mark.anyio
async def test_a_command_has_a_terminal(api: InMemory) -> None:
    async with api.connect(f"{PODS}/a/exec?command=ls&command=-l", "v5.channel.k8s.io") as client:
        assert await client.receive() == (1, b"admin: ls -l")
        assert (await client.outcome())["details"]["causes"] == [{"reason": "ExitCode", "message": "2"}]


@pytest.mark.anyio
async def test_a_connection_is_handed_over(api: InMemory) -> None:
    async with api.upgrade(f"{PODS}/a/portforward", "echo/1") as client:
        client.write(b"ships")
        assert await client.read() == b"SHIPS"


@pytest.mark.anyio
async def test_what_it_does_not_serve_has_nobody_to_answer(api: InMemory) -> None:
    assert (await api.get(f"{PODS}/a/attach")).json["message"] == "pod a does not have a host assigned"


def test_it_serves_what_a_kubelet_would() -> None:
    with pytest.raises(DeclarationError, match="pods have no 'eviction' to answer"):

        class Evicts(PodHooks):
            @subresource("eviction", connect=True)
            async def evict(self, channels: Channels) -> None: ...

    with pytest.raises(DeclarationError, match="it has to connect"):

        class Streams(PodHooks):
            @subresource("attach")
            async def attach(self) -> AsyncIterator[bytes]:
                yield b""

    with pytest.raises(DeclarationError, match="a log is a stream"):

        class Logs(PodHooks):
            @subresource("log", connect=True)
            async def log(self, channels: Channels) -> None: ...
