"""What do clients that mean no good cost the others? Memory after all attacks, and how long a probe waits meanwhile.

Each attack is bounded in count and time, and the server has an address space of 4 GiB at most.
"""

from __future__ import annotations

import http.client
import json
import multiprocessing
import resource
import socket
import ssl
import struct
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path

from support.wardle import FLUNDERS, TOKEN, Server, wardle

GROUP = "/apis/wardle.example.com/v1alpha1"
SPACE_BYTES = 4 << 30
HOLD_S = 5.0
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def connection(server: Server, *protocols: str) -> ssl.SSLSocket:
    context = server.tls(*protocols)
    return context.wrap_socket(socket.create_connection(("127.0.0.1", server.port)), server_hostname="localhost")


def ask(server: Server, method: str, path: str, body: bytes = b"", **headers: str) -> int:
    """The status of one answer, which is read whole; 0 when the server cut the connection."""
    named = {"Authorization": f"Bearer {TOKEN}"} | {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(f"https://localhost:{server.port}{path}", body or None, named, method=method)
    try:
        with urllib.request.urlopen(request, context=server.tls("http/1.1"), timeout=60) as answer:
            while answer.read(1 << 20):
                pass
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def literal(name: bytes, value: bytes) -> bytes:
    """A header field without indexing (RFC 7541 §6.2.2); texts of less than 127 bytes."""
    return b"\x00" + bytes((len(name),)) + name + bytes((len(value),)) + value


def lists_with_a_window_of_zero(server: Server) -> None:
    head = b"\x82\x87" + literal(b":path", FLUNDERS.encode()) + b"\x01\x09localhost"
    head += literal(b"authorization", f"Bearer {TOKEN}".encode())
    held = []
    for _ in range(8):
        peer = connection(server, "h2")
        requests = b"".join(frame(1, 5, 1 + 2 * i, head) for i in range(250))
        peer.sendall(PREFACE + frame(4, 0, 0, struct.pack(">HI", 4, 0)) + requests)
        held.append(peer)
    time.sleep(HOLD_S)


def lists_in_a_pipeline_nobody_reads(server: Server) -> None:
    held = []
    for coding in ("identity", "gzip"):
        peer = connection(server, "http/1.1")
        head = (
            f"GET {FLUNDERS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nAccept-Encoding: {coding}\r\n\r\n"
        )
        peer.settimeout(HOLD_S)
        try:
            peer.sendall(head.encode() * 600)
        except OSError:
            pass  # cut, or no longer read from
        held.append(peer)
    time.sleep(HOLD_S)


def watches_nobody_reads(server: Server) -> None:
    held = []
    for _ in range(40):
        peer = connection(server, "http/1.1")
        head = f"GET {FLUNDERS}?watch=1&resourceVersion=0 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        peer.sendall(head.encode())
        held.append(peer)
    for i in range(40):
        big = {"metadata": {"annotations": {"n": str(i), "big": "x" * 200_000}}}
        ask(server, "PATCH", f"{FLUNDERS}/f0", json.dumps(big).encode(), content_type="application/merge-patch+json")
    time.sleep(HOLD_S)


def anonymous_queries_and_headers(server: Server) -> None:
    for i in range(60):
        ask(server, "GET", f"{FLUNDERS}?{i}={'q' * 900_000}", authorization="")
        ask(server, "GET", FLUNDERS, authorization="", accept=f"text/{i}" + "a" * 200_000)
        ask(server, "GET", FLUNDERS, authorization=f"Bearer {i}" + "t" * 200_000)
        ask(server, "GET", f"{FLUNDERS}?{i}={'%41' * 300_000}", authorization="")


def cookies_by_reference(server: Server) -> None:
    peer = connection(server, "h2")
    peer.settimeout(HOLD_S)
    base = b"\x82\x87\x04\x07/readyz\x01\x01x"
    length = b"\x7f" + bytes(((990 - 127) & 127 | 128, (990 - 127) >> 7))
    peer.sendall(PREFACE + frame(4, 0, 0) + frame(1, 5, 1, base + b"\x40\x06cookie" + length + b"a" * 990))
    until = time.monotonic() + HOLD_S
    try:
        for stream in range(3, 2000, 2):
            if time.monotonic() > until:
                break
            peer.sendall(frame(1, 5, stream, base + b"\xbe" * 990))
            time.sleep(0.01)
    except OSError:
        pass  # cut


def bodies_that_grow(server: Server) -> None:
    for count in (20, 300, 20_000):
        text = (
            "apiVersion: wardle.example.com/v1alpha1\nkind: Flunder\nmetadata:\n  name: bomb\n  annotations:\n"
            f"    a: &a {'x' * 1_000_000}\n    b: [{'*a,' * count}1]\n"
        ).encode()
        ask(server, "POST", FLUNDERS, text, content_type="application/yaml")
        ask(server, "PATCH", f"{FLUNDERS}/bomb?fieldManager=m", text, content_type="application/apply-patch+yaml")
    copies = [{"op": "add", "path": "/metadata/annotations/a", "value": "x" * 200_000}]
    copies += [
        {"op": "copy", "from": "/metadata/annotations", "path": f"/metadata/annotations/c{i}"} for i in range(9000)
    ]
    ask(server, "PATCH", f"{FLUNDERS}/f1", json.dumps(copies).encode(), content_type="application/json-patch+json")
    for start in (b"[", b'{"a":', b"{"):
        ask(server, "POST", FLUNDERS, start * 700_000, content_type="application/json")


def selectors_of_many_terms(server: Server) -> None:
    for terms in ("x=y,", "a!=b,", "a in (b),"):
        for count in (900, 50_000, 90_000):
            ask(server, "GET", f"{FLUNDERS}?labelSelector=" + (terms * count)[:800_000].replace(" ", "+") + "z")
            ask(server, "DELETE", f"{FLUNDERS}?dryRun=All&labelSelector=" + (terms * count)[:800_000].replace(" ", "+"))


def large_writes(server: Server) -> None:
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": f"p{i}", "uid": f"u{i}"} for i in range(5000)]
    tree = {"apiVersion": "wardle.example.com/v1alpha1", "kind": "Flunder", "metadata": {"name": "large"}}
    tree["metadata"] |= {"ownerReferences": owners}  # type: ignore[operator]
    body = json.dumps(tree).encode()
    for _ in range(3):
        ask(server, "POST", FLUNDERS, body, content_type="application/json")
        ask(
            server,
            "PATCH",
            f"{FLUNDERS}/large?fieldManager=m&force=true",
            body,
            content_type="application/apply-patch+yaml",
        )
        ask(server, "DELETE", f"{FLUNDERS}/large")


def handshakes_that_end(server: Server) -> None:
    for _ in range(300):
        peer = socket.create_connection(("127.0.0.1", server.port))
        out = ssl.MemoryBIO()
        try:
            server.tls("h2").wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost").do_handshake()
        except ssl.SSLWantReadError:
            pass
        peer.sendall(out.read())
        peer.close()


ATTACKS: tuple[Callable[[Server], None], ...] = (
    lists_with_a_window_of_zero,
    lists_in_a_pipeline_nobody_reads,
    watches_nobody_reads,
    anonymous_queries_and_headers,
    cookies_by_reference,
    bodies_that_grow,
    selectors_of_many_terms,
    large_writes,
    handshakes_that_end,
)


def probe(server: Server, over: Event, out: Connection) -> None:
    """Ask one small question after the other, in a process of its own: how long each took, in seconds."""
    waits: list[float] = []
    client = http.client.HTTPSConnection("localhost", server.port, context=server.tls("http/1.1"), timeout=60)
    while not over.is_set():
        began = time.perf_counter()
        client.request("GET", f"{FLUNDERS}/f2", headers={"Authorization": f"Bearer {TOKEN}"})
        answer = client.getresponse()
        answer.read()
        if answer.status != 200:
            raise SystemExit(f"the probe was answered {answer.status}")
        waits.append(time.perf_counter() - began)
        time.sleep(0.01)
    out.send(waits)


def main() -> None:
    with wardle() as server:
        resource.prlimit(server.pid, resource.RLIMIT_AS, (SPACE_BYTES, SPACE_BYTES))
        for i in range(1000):
            tree = {"metadata": {"name": f"f{i}", "labels": {"a": "b"}, "annotations": {"x": "y" * 9_500}}}
            assert ask(server, "POST", FLUNDERS, json.dumps(tree).encode(), content_type="application/json") == 201
        print(f"before: {server.rss_mb():.0f} MB RSS, with 1,000 objects of 10 KB")
        for attack in ATTACKS:
            over = multiprocessing.Event()
            found, out = multiprocessing.Pipe(duplex=False)
            other = multiprocessing.Process(target=probe, args=(server, over, out))
            other.start()
            began, cpu_s = time.monotonic(), server.cpu_s()
            attack(server)
            took, cpu_s = time.monotonic() - began, server.cpu_s() - cpu_s
            over.set()
            waits = sorted(found.recv())
            other.join()
            print(
                f"{attack.__name__.replace('_', ' ')}: {server.rss_mb():.0f} MB RSS, probe p50 "
                f"{waits[len(waits) // 2] * 1e3:.1f} ms, p99 {waits[int(len(waits) * 0.99)] * 1e3:.0f} ms, "
                f"max {waits[-1] * 1e3:.0f} ms ({took:.1f} s, {cpu_s:.1f} s of server CPU)",
                flush=True,
            )
        time.sleep(HOLD_S)
        lines = Path(f"/proc/{server.pid}/status").read_text().splitlines()
        peak = next(line.split()[1] for line in lines if line.startswith("VmHWM"))
        print(f"after all of them: {server.rss_mb():.0f} MB RSS, {int(peak) / 1024:.0f} MB at the most")


if __name__ == "__main__":
    main()
