"""What does the serving layer alone cost per GET, over TLS? Prints µs of server CPU, HTTP/1.1 and HTTP/2.

A trivial handler answers 1 KB from memory with six headers; 16 requests are in flight, with a 900-byte
token each. HTTP/2 has them first on 16 connections, as HTTP/1.1 must, and then on one, where answers share TLS
records and system calls. ``python serving_get.py [seconds]``
"""

from __future__ import annotations

import asyncio
import sys
import time

import uvloop

from oarlock.endpoints.http import Request, Response
from support.serving_peer import Http1Client, Http2Client, Server, connect, run_server

BODY = b'{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","padding":"' + b"x" * 1000 + b'"}\n'
IN_FLIGHT = 16


async def handler(request: Request) -> Response:
    headers = [
        ("audit-id", "0e1f9f3c-4b7e-4c43-8d4e-6a6dc3b0b0a1"),
        ("cache-control", "no-cache, private"),
        ("content-type", "application/json"),
        ("x-kubernetes-pf-flowschema-uid", "0e1f9f3c-4b7e-4c43-8d4e-6a6dc3b0b0a1"),
    ]
    return Response(200, headers, BODY)


async def measure(server: Server, http2: bool, connections: int, seconds: float) -> str:
    count = 0
    going = True

    def done() -> bool:
        nonlocal count
        count += 1
        return going

    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/x"
    streams = IN_FLIGHT // connections
    if http2:
        clients = [
            await connect(lambda: Http2Client(path, streams, done), server.port, "h2") for _ in range(connections)
        ]
    else:
        clients = [await connect(lambda: Http1Client(path, done), server.port, "http/1.1") for _ in range(connections)]
    await asyncio.sleep(0.5)
    begin, cpu, at = count, server.cpu_s(), time.monotonic()
    await asyncio.sleep(seconds)
    operations, spent, took = count - begin, server.cpu_s() - cpu, time.monotonic() - at
    going = False
    for client in clients:
        client.transport.abort()
    return f"{spent / operations * 1e6:.1f} µs server CPU per GET ({operations:,} requests, {operations / took:,.0f}/s)"


async def main(seconds: float) -> None:
    with Server(__file__) as server:
        for http2, connections in ((False, IN_FLIGHT), (True, IN_FLIGHT), (True, 1)):
            spoken = f"HTTP/{'2' if http2 else '1.1'} over TLS, {connections} connection{'s' * (connections > 1)}"
            print(f"{spoken}: {await measure(server, http2, connections, seconds)}")


if __name__ == "__main__":
    if "--serve" in sys.argv:
        run_server(handler, sys.argv[2])
    else:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(main(float(sys.argv[1]) if len(sys.argv) > 1 else 3.0))
