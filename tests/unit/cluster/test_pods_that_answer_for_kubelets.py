"""Simulated pods log, and answer commands, as their behaviour says."""

from __future__ import annotations

import asyncio
import io
import tarfile
from typing import Any

import pytest

from oarlock import Pipe
from oarlock_cluster.nodes.behaviour import PodBehaviour
from oarlock_cluster.testing import ClusterInMemory

pytestmark = pytest.mark.anyio

PODS = "/api/v1/namespaces/default/pods"


async def _pod(cluster: ClusterInMemory, **annotations: str) -> None:
    sim = {f"sim/{key.replace('_', '-')}": value for key, value in annotations.items()}
    metadata = {"name": "a", "namespace": "default", "labels": {"app": "a"}, "annotations": sim}
    spec = {"containers": [{"name": "c", "image": "i:1"}]}
    await cluster.client.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    await cluster.run(1)


@pytest.mark.cluster(nodes=1)
async def test_a_log_is_what_the_behaviour_says_and_is_followed_until_the_pod_ends(cluster: ClusterInMemory) -> None:
    await _pod(cluster, log="one\ntwo\nthree")
    assert (await cluster.api.get(f"{PODS}/a/log")).body == b"one\ntwo\nthree\n"
    assert (await cluster.api.get(f"{PODS}/a/log?tailLines=1&timestamps=true")).body == b"2026-01-01T00:00:00Z three\n"
    following = asyncio.create_task(cluster.api.get(f"{PODS}/a/log?follow=true"))
    await cluster.run(60)
    assert not following.done()
    await cluster.client.delete("v1/Pod", "a", namespace="default")
    await cluster.run(1)
    assert (await following).body == b"one\ntwo\nthree\n"


@pytest.mark.cluster(nodes=1)
async def test_a_container_that_waits_has_no_log(cluster: ClusterInMemory) -> None:
    await _pod(cluster, image_error="no such image")
    refused = await cluster.api.get(f"{PODS}/a/log")
    assert (refused.status, refused.json["message"]) == (
        400,
        'container "c" in pod "a" is waiting to start: ErrImagePull',
    )
    assert (await cluster.api.get(f"{PODS}/a/log?container=d")).json["message"] == "container d is not valid for pod a"


@pytest.mark.cluster(nodes=1)
async def test_commands_are_answered(cluster: ClusterInMemory) -> None:
    await _pod(cluster)

    async def said(query: str) -> tuple[Any, Any]:
        async with cluster.api.connect(f"{PODS}/a/exec?{query}", "v5.channel.k8s.io") as client:
            return await client.receive(), (await client.outcome()).get("details")

    assert await said("command=hostname") == ((1, b"a\n"), None)
    (stream, text), why = await said("command=ls")
    assert (stream, text) == (2, b'exec: "ls": executable file not found in $PATH\n')
    assert why == {"causes": [{"reason": "ExitCode", "message": "127"}]}

    def answer(pod: Any, command: Any) -> tuple[int, str]:
        return 3, f"{pod['metadata']['name']}: {' '.join(command)}"

    cluster.behave("a", lambda pod: PodBehaviour(answer=answer))
    (stream, text), why = await said("command=ls&command=-l")
    assert (stream, text) == (1, b"a: ls -l")
    assert why == {"causes": [{"reason": "ExitCode", "message": "3"}]}


def _archive(**files: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"data/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return packed.getvalue()


def _command(*words: str) -> str:
    return "&".join(f"command={word}" for word in words)


@pytest.mark.cluster(nodes=1)
async def test_files_are_copied_to_a_container_and_back(cluster: ClusterInMemory) -> None:
    await _pod(cluster)
    protocol = "v5.channel.k8s.io"

    async def said(*words: str) -> tuple[Any, Any]:
        async with cluster.api.connect(f"{PODS}/a/exec?{_command(*words)}", protocol) as client:
            return await client.receive(), (await client.outcome()).get("status")

    unpack = _command("tar", "-xmf", "-", "-C", "/tmp")
    async with cluster.api.connect(f"{PODS}/a/exec?stdin=true&{unpack}", protocol) as client:
        client.send(0, _archive(one="first", two="second"))
        client.close_channel(0)
        assert (await client.outcome())["status"] == "Success"
    assert await said("cat", "/tmp/data/two") == ((1, b"second"), "Success")
    (_, data), status = await said("tar", "cf", "-", "/tmp/data")
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        assert archive.getnames() == ["tmp/data", "tmp/data/one", "tmp/data/two"]
        assert status == "Success"
    (stream, text), status = await said("tar", "cf", "-", "/nowhere")
    assert (stream, text, status) == (2, b"tar: /nowhere: Cannot stat: No such file or directory\n", "Failure")
    async with cluster.api.connect(f"{PODS}/a/exec?{_command('test', '-d', '/tmp/data')}", protocol) as client:
        assert (await client.outcome())["status"] == "Success"


@pytest.mark.cluster(nodes=1)
async def test_a_container_that_is_added_for_debugging_runs(cluster: ClusterInMemory) -> None:
    await _pod(cluster)
    added = {"spec": {"ephemeralContainers": [{"name": "debugger", "image": "busybox"}]}}
    assert (await cluster.api.patch(f"{PODS}/a/ephemeralcontainers", added)).status == 200
    await cluster.run(1)
    (status,) = (await cluster.api.get(f"{PODS}/a")).json["status"]["ephemeralContainerStatuses"]
    assert status["name"] == "debugger"
    assert "running" in status["state"]
    async with cluster.api.connect(f"{PODS}/a/exec?container=debugger&command=hostname", "v5.channel.k8s.io") as client:
        assert await client.receive() == (1, b"a\n")


@pytest.mark.cluster(nodes=1)
async def test_ports_are_forwarded_to_functions_and_to_ports_of_this_machine(cluster: ClusterInMemory) -> None:
    async def shout(pipe: Pipe) -> None:
        await pipe.write((await pipe.read()).upper())

    async def whisper(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read(100)).lower())
        writer.close()

    async with await asyncio.start_server(whisper, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        await _pod(cluster, ports=f"{{82: {port}}}")
        cluster.behave("a", ports={80: shout, 81: port})
        ports = "ports=80&ports=81&ports=82"
        async with cluster.api.connect(f"{PODS}/a/portforward?{ports}", "v4.channel.k8s.io") as client:
            for channel in (0, 2):
                client.send(channel, b"Ahoy")
            received = await client.rest()
    assert {channel: data[2:] for channel, data in received.items()} == {
        0: b"AHOY",
        1: b"",
        2: b"ahoy",
        3: b"",
        4: b"",
        5: b"error forwarding port 82: dial tcp4 127.0.0.1:82: connect: connection refused",
    }
