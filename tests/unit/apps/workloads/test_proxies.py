"""``proxy`` of services and pods: requests go to a pod that listens, and what it answers comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from loopback_endpoints import store_slice
from scripted_backend import Asked, ScriptedBackend

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.apps.workloads.proxies import locate_pod, split_name
from oarlock.meta.context import User
from oarlock.meta.errors import BadRequest
from oarlock.testing import InMemory, VirtualClock

pytestmark = pytest.mark.anyio

CORE = "/api/v1/namespaces/default"
WEB = f"{CORE}/services/web:http/proxy"
Tree = dict[str, Any]


@asynccontextmanager
async def running() -> AsyncIterator[InMemory]:
    """A control plane whose namespaces have their accounts."""
    clock = VirtualClock()
    async with InMemory(ControlPlane(), clock=clock) as api:
        await clock.run(1)
        yield api


async def pod(api: InMemory, name: str, ip: str, ports: list[Tree] | None = None) -> None:
    """A pod that has this address."""
    container = {"name": "c", "image": "example.com/app:1", "ports": ports or []}
    made = await api.post(f"{CORE}/pods", {"metadata": {"name": name}, "spec": {"containers": [container]}})
    assert made.status == 201, made.json
    status = {"status": {"podIP": ip, "podIPs": [{"ip": ip}], "phase": "Running"}}
    merged = {"content-type": "application/merge-patch+json"}
    answer = await api.request("PATCH", f"{CORE}/pods/{name}/status", status, merged)
    assert answer.status == 200, answer.json


async def endpoint(api: InMemory, port: int, reference: Tree | None) -> None:
    """A ready endpoint of the service ``web`` on this machine."""
    one = {"addresses": ["127.0.0.1"], "conditions": {"ready": True}}
    piece = {
        "metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "endpoints": [one if reference is None else {**one, "targetRef": reference}],
        "ports": [{"name": "http", "port": port, "protocol": "TCP"}],
    }
    await store_slice(api, "default", piece)


async def service(api: InMemory) -> None:
    spec = {"ports": [{"name": "http", "port": 80}]}
    assert (await api.post(f"{CORE}/services", {"metadata": {"name": "web"}, "spec": spec})).status == 201


@asynccontextmanager
async def served(folder: Path, **options: Any) -> AsyncIterator[tuple[InMemory, ScriptedBackend]]:
    """A service with one pod behind it, which listens."""
    backend = await ScriptedBackend(**{"tls": False, **options}).start(folder)
    try:
        async with running() as api, asyncio.timeout(60):
            await service(api)
            await pod(api, "web-0", "127.0.0.1")
            await endpoint(api, backend.port, {"kind": "Pod", "name": "web-0", "namespace": "default"})
            yield api, backend
    finally:
        await backend.stop()


async def test_a_request_goes_to_a_pod_behind_the_service(tmp_path: Path) -> None:
    async with served(tmp_path) as (api, backend):
        answer = await api.request("POST", f"{WEB}/a/b%20c/d/?q=1&flag", b"hello", {"content-type": "text/plain"})
        assert answer.status == 200
        told = answer.json
        assert (told["method"], told["target"], told["body"]) == ("POST", "/a/b%20c/d/?q=1&flag", "hello")
        for name in ("web:80", ":web:http", "http:web:80"):
            answer = await api.get(f"{CORE}/services/{name}/proxy/x")
            assert (answer.status, answer.json["target"]) == (200, "/x")
        for method in ("GET", "PUT", "PATCH", "DELETE", "OPTIONS"):
            assert (await api.request(method, f"{WEB}/x")).json["method"] == method
        assert (await api.request("HEAD", f"{WEB}/x")).status == 200
        assert backend.asked[-1].method == "HEAD"


async def test_a_backend_is_not_told_who_asks(tmp_path: Path) -> None:
    async with served(tmp_path) as (api, backend):
        headers = {"authorization": "Bearer t", "x-remote-user": "eve", "cookie": "a=b", "host": "api.example.com"}
        assert (await api.request("GET", f"{WEB}/x", None, headers)).status == 200
        (asked,) = backend.asked
        assert {name for name, _ in asked.headers if name.startswith(("authorization", "x-remote-"))} == set()
        assert asked.values("cookie") == ["a=b"]
        assert asked.values("host") == asked.values("x-forwarded-host") == ["api.example.com"]
        assert asked.values("x-forwarded-uri") == [f"{WEB}/x"]
        assert asked.values("x-forwarded-proto") == ["https"]


async def test_over_tls_no_certificate_is_looked_at(tmp_path: Path) -> None:
    async with served(tmp_path, tls=True) as (api, _):
        answer = await api.get(f"{CORE}/services/https:web:http/proxy/x")
        assert (answer.status, answer.json["target"]) == (200, "/x")


async def test_without_a_path_the_client_is_led_to_one_that_ends_with_a_slash(tmp_path: Path) -> None:
    async with served(tmp_path) as (api, backend):
        answer = await api.get(f"{WEB}?q=1")
        assert (answer.status, answer.headers["location"], backend.asked) == (301, f"{WEB}/?q=1", [])
        assert (await api.get(f"{WEB}/?q=1")).json["target"] == "/?q=1"
        assert (await api.request("POST", WEB)).json["target"] == "/"


async def leading_on(asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers with the location that the query says, and lets every origin read it."""
    location = asked.target.partition("?to=")[2]
    head = f"HTTP/1.1 302 Found\r\nlocation: {location}\r\naccess-control-allow-origin: *\r\n"
    writer.write(f"{head}content-length: 0\r\n\r\n".encode())


async def test_a_location_at_the_backend_is_one_behind_the_subresource(tmp_path: Path) -> None:
    async with served(tmp_path, answer=leading_on) as (api, backend):
        for given, shown in (
            ("/login/", f"{WEB}/login/"),
            ("/", f"{WEB}/"),
            (f"http://127.0.0.1:{backend.port}/x", f"{WEB}/x"),
            (f"{WEB}/there", f"{WEB}/there"),
            ("beside", "beside"),
            ("https://elsewhere.example.com/x", "https://elsewhere.example.com/x"),
        ):
            answer = await api.get(f"{WEB}/x?to={given}")
            assert (answer.status, answer.headers["location"]) == (302, shown)
            assert "access-control-allow-origin" not in answer.headers


async def test_only_pods_are_asked() -> None:
    async with running() as api:
        await service(api)
        await pod(api, "elsewhere", "10.1.1.1")
        wanted = {"message": 'no endpoints available for service "web:http"', "code": 503}
        for reference in (
            None,
            {"kind": "Pod", "name": "gone", "namespace": "default"},
            {"kind": "Pod", "name": "elsewhere", "namespace": "default"},
        ):
            await endpoint(api, 1, reference)
            answer = (await api.get(f"{WEB}/x")).json
            assert {name: answer[name] for name in wanted} == wanted


async def test_what_cannot_be_reached_is_said(tmp_path: Path) -> None:
    async with served(tmp_path) as (api, backend):
        await backend.stop()
        answer = await api.get(f"{WEB}/x")
        assert answer.status == 503
        assert answer.json["message"].startswith("error trying to reach service: dial tcp 127.0.0.1:")
        for name, code, message in (
            ("web:81", 503, 'no service port 81 found for service "web"'),
            ("web:other", 503, 'no endpoints available for service "web:other"'),
            ("none:80", 404, 'services "none" not found'),
            ("ftp:web:80", 400, 'invalid service request "ftp:web:80"'),
        ):
            answer = await api.get(f"{CORE}/services/{name}/proxy/x")
            assert (answer.status, answer.json["message"]) == (code, message)


async def test_a_pod_at_an_address_of_this_machine_is_not_asked() -> None:
    async with running() as api:
        for number, ip in enumerate(("127.0.0.1", "169.254.169.254", "::1", "fe80::1")):
            await pod(api, f"p{number}", ip)
            answer = await api.get(f"{CORE}/pods/p{number}/proxy/x")
            assert (answer.status, answer.json["message"]) == (400, "address not allowed")
        assert (await api.get(f"{CORE}/pods/none/proxy/x")).status == 404


async def test_a_pod_listens_at_its_first_port_unless_one_is_given() -> None:
    async with running() as api:
        await pod(api, "a", "10.1.1.1", [{"containerPort": 8080}])
        await pod(api, "b", "10.1.1.2")
        client = api.client()
        for text, host, port, tls in (
            ("a", "10.1.1.1", 8080, False),
            ("a:90", "10.1.1.1", 90, False),
            ("https:b:", "10.1.1.2", 443, True),
            ("b", "10.1.1.2", 80, False),
        ):
            found = await locate_pod(client, "default", text)
            assert (found.address.host, found.address.port, found.tls) == (host, port, tls)
        with pytest.raises(BadRequest, match='invalid pod request "a:http"'):
            await locate_pod(client, "default", "a:http")


@pytest.mark.parametrize("text", ["a:b:c:d", "", ":80", "ftp:a:80"])
def test_names_that_say_nothing(text: str) -> None:
    with pytest.raises(BadRequest):
        split_name("service", text)


async def test_it_takes_a_permission_of_its_own(tmp_path: Path) -> None:
    async with served(tmp_path) as (api, backend):
        rule = {"apiGroups": [""], "resources": ["services/proxy"], "verbs": ["get"], "resourceNames": ["web:http"]}
        rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
        assert (await api.post(f"{rbac}/roles", {"metadata": {"name": "r"}, "rules": [rule]})).status == 201
        binding = {
            "metadata": {"name": "r"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
        }
        assert (await api.post(f"{rbac}/rolebindings", binding)).status == 201
        alice = api.client(User("alice", ("system:authenticated",)))
        assert (await alice.request("GET", f"{WEB}/x"))["target"] == "/x"
        for method, path in (("POST", f"{WEB}/x"), ("GET", f"{CORE}/services/web:80/proxy/x")):
            with pytest.raises(Exception, match="forbidden"):
                await alice.request(method, path)
        assert len(backend.asked) == 1


async def test_discovery_and_documents_say_so() -> None:
    async with running() as api:
        listed = {one["name"]: one for one in (await api.get("/api/v1")).json["resources"]}
        for resource, kind in (("pods", "PodProxyOptions"), ("services", "ServiceProxyOptions")):
            shown = listed[f"{resource}/proxy"]
            assert (shown["kind"], shown["namespaced"]) == (kind, True)
            assert shown["verbs"] == ["create", "delete", "get", "patch", "update"]
        paths = (await api.get("/openapi/v3/api/v1")).json["paths"]
        for tail in ("proxy", "proxy/{path}"):
            shown = paths[f"/api/v1/namespaces/{{namespace}}/services/{{name}}/{tail}"]
            assert {"get", "put", "post", "delete", "options", "head", "patch"} <= shown.keys()
        assert shown["get"]["operationId"] == "connectCoreV1GetNamespacedServiceProxyWithPath"
        assert (await api.get("/openapi/v2")).status == 200
