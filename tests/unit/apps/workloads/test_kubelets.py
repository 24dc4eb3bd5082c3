"""Logs, commands and connections of pods on nodes with a kubelet, and requests to nodes themselves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from scripted_backend import Asked, ScriptedBackend

from oarlock import APIServer
from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.apps.controlplane.options import ControlPlaneOptions
from oarlock.apps.kinds.common.late_client import LateClient
from oarlock.apps.kinds.serving import newest_definitions, released_resources
from oarlock.apps.workloads.kubelets import Kubelets, KubeletTrust
from oarlock.apps.workloads.proxies import ClusterProxies, ordinary_ip
from oarlock.meta.errors import BadRequest
from oarlock.registry.served import ProxyHook
from oarlock.server.serving.certificates.issuing import issue_client, new_authority
from oarlock.testing import InMemory, VirtualClock
from oarlock.testing.connections import WebSocketClient

pytestmark = pytest.mark.anyio

PODS = "/api/v1/namespaces/default/pods"
TYPES = ("Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP")
Tree = dict[str, Any]


async def kubelet_answer(asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Shows a log; upgrades to what is asked for, and says then in capitals what it is sent."""
    if asked.target.startswith("/containerLogs"):
        if "previous" in asked.target:
            text = b"previous terminated container not found"
            writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: %d\r\n\r\n%s" % (len(text), text))
            return
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\na line")
        return
    (protocol,) = asked.values("upgrade")
    chosen = "".join(f"x-stream-protocol-version: {name}\r\n" for name in asked.values("x-stream-protocol-version"))
    head = f"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: {protocol}\r\n"
    writer.write(f"{head}{chosen}\r\n".encode())
    while data := await reader.read(100):
        writer.write(data.upper())


def node(port: int, address: str = "127.0.0.1", **status: Any) -> Tree:
    addresses = [{"type": "ExternalIP", "address": "192.0.2.1"}, {"type": "InternalIP", "address": address}]
    status = {"addresses": addresses, "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}, **status}
    return {"metadata": {"name": "n"}, "status": status}


async def running_pod(api: InMemory, containers: tuple[str, ...] = ("c",)) -> None:
    spec = {"containers": [{"name": name, "image": "example.com/app:1"} for name in containers], "nodeName": "n"}
    made = await api.post(PODS, {"metadata": {"name": "a"}, "spec": spec})
    assert made.status == 201, made.json


@asynccontextmanager
async def served(
    folder: Path, containers: tuple[str, ...] = ("c",), **status: Any
) -> AsyncIterator[tuple[InMemory, ScriptedBackend]]:
    """A pod on a node whose kubelet listens, wants a certificate, and shows one for its address."""
    authority = new_authority(datetime.now(UTC))
    pair = issue_client(authority, "kube-apiserver", datetime.now(UTC))
    (folder / "client.crt").write_bytes(pair.certificate_pem)
    (folder / "client.key").write_bytes(pair.key_pem)
    kubelet = await ScriptedBackend("127.0.0.1", answer=kubelet_answer).start(folder, authority)
    (folder / "ca.crt").write_bytes(kubelet.ca)
    options = ControlPlaneOptions(
        kubelet_certificate_authority=folder / "ca.crt",
        kubelet_client_certificate=folder / "client.crt",
        kubelet_client_key=folder / "client.key",
    )
    clock = VirtualClock()
    try:
        async with InMemory(ControlPlane(options=options), clock=clock) as api, asyncio.timeout(60):
            await clock.run(1)
            assert (await api.post("/api/v1/nodes", node(kubelet.port, **status))).status == 201
            await running_pod(api, containers)
            yield api, kubelet
    finally:
        await kubelet.stop()


async def test_a_log_is_the_kubelets(tmp_path: Path) -> None:
    async with served(tmp_path) as (api, kubelet):
        answer = await api.get(f"{PODS}/a/log?tailLines=3&follow=true&timestamps=false&sinceTime=2026-01-01T00:00:00Z")
        assert (answer.status, answer.headers["content-type"], answer.body) == (200, "text/plain", b"a line")
        (asked,) = kubelet.asked
        wanted = "/containerLogs/default/a/c?follow=true&sinceTime=2026-01-01T00%3A00%3A00Z&tailLines=3"
        assert (asked.method, asked.target) == ("GET", wanted)
        assert kubelet.certificates[0], "it is shown the server's certificate"
        refused = await api.get(f"{PODS}/a/log?previous=true")
        assert (refused.status, refused.json["message"]) == (400, "previous terminated container not found")


async def test_wrong_options_of_a_log_reach_no_kubelet(tmp_path: Path) -> None:
    async with served(tmp_path, ("c", "d")) as (api, kubelet):
        for query, status, said in (
            ("", 400, "a container name must be specified for pod a, choose one of: [c d]"),
            ("container=e", 400, "container e is not valid for pod a"),
            ("tailLines=-1&container=c", 422, "tailLines: Invalid value: -1: must be greater than or equal to 0"),
            ("limitBytes=0&container=c", 422, "limitBytes: Invalid value: 0: must be greater than 0"),
            ("sinceTime=noon&container=c", 400, "noon"),
            ("stream=Stdout&container=c", 422, "stream: Forbidden: may not be specified"),
        ):
            answer = await api.get(f"{PODS}/a/log?{query}")
            assert (answer.status, said in answer.json["message"]) == (status, True), answer.json
        assert kubelet.asked == []


async def test_a_command_is_upgraded_to_the_kubelet(tmp_path: Path) -> None:
    async with served(tmp_path) as (api, kubelet):
        headers = {"x_stream_protocol_version": "v4.channel.k8s.io", "authorization": "Bearer t"}
        path = f"{PODS}/a/exec?command=ls&command=-l&stdout=1&tty=true"
        async with api.upgrade(path, "SPDY/3.1", **headers) as client:
            client.write(b"ships")
            assert await client.read() == b"SHIPS"
        (asked,) = kubelet.asked
        assert asked.target == "/exec/default/a/c?command=ls&command=-l&output=1&tty=1"
        assert asked.values("x-stream-protocol-version") == ["v4.channel.k8s.io"]
        assert asked.values("authorization") == []
        async with api.upgrade(f"{PODS}/a/attach?stdin=1", "SPDY/3.1"):
            assert kubelet.asked[-1].target == "/attach/default/a/c?input=1"
        plain = await api.post(f"{PODS}/a/exec?command=ls")
        assert (plain.status, plain.json["message"]) == (400, "Upgrade request required")


async def test_ports_are_forwarded_through_a_tunnel_of_spdy_in_a_websocket(tmp_path: Path) -> None:
    async with served(tmp_path) as (api, kubelet):
        async with api.connect(f"{PODS}/a/portforward?ports=80", "SPDY/3.1+portforward.k8s.io") as client:
            assert client.protocol == "SPDY/3.1+portforward.k8s.io"
            client.send(ord("s"), b"hips")
            assert await client.receive() == (ord("S"), b"HIPS")
            client.close()
        (asked,) = kubelet.asked
        assert (asked.method, asked.target) == ("POST", "/portForward/default/a?port=80")
        assert asked.values("upgrade") == ["SPDY/3.1"]
        assert asked.values("x-stream-protocol-version") == ["portforward.k8s.io"]
        assert asked.values("sec-websocket-key") == []


async def raw(api: InMemory, protocol: str) -> bytes:
    headers = {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
    headers |= {"sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==", "sec-websocket-protocol": protocol}
    tunnel, _ = await api._open_tunnel(f"{PODS}/a/portforward?ports=80&ports=81", headers)
    client = WebSocketClient(tunnel, "")
    client.write(b"frames")
    return await client.read()


@pytest.mark.parametrize("protocol", ["v4.channel.k8s.io", "SPDY/3.1+portforward.k8s.io"])
async def test_a_websocket_that_the_kubelet_understands_goes_to_it_as_it_is(tmp_path: Path, protocol: str) -> None:
    async with served(tmp_path, declaredFeatures=["ExtendWebSocketsToKubelet"]) as (api, kubelet):
        assert await raw(api, protocol) == b"FRAMES"
        (asked,) = kubelet.asked
        assert (asked.method, asked.target) == ("GET", "/portForward/default/a?port=80%2C81")
        assert (asked.values("upgrade"), asked.values("sec-websocket-protocol")) == (["websocket"], [protocol])


async def test_a_kubelet_that_cannot_be_reached_is_told_of(tmp_path: Path) -> None:
    async with served(tmp_path) as (api, kubelet):
        await kubelet.stop()
        where = f"127.0.0.1:{kubelet.port}"
        log = await api.get(f"{PODS}/a/log")
        why = f"dial tcp {where}: connect: connection refused"
        assert (log.status, log.json["message"]) == (500, f'Get "https://{where}/containerLogs/default/a/c": {why}')
        upgrade = {"connection": "Upgrade", "upgrade": "SPDY/3.1"}
        ran = await api.request("POST", f"{PODS}/a/exec?command=ls", None, upgrade)
        assert (ran.status, ran.json["message"]) == (500, f"error dialing backend: {why}")


async def test_a_kubelet_must_be_the_one_of_its_certificate(tmp_path: Path) -> None:
    async with served(tmp_path) as (api, _):
        (tmp_path / "ca.crt").write_bytes(new_authority(datetime.now(UTC)).certificate_pem)
        answer = await api.get(f"{PODS}/a/log")
        assert (answer.status, "certificate signed by unknown authority" in answer.json["message"]) == (500, True)
        assert (await api.get(f"{PODS}/a/log?insecureSkipTLSVerifyBackend=true")).body == b"a line"


async def test_a_node_without_an_address_or_that_is_gone_has_no_kubelet(tmp_path: Path) -> None:
    async with served(tmp_path) as (api, _):
        status = {"status": {"addresses": [{"type": "Odd", "address": "o"}]}}
        merged = {"content-type": "application/merge-patch+json"}
        assert (await api.request("PATCH", "/api/v1/nodes/n/status", status, merged)).status == 200
        answer = await api.get(f"{PODS}/a/log")
        said = "no preferred addresses found; known addresses: [{Odd o}]"
        assert (answer.status, answer.json["message"]) == (500, said)
        assert (await api.delete("/api/v1/nodes/n")).status == 200
        gone = await api.get(f"{PODS}/a/log")
        assert (gone.status, gone.json["message"]) == (404, 'nodes "n" not found')


async def test_who_may_only_read_may_not_connect(tmp_path: Path) -> None:
    async with served(tmp_path) as (api, kubelet):
        role = {"metadata": {"name": "r"}, "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods/exec"]}]}
        rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
        assert (await api.post(f"{rbac}/roles", role)).status == 201
        subject = {"kind": "User", "name": "eve", "apiGroup": "rbac.authorization.k8s.io"}
        ref = {"kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io"}
        binding = {"metadata": {"name": "r"}, "subjects": [subject], "roleRef": ref}
        assert (await api.post(f"{rbac}/rolebindings", binding)).status == 201
        headers = {"connection": "Upgrade", "upgrade": "SPDY/3.1", "impersonate-user": "eve"}
        answer = await api.request("GET", f"{PODS}/a/exec?command=ls", None, headers)
        assert (answer.status, kubelet.asked) == (403, [])


async def test_a_request_to_a_node_goes_to_its_kubelet_or_another_port(tmp_path: Path) -> None:
    kubelet = await ScriptedBackend("127.0.0.1").start(tmp_path)
    other = await ScriptedBackend(tls=False).start(tmp_path)
    late = LateClient()
    kubelets = Kubelets(late, KubeletTrust(), TYPES)

    async def anywhere(host: str) -> str:
        return host

    hook = ProxyHook("proxy", ClusterProxies(late, kubelets, anywhere).of_node)
    definitions = [one for one in newest_definitions() if one.names.kind == "Node"]
    nodes = released_resources(definitions, {("", "nodes"): {"proxy": hook}}, {})
    try:
        async with InMemory(APIServer(serve=nodes)) as api, asyncio.timeout(60):
            await late.begin(api.client())
            assert (await api.post("/api/v1/nodes", node(kubelet.port))).status == 201
            for name in ("n", f"n:{kubelet.port}", f"http:n:{kubelet.port}"):
                answer = await api.request("POST", f"/api/v1/nodes/{name}/proxy/stats/summary?a=b", b"x")
                assert (answer.status, answer.json["target"]) == (200, "/stats/summary?a=b"), answer.body
            assert [asked.method for asked in kubelet.asked] == ["POST"] * 3
            assert (await api.get(f"/api/v1/nodes/n:{other.port}/proxy/metrics")).json["target"] == "/metrics"
            assert len(other.asked) == 1
            bare = await api.get("/api/v1/nodes/n/proxy")
            assert (bare.status, bare.headers["location"]) == (301, "/api/v1/nodes/n/proxy/")
            assert (await api.get("/api/v1/nodes/ftp:n:1/proxy/")).json["message"] == 'invalid node request "ftp:n:1"'
            assert (await api.get("/api/v1/nodes/none/proxy/")).status == 404
    finally:
        await kubelet.stop()
        await other.stop()


async def test_nodes_at_addresses_of_this_machine_or_its_link_are_not_asked(tmp_path: Path) -> None:
    async with served(tmp_path) as (api, kubelet):
        answer = await api.get("/api/v1/nodes/n/proxy/metrics")
        assert (answer.status, answer.json["message"], kubelet.asked) == (400, "address not allowed", [])
    for address in ("localhost", "169.254.169.254", "fe80::1", "0.0.0.0", "::ffff:127.0.0.1"):
        with pytest.raises(BadRequest, match="address not allowed"):
            await ordinary_ip(address)
    assert await ordinary_ip("10.0.0.7") == "10.0.0.7"
