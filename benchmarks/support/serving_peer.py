"""The other side of the serving layer, for its own benchmarks: a server in a process of its own and cheap clients.

The clients send bytes prepared beforehand and look only at frame headers, so that they keep out of the way.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiofastnet
import uvloop
from hpack import Encoder

from oarlock.endpoints.http import Handler
from oarlock.server.serving.certificates.serving_pair import ensure_certificates
from oarlock.server.serving.certificates.tls import server_context
from oarlock.server.serving.config import ServingConfig
from oarlock.server.serving.listener import serve

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
WINDOW = 2**30
HEADERS = [
    ("user-agent", "kubectl/v1.32.0 (linux/amd64) kubernetes/70d3cc9"),
    ("accept", "application/json"),
    ("accept-encoding", "gzip"),
    ("authorization", "Bearer " + "x" * 900),
]


class SystemClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


def run_server(handler: Handler, directory: str, begin: Callable[[], None] | None = None) -> None:
    """Serve over TLS until killed; the port is the first line of output."""

    async def main() -> None:
        files = ensure_certificates(Path(directory), (), time.time())
        context = server_context(files.certificate, files.key, client_certificates=True)
        listening = await serve(handler, ServingConfig(tls=context), SystemClock())
        print(listening.port, flush=True)
        if begin is not None:
            begin()
        await asyncio.Event().wait()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


class Server:
    """The same script in another process, with ``--serve``."""

    def __init__(self, script: str) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen(
            [sys.executable, script, "--serve", self.directory.name], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait()
        self.directory.cleanup()

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss_mb(self) -> float:
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        return 0.0


async def connect(make: Callable[[], Any], port: int, *alpn: str) -> Any:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(list(alpn))
    _, protocol = await aiofastnet.create_connection(asyncio.get_running_loop(), make, "127.0.0.1", port, ssl=context)
    return protocol


def frame(kind: int, flags: int, stream_id: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream_id.to_bytes(4, "big") + payload


class Http1Client(asyncio.Protocol):
    """One request at a time; the first answer tells how long each is."""

    def __init__(self, path: str, done: Callable[[], bool]) -> None:
        lines = "".join(f"{name}: {value}\r\n" for name, value in HEADERS)
        self.request = f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n{lines}\r\n".encode()
        self.done = done
        self.seen = b""
        self.size = 0
        self.got = 0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        if not self.size:
            self.seen += data
            head, end, _ = self.seen.partition(b"\r\n\r\n")
            if not end:
                return
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            self.size = len(head) + 4 + int(length.partition(b":")[2])
            data = self.seen
        self.got += len(data)
        if self.got >= self.size:
            assert self.got == self.size
            self.got = 0
            if self.done():
                self.transport.write(self.request)


class Http2Client(asyncio.Protocol):
    """`streams` requests at once, on one connection; or streams that go on, when `watch` is set."""

    def __init__(self, path: str, streams: int, done: Callable[[], bool], watch: bool = False) -> None:
        encoder = Encoder()
        head = [(":method", "GET"), (":scheme", "https"), (":authority", "127.0.0.1"), (":path", path), *HEADERS]
        self.first, self.block = encoder.encode(head), encoder.encode(head)
        assert encoder.encode(head) == self.block
        self.streams = streams
        self.done = done
        self.watch = watch
        self.next = 1
        self.rest = b""
        self.received = 0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        settings = frame(4, 0, 0, (4).to_bytes(2, "big") + WINDOW.to_bytes(4, "big"))
        window = frame(8, 0, 0, (WINDOW - 65_535).to_bytes(4, "big"))
        begin = [PREFACE, settings, window] + [self.ask() for _ in range(self.streams)]
        transport.write(b"".join(begin))

    def ask(self) -> bytes:
        stream_id = self.next
        self.next += 2
        return frame(1, 5, stream_id, self.first if stream_id == 1 else self.block)

    def data_received(self, data: bytes) -> None:
        if self.rest:
            data = self.rest + data
        at, end = 0, len(data)
        out = []
        while end - at >= 9:
            size = int.from_bytes(data[at : at + 3], "big")
            if end - at < 9 + size:
                break
            kind, flags = data[at + 3], data[at + 4]
            if kind == 0:
                self.received += size
                if self.watch:
                    self.done()
                elif flags & 1 and self.done():
                    out.append(self.ask())
            elif kind in (3, 7):
                raise SystemExit(f"the server sent frame {kind}")
            elif kind == 4 and not flags & 1:
                out.append(frame(4, 1, 0, b""))
            at += 9 + size
        self.rest = data[at:]
        if self.received > WINDOW // 4:
            out.append(frame(8, 0, 0, self.received.to_bytes(4, "big")))
            self.received = 0
        if out:
            self.transport.write(b"".join(out))


class Http1Watcher(asyncio.Protocol):
    """Reads chunks and counts them by a mark that ends each event."""

    def __init__(self, path: str, done: Callable[[], bool]) -> None:
        self.request = f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode()
        self.done = done

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        for _ in range(data.count(b"\n\r\n")):
            self.done()
