"""What does a server's own share of a webhook call cost, and what do webhooks cost that nobody asks?

CPU of the server for a CREATE in process, with one validating webhook that is asked, over HTTP/1.1 and HTTP/2 with TLS,
minus that without; and with 20 configurations whose rules name something else. The webhook is a process of its own.
"""

from __future__ import annotations

import asyncio
import base64
import json
import multiprocessing
import ssl
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import uvloop

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.http2 import frames as h2
from oarlock.http2.header_blocks import BlockEncoder
from oarlock.server.serving.certificates.issuing import issue, new_authority
from oarlock.testing import InMemory

WRITES = 400
ROUNDS = 5
MAPS = "/api/v1/namespaces/default/configmaps"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


def reviewed(body: bytes) -> bytes:
    review = json.loads(body)
    response = {"uid": review["request"]["uid"], "allowed": True}
    return json.dumps({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}).encode()


class Webhook(asyncio.Protocol):
    """Answers every POST with yes, in the protocol that TLS has agreed on."""

    def connection_made(self, transport: Any) -> None:
        self.transport, self.rest = transport, b""
        self.http2 = transport.get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
        self.encoder, self.bodies, self.preface = BlockEncoder(), {}, len(h2.PREFACE)
        if self.http2:
            transport.write(h2.settings_frame({}) + h2.window_update_frame(0, 1 << 30))

    def data_received(self, data: bytes) -> None:
        self.rest += data
        while self.over_http2() if self.http2 else self.over_http1():
            pass

    def over_http1(self) -> bool:
        head, end, rest = self.rest.partition(b"\r\n\r\n")
        size = next((int(one[15:]) for one in head.split(b"\r\n") if one.startswith(b"content-length:")), 0)
        if not end or len(rest) < size:
            return False
        body = reviewed(rest[:size])
        self.rest = rest[size:]
        self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        return True

    def over_http2(self) -> bool:
        if self.preface:
            if len(self.rest) < self.preface:
                return False
            self.rest, self.preface = self.rest[self.preface :], 0
        if len(self.rest) < h2.FRAME_HEADER_BYTES:
            return False
        upper, lowest, kind, flags, stream_id = h2.read_frame_header(self.rest, 0)
        end = h2.FRAME_HEADER_BYTES + (upper << 8 | lowest)
        if len(self.rest) < end:
            return False
        payload, self.rest = self.rest[h2.FRAME_HEADER_BYTES : end], self.rest[end:]
        if kind == h2.DATA:
            self.bodies[stream_id] = self.bodies.get(stream_id, b"") + payload
            if flags & h2.END_STREAM:
                body = reviewed(self.bodies.pop(stream_id))
                head = self.encoder.encode([(b":status", b"200", False)])
                self.transport.write(h2.headers_frames(stream_id, head, False) + h2.data_frame(stream_id, body, True))
        return True


def serve(pem: str, protocol: str, ports: Any) -> None:
    async def run() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        context.set_alpn_protocols([protocol])
        server = await asyncio.get_running_loop().create_server(Webhook, "127.0.0.1", 0, ssl=context)
        ports.put(server.sockets[0].getsockname()[1])
        await asyncio.Event().wait()

    asyncio.run(run())


def configuration(name: str, url: str, ca: bytes, resource: str) -> dict[str, Any]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": [resource]}
    hook = {
        "name": f"{name}.hooks.example.com",
        "clientConfig": {"url": url, "caBundle": base64.b64encode(ca).decode()},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {"metadata": {"name": name}, "webhooks": [hook]}


async def cpu_us(api: InMemory, prefix: str) -> float:
    began = time.process_time()
    for number in range(WRITES):
        made = await api.post(MAPS, {"metadata": {"name": f"{prefix}-{number}"}, "data": {"a": "1"}})
        assert made.status == 201, made.json
    return (time.process_time() - began) / WRITES * 1e6


async def extra_us(configurations: list[dict[str, Any]]) -> float:
    """What these configurations add to a CREATE: the median of rounds, each beside one without."""
    differences = []
    async with InMemory(ControlPlane()) as api:
        await cpu_us(api, "warm")
        for turn in range(ROUNDS):
            without = await cpu_us(api, f"without-{turn}")
            for one in configurations:
                assert (await api.post(CONFIGURATIONS, one)).status == 201
            await api.post(MAPS, {"metadata": {"name": f"first-{turn}"}})
            differences.append(await cpu_us(api, f"with-{turn}") - without)
            for one in configurations:
                await api.delete(f"{CONFIGURATIONS}/{one['metadata']['name']}")
    return statistics.median(differences)


def main() -> None:
    authority = new_authority(datetime.now(UTC))
    ca = authority.certificate_pem
    ports = multiprocessing.get_context("spawn").SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="oarlock-bench-") as folder:
        pair = issue(authority, ["127.0.0.1"], datetime.now(UTC))
        pem = Path(folder) / "webhook.pem"
        pem.write_bytes(pair.certificate_pem + pair.key_pem)
        for protocol in ("http/1.1", "h2"):
            process = multiprocessing.get_context("spawn").Process(target=serve, args=(str(pem), protocol, ports))
            process.start()
            try:
                url = f"https://127.0.0.1:{ports.get()}/check"
                cost = uvloop.run(extra_us([configuration("one", url, ca, "configmaps")]))
                print(f"one webhook asked over {protocol}: {cost:.0f} us of CPU more for each CREATE")
            finally:
                process.kill()
                process.join()
    others = [configuration(f"c{number}", "https://127.0.0.1:1/x", ca, "secrets") for number in range(20)]
    print(f"20 configurations that name something else: {uvloop.run(extra_us(others)):.1f} us of CPU more")


if __name__ == "__main__":
    main()
