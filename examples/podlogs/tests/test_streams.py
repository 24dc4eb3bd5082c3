"""Logs that go on and commands that talk, of computers and of pods."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from oarlock.testing import InMemory, VirtualClock

from podlogs.api.v1.computer import Computer
from podlogs.server import make_server

pytestmark = pytest.mark.anyio
COMPUTERS = "/apis/podlogs.example.com/v1/namespaces/default/computers"
PODS = "/api/v1/namespaces/default/pods"
Sample = Callable[[str], dict[str, Any]]


@pytest.fixture
async def api(sample: Sample) -> AsyncIterator[InMemory]:
    async with InMemory(make_server(), clock=VirtualClock()) as api:
        assert (await api.post(COMPUTERS, sample("computer"))).status == 201
        yield api


async def run(api: InMemory, *command: str, stdin: bytes = b"") -> tuple[int, bytes, bytes]:
    done = await api.client().run(Computer, "example", command, namespace="default", stdin=stdin)
    return done.exit_code, done.stdout, done.stderr


async def test_commands_have_input_output_and_an_exit_code(api: InMemory) -> None:
    assert await run(api, "tee", "note", stdin=b"remember") == (0, b"remember", b"")
    assert await run(api, "cat", "note") == (0, b"remember", b"")
    assert await run(api, "exit", "3") == (3, b"", b"")
    assert await run(api, "rm", "note") == (127, b"", b"rm note: not found\n")
    assert (await api.get(f"{COMPUTERS}/example/exec")).status == 400  # it is for clients that connect


async def test_who_follows_a_log_is_told_of_each_command(api: InMemory) -> None:
    followed = api.client().log(Computer, "example", namespace="default", follow=True)
    assert await anext(followed) == b"good morning\n"
    await run(api, "ls")
    assert await anext(followed) == b"ran ls\n"
    await followed.aclose()
    assert (await api.get(f"{COMPUTERS}/example/log")).body == b"good morning\nran ls\n"
    assert (await api.get(f"{COMPUTERS}/example/log?tailLines=1")).body == b"ran ls\n"


async def test_a_pod_has_a_log_too(api: InMemory, sample: Sample) -> None:
    assert isinstance(api.clock, VirtualClock)
    await api.clock.run(1)  # the namespace has a service account then
    made = await api.post(PODS, sample("pod"))
    assert made.status == 201, made.json
    assert (await api.get(f"{PODS}/web/log?container=main")).body == b"pod web is here\n"
