"""A connection that is upgraded goes through to the backend: raw bytes both ways, until one side ends."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from scripted_backend import GROUP, Asked, ScriptedBackend, well_behaved
from silent_terminal import Silent

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.apps.controlplane.options import for_control_plane
from oarlock.client.clock import SystemClock
from oarlock.server.assembly.lifecycle import start
from oarlock.server.config import ServerConfig

pytestmark = pytest.mark.anyio

PATH = f"/apis/{GROUP}/v1/namespaces/default/echoes/a/exec"


async def shouting(asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Agrees to SPDY, says what it hears in capitals, and ends after a full stop."""
    if not asked.values("upgrade"):
        await well_behaved(asked, reader, writer)
        return
    writer.write(b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: SPDY/3.1\r\n\r\nhello ")
    while data := await reader.read(65_536):
        writer.write(data.upper())
        if data.endswith(b"."):
            break
    await writer.drain()
    raise ConnectionResetError


@asynccontextmanager
async def upgraded(folder: Path) -> AsyncIterator[tuple[ScriptedBackend, asyncio.StreamReader, asyncio.StreamWriter]]:
    """A client's connection that has been upgraded, through a control plane with a socket."""
    backend = await ScriptedBackend(answer=shouting).start(folder)
    options = for_control_plane(ServerConfig(storage="memory://", data_dir=folder / "plane", secure_port=0))
    running = await start(ControlPlane(), options, SystemClock(), Silent())
    try:
        client = running.client(None, "test")
        await client.create(backend.api_service())
        async with asyncio.timeout(60):
            while True:
                try:
                    await client.request("GET", f"/apis/{GROUP}/v1/x")
                    break
                except Exception:
                    await asyncio.sleep(0)
        port = int(running.url.rpartition(":")[2])
        tls = ssl.create_default_context(cafile=str(folder / "plane" / "pki" / "ca.crt"))
        tls.set_alpn_protocols(["http/1.1"])
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
        token = (folder / "plane" / "oarlock.token").read_text().strip()
        head = f"POST {PATH}?command=ls HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n"
        writer.write(f"{head}connection: Upgrade\r\nupgrade: SPDY/3.1\r\ncontent-length: 0\r\n\r\n".encode())
        async with asyncio.timeout(60):
            answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        assert answer.startswith("http/1.1 101")
        assert "upgrade: spdy/3.1" in answer
        yield backend, reader, writer
        writer.close()
    finally:
        await running.shut_down()
        await backend.stop()


async def test_bytes_go_both_ways(tmp_path: Path) -> None:
    async with upgraded(tmp_path) as (backend, reader, writer), asyncio.timeout(30):
        asked = next(one for one in reversed(backend.asked) if "/echoes/" in one.target)
        assert (asked.values("x-remote-user"), asked.values("authorization")) == (["admin"], [])
        writer.write(b"one two")
        assert await reader.readexactly(13) == b"hello ONE TWO"
        size = 3_000_000
        writer.write(b"x" * size)
        assert await reader.readexactly(size) == b"X" * size


async def test_when_the_backend_ends_so_does_the_client(tmp_path: Path) -> None:
    async with upgraded(tmp_path) as (_, reader, writer), asyncio.timeout(30):
        writer.write(b"the end.")
        assert await reader.read() == b"hello THE END."


async def test_when_the_client_ends_so_does_the_backend(tmp_path: Path) -> None:
    async with upgraded(tmp_path) as (backend, reader, writer), asyncio.timeout(30):
        assert await reader.readexactly(6) == b"hello "
        open_connections = len(backend._writers)
        writer.transport.abort()
        while True:
            if len(backend._writers) < open_connections:
                break
            await asyncio.sleep(0)
