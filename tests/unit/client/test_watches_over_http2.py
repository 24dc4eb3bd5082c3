"""Watches over HTTP/2: a hundred on one connection, and each goes on when the connection goes."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import trustme
from boats import Boat, boat_server, tree
from scripted_http2 import ScriptedServer, listening

from oarlock.client import ClientConfig, RetryPolicy, WatchEvent, connect
from oarlock.client.http_transport import HTTPTransport
from oarlock.http2 import frames as h2
from oarlock.net.http2_connection import Http2ClientConnection
from oarlock.testing import ServerThread

pytestmark = pytest.mark.anyio

SOON = RetryPolicy(first_wait_s=0.001)


async def until_name(watch: AsyncGenerator[WatchEvent[Boat]], name: str) -> None:
    async for event in watch:
        if event.object.metadata.name == name:
            return


async def test_a_hundred_watches_share_a_connection_with_calls_and_outlive_it() -> None:
    with ServerThread(boat_server()) as running:
        async with connect(running.kubeconfig, retries=SOON) as client:
            transport = client.transport
            assert isinstance(transport, HTTPTransport)
            await client.create(tree("a"), kind=Boat)
            watches = [client.watch(Boat) for _ in range(100)]
            await asyncio.gather(*(until_name(watch, "a") for watch in watches))
            await client.create(tree("b"), kind=Boat)
            await asyncio.gather(*(until_name(watch, "b") for watch in watches))
            (connection,) = transport._pool._open
            assert isinstance(connection, Http2ClientConnection)
            assert connection._transport is not None
            connection._transport.abort()
            await client.create(tree("c"), kind=Boat)
            await asyncio.gather(*(until_name(watch, "c") for watch in watches))
            assert [one.ended for one in transport._pool._open] == [False]
            for watch in watches:
                await watch.aclose()


async def test_a_watch_goes_on_after_a_goodbye(tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    context.set_alpn_protocols(["h2"])
    count = 0

    async def script(server: ScriptedServer) -> None:
        nonlocal count
        count += 1
        one = tree(f"boat-{count}")
        one["metadata"]["resourceVersion"] = str(count)
        event = json.dumps({"type": "ADDED", "object": one}).encode() + b"\n"
        _, _, stream_id, _ = await server.frame(h2.HEADERS)
        await server.send(server.headers(stream_id, (":status", "200")) + h2.goaway_frame(stream_id, 0))
        await server.send(h2.data_frame(stream_id, event, end=True))
        await server.rest()

    async with listening(script, context=context) as port:
        config = ClientConfig(f"https://127.0.0.1:{port}", ca_data=authority.cert_pem.bytes())
        async with connect(config, retries=SOON) as client:
            watch = client.watch(Boat, resource_version="1")
            names = [(await anext(watch)).object.metadata.name for _ in range(3)]
            assert names == ["boat-1", "boat-2", "boat-3"]
            await watch.aclose()
    assert count >= 3
