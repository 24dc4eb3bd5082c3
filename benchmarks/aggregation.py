"""What does a backend behind the aggregator cost this server? CPU of a proxied GET beside a local one, and of an event.

The backend is another process. Events are passed on as bytes, so their cost is that of reading and unchunking them.
"""

from __future__ import annotations

import asyncio
import base64
import multiprocessing
import ssl
import tempfile
import time
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.net.connecting import Address
from oarlock.net.messages import HttpRequest
from oarlock.net.pool import HTTP1, HttpPool
from oarlock.server.serving.certificates.issuing import issue, new_authority
from oarlock.testing import InMemory

GETS = 3000
EVENTS = 50_000
GROUP = "bench.example.com"
OBJECT = {
    "kind": "ConfigMap",
    "apiVersion": "v1",
    "metadata": {"name": "a", "namespace": "default"},
    "data": {"k": "v" * 700},
}
RESOURCES = {"kind": "APIResourceList", "groupVersion": f"{GROUP}/v1", "resources": []}


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    event = msgspec.json.encode({"type": "MODIFIED", "object": OBJECT}) + b"\n"
    chunk = b"%x\r\n%b\r\n" % (len(event), event)
    try:
        while True:
            path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1]
            if path == b"/watch":
                writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
                for _ in range(EVENTS):
                    writer.write(chunk)
                    await writer.drain()
                writer.write(b"0\r\n\r\n")
                continue
            body = msgspec.json.encode(RESOURCES if path.count(b"/") == 3 else OBJECT)
            status = b"404 Not Found" if path.startswith(b"/openapi") or path == b"/apis" else b"200 OK"
            head = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
            writer.write(head % (status, len(body)) + body)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def backend(pipe: Connection, pem: bytes) -> None:
    """The other process: says its port, and serves until it is ended."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(pem)
        context.load_cert_chain(file.name)

    async def serve() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())


async def microseconds(api: InMemory, path: str) -> float:
    for _ in range(200):
        found = await api.get(path)
    assert found.status == 200, found.json
    begun = time.process_time()
    for _ in range(GETS):
        await api.get(path)
    return (time.process_time() - begun) / GETS * 1e6


async def gets(tree: dict[str, Any]) -> None:
    async with InMemory(ControlPlane()) as api:
        assert (await api.post("/apis/apiregistration.k8s.io/v1/apiservices", tree)).status == 201
        assert (await api.post("/api/v1/namespaces/default/configmaps", OBJECT)).status == 201
        proxied = f"/apis/{GROUP}/v1/namespaces/default/as/a"
        for _ in range(1_000_000):
            if (await api.get(proxied)).status == 200:
                break
            await asyncio.sleep(0)
        local_us = await microseconds(api, "/api/v1/namespaces/default/configmaps/a")
        proxied_us = await microseconds(api, proxied)
    print(f"a proxied GET adds {proxied_us - local_us:.0f} us of CPU to {local_us:.0f} us of a local one")


async def events(pool: HttpPool, address: Address) -> None:
    answer = await pool.ask(address, HttpRequest("GET", "a", "/watch"))
    begun, count = time.process_time(), 0
    while piece := await answer.piece():
        count += piece.count(b"\n")
    print(f"a proxied event of a watch takes {(time.process_time() - begun) / count * 1e6:.1f} us of CPU")
    pool.close()


def main() -> None:
    authority = new_authority(datetime.now(UTC))
    pair = issue(authority, ["a.default.svc"], datetime.now(UTC))
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=backend, args=(there, pair.certificate_pem + pair.key_pem), daemon=True
    )
    process.start()
    port = here.recv()
    tree = {
        "metadata": {"name": f"v1.{GROUP}", "annotations": {"oarlock.dev/url": f"https://127.0.0.1:{port}"}},
        "spec": {
            "group": GROUP,
            "version": "v1",
            "service": {"namespace": "default", "name": "a"},
            "caBundle": base64.b64encode(authority.certificate_pem).decode(),
            "groupPriorityMinimum": 1000,
            "versionPriority": 10,
        },
    }
    try:
        uvloop.run(gets(tree))  # as servers do
        tls = ssl.create_default_context(cadata=authority.certificate_pem.decode())

        async def context() -> ssl.SSLContext:
            return tls

        uvloop.run(events(HttpPool(context, protocols=(HTTP1,)), Address("127.0.0.1", port, "a.default.svc")))
    finally:
        process.terminate()


if __name__ == "__main__":
    main()
