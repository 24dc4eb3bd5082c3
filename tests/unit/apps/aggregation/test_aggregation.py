"""Groups and versions that another server answers for: asked through a control plane in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from crd_kit import definition, established
from loopback_endpoints import store_slice
from scripted_backend import GROUP, Asked, ScriptedBackend, as_json, well_behaved

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.apps.controlplane.options import ControlPlaneOptions
from oarlock.meta.context import User
from oarlock.server.serving.certificates.issuing import issue, new_authority
from oarlock.testing import InMemory

pytestmark = pytest.mark.anyio

SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
ECHOES = f"/apis/{GROUP}/v1/namespaces/default/echoes"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
Tree = dict[str, Any]

HUNG_S = 60.0
"""Backends are asked over sockets, in real time: after so many seconds on a loaded machine, something hangs."""


def condition(tree: Tree | None) -> tuple[str, str]:
    """Status and reason of Available."""
    found = ((tree or {}).get("status") or {}).get("conditions") or [{"status": "", "reason": ""}]
    return found[0]["status"], found[0]["reason"]


async def until(api: InMemory, name: str, holds: Callable[[Tree | None], bool]) -> Tree | None:
    """The APIService as soon as `holds` says so of it; None stands for one that isn't there."""
    async with asyncio.timeout(HUNG_S), api.watch(f"{SERVICES}?fieldSelector=metadata.name%3D{name}") as events:
        answer = await api.get(f"{SERVICES}/{name}")
        tree = answer.json if answer.status == 200 else None
        while not holds(tree):
            kind, tree = await events.next(HUNG_S)
            if kind == "DELETED":
                tree = None
        return tree


async def in_time(api: InMemory, wanted: tuple[str, str]) -> None:
    """Let time pass until the APIService is as `wanted`."""
    async with asyncio.timeout(HUNG_S):
        while condition((await api.get(f"{SERVICES}/v1.{GROUP}")).json) != wanted:
            await api.clock.run(1)  # type: ignore[attr-defined]
            await asyncio.sleep(0.001)  # backends are asked over sockets


async def available(api: InMemory, tree: Tree) -> None:
    """Create an APIService, and wait until it is available."""
    made = await api.post(SERVICES, tree)
    assert made.status == 201, made.json
    await until(api, tree["metadata"]["name"], lambda one: condition(one) == ("True", "Passed"))
    await forwarded(api, f"/apis/{tree['spec']['group']}/{tree['spec']['version']}/x", lambda status: status == 200)


async def forwarded(api: InMemory, path: str, holds: Callable[[int], bool]) -> None:
    """Wait until the server acts by what the APIService says."""
    async with asyncio.timeout(HUNG_S):
        while True:
            answer = await api.get(path)
            if holds(answer.status):
                return
            await asyncio.sleep(0)


async def discovered(api: InMemory, group: str = GROUP) -> Tree:
    items = (await api.get("/apis", accept=AGGREGATED)).json["items"]
    return next((one for one in items if one["metadata"]["name"] == group), {})


async def fresh(api: InMemory) -> Tree:
    """What is discovered of the group once its backend has been asked."""
    async with asyncio.timeout(HUNG_S):
        while True:
            group = await discovered(api)
            if group["versions"][0]["freshness"] == "Current":
                return group
            await asyncio.sleep(0)


@pytest.fixture
async def backend(tmp_path: Path) -> AsyncIterator[ScriptedBackend]:
    one = await ScriptedBackend().start(tmp_path)
    yield one
    await one.stop()


async def test_a_backend_becomes_available_and_answers(backend: ScriptedBackend) -> None:
    async with InMemory(ControlPlane()) as api:
        await available(api, backend.api_service())
        told = (await api.post(f"{ECHOES}?b=2&a=1", {"said": "x"})).json
        assert (told["method"], told["target"], told["body"]) == ("POST", f"{ECHOES}?a=1&b=2", '{"said": "x"}')
        group = await fresh(api)
        assert [one["resource"] for one in group["versions"][0]["resources"]] == ["echoes"]


async def test_identities_are_told_by_this_server_only(backend: ScriptedBackend) -> None:
    async with InMemory(ControlPlane()) as api:
        await available(api, backend.api_service())
        spoofed = {
            "x-remote-user": "root",
            "x-remote-group": "system:masters",
            "X-Remote-Extra-Scopes": "all",
            "x_remote_user": "root",
            "authorization": "Bearer secret",
            "connection": "x-remote-user, x-kept",
            "x-kept": "no",
            "x-other": "yes",
        }
        await api.request("GET", f"{ECHOES}/a", None, {name.lower(): value for name, value in spoofed.items()})
        asked = next(one for one in reversed(backend.asked) if "/echoes/" in one.target)
        users = asked.values("x-remote-user")
        assert len(users) == 1
        assert users != ["root"]
        assert not asked.values("x-remote-extra-scopes")
        assert not asked.values("x_remote_user")
        assert not asked.values("authorization")
        assert not asked.values("x-kept")
        assert asked.values("x-other") == ["yes"]


async def test_what_a_user_is_cant_begin_another_header(backend: ScriptedBackend) -> None:
    user = User(name="eve", groups=("system:masters",), extra={"a b/c": ("1", "2")})
    async with InMemory(ControlPlane(), user=user) as api:
        await available(api, backend.api_service())
        await api.get(f"{ECHOES}/a")
        assert next(one for one in reversed(backend.asked) if "/echoes/" in one.target).values(
            "x-remote-extra-a%20b%2fc"
        ) == ["1", "2"]
    user = User(name="eve\r\nx-remote-group: root", groups=("system:masters",))
    async with InMemory(ControlPlane(), user=user) as api:
        await api.post(SERVICES, backend.api_service())
        await until(api, f"v1.{GROUP}", lambda one: condition(one) == ("True", "Passed"))
        await forwarded(api, f"{ECHOES}/a", lambda status: status == 400)
        assert not [one for one in backend.asked if "root" in one.values("x-remote-group")]


async def test_a_redirect_isnt_passed_on(backend: ScriptedBackend) -> None:
    async with InMemory(ControlPlane()) as api:
        await available(api, backend.api_service())

        async def away(asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 302 Found\r\nlocation: https://elsewhere/\r\ncontent-length: 0\r\n\r\n")

        backend.answer = away
        assert (await api.get(f"{ECHOES}/a")).status == 502


async def test_a_backend_that_is_killed_comes_back(backend: ScriptedBackend, tmp_path: Path) -> None:
    async with InMemory(ControlPlane()) as api:
        await available(api, backend.api_service())
        await backend.stop()
        assert (await api.get(f"{ECHOES}/a")).status == 503
        await in_time(api, ("False", "FailedDiscoveryCheck"))
        await backend.start(tmp_path)
        await in_time(api, ("True", "Passed"))
        await forwarded(api, f"{ECHOES}/a", lambda status: status == 200)


async def unavailability(api: InMemory) -> dict[str, float]:
    """The metrics that alerts for aggregated APIs look at, of the backend."""
    lines = (await api.get("/metrics")).body.decode().splitlines()
    found = [line.removeprefix("aggregator_unavailable_apiservice").rpartition(" ") for line in lines if GROUP in line]
    return {name: float(number) for name, _, number in found if name[:1] in "{_"}


async def test_metrics_tell_which_backends_are_away_and_how_often_they_went(
    backend: ScriptedBackend, tmp_path: Path
) -> None:
    now, turns = f'{{name="v1.{GROUP}"}}', f'_total{{name="v1.{GROUP}",reason="FailedDiscoveryCheck"}}'
    async with InMemory(ControlPlane()) as api:
        await available(api, backend.api_service())
        assert await unavailability(api) == {now: 0.0}
        assert 'aggregator_unavailable_apiservice{name="v1."} 0.0' in (await api.get("/metrics")).body.decode()
        for n in (1, 2):
            await backend.stop()
            await in_time(api, ("False", "FailedDiscoveryCheck"))
            assert await unavailability(api) == {now: 1.0, turns: n}
            await backend.start(tmp_path)
            await in_time(api, ("True", "Passed"))
            assert await unavailability(api) == {now: 0.0, turns: n}
        assert (await api.delete(f"{SERVICES}/v1.{GROUP}")).status == 200
        async with asyncio.timeout(HUNG_S):
            while True:
                if not await unavailability(api):
                    return
                await asyncio.sleep(0)


async def test_a_backend_may_come_later(backend: ScriptedBackend, tmp_path: Path) -> None:
    await backend.stop()
    async with InMemory(ControlPlane()) as api:
        await api.post(SERVICES, backend.api_service())
        await until(api, f"v1.{GROUP}", lambda one: condition(one) == ("False", "FailedDiscoveryCheck"))
        await forwarded(api, f"{ECHOES}/a", lambda status: status == 503)
        assert (await discovered(api))["versions"] == [{"version": "v1", "freshness": "Stale"}]
        assert (await api.get("/api/v1/namespaces")).status == 200
        await backend.start(tmp_path)
        await in_time(api, ("True", "Passed"))


async def test_a_service_is_looked_for(backend: ScriptedBackend) -> None:
    tree = backend.api_service()
    del tree["metadata"]["annotations"]
    async with InMemory(ControlPlane()) as api:
        await api.post(SERVICES, tree)
        await until(api, f"v1.{GROUP}", lambda one: condition(one) == ("False", "ServiceNotFound"))
        spec = {"ports": [{"name": "https", "port": 443}], "clusterIP": "None"}
        assert (
            await api.post("/api/v1/namespaces/default/services", {"metadata": {"name": "echo"}, "spec": spec})
        ).status == 201
        await api.clock.run(3)  # type: ignore[attr-defined]
        await until(api, f"v1.{GROUP}", lambda one: condition(one) == ("False", "EndpointsNotFound"))
        endpoints = {
            "metadata": {"name": "echo-1", "labels": {"kubernetes.io/service-name": "echo"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}],
            "ports": [{"name": "https", "port": backend.port, "protocol": "TCP"}],
        }
        await store_slice(api, "default", endpoints)
        await api.clock.run(3)  # type: ignore[attr-defined]
        await until(api, f"v1.{GROUP}", lambda one: condition(one) == ("True", "Passed"))


async def test_local_ones_come_back_with_their_definitions() -> None:
    async with InMemory(ControlPlane()) as api:
        await until(api, "v1.apps", lambda one: condition(one) == ("True", "Local"))
        await established(api, definition())
        name = "v1.names.example.com"
        await until(api, name, lambda one: condition(one) == ("True", "Local"))
        first = (await api.get(f"{SERVICES}/{name}")).json["metadata"]
        assert first["labels"] == {"kube-aggregator.kubernetes.io/automanaged": "true"}
        assert (await api.request("DELETE", f"{SERVICES}/{name}")).status == 200
        await until(api, name, lambda one: one is not None and one["metadata"]["uid"] != first["uid"])
        crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/plains.names.example.com"
        assert (await api.request("DELETE", crd)).status == 200
        await api.clock.run(1)  # type: ignore[attr-defined]
        await until(api, name, lambda one: one is None)


async def test_priorities_order_groups_and_versions(backend: ScriptedBackend) -> None:
    async with InMemory(ControlPlane()) as api:
        await available(api, backend.api_service("v1", versionPriority=5, groupPriorityMinimum=19_000))
        await available(api, backend.api_service("v2alpha1", versionPriority=10, groupPriorityMinimum=19_000))
        groups = (await api.get("/apis")).json["groups"]
        names = [one["name"] for one in groups]
        assert names.index(GROUP) < names.index("apps")
        found = groups[names.index(GROUP)]
        assert [one["version"] for one in found["versions"]] == ["v2alpha1", "v1"]
        assert (await api.request("DELETE", f"{SERVICES}/v2alpha1.{GROUP}")).status == 200
        await forwarded(api, f"/apis/{GROUP}/v2alpha1/x", lambda status: status == 404)


async def test_a_huge_discovery_document_isnt_taken(backend: ScriptedBackend) -> None:
    async def huge(asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
        for _ in range(80):
            if writer.is_closing():
                return
            writer.write(b"10000\r\n" + b"x" * 65_536 + b"\r\n")
            await writer.drain()
            await asyncio.sleep(0)

    backend.answer = huge
    async with InMemory(ControlPlane()) as api:
        await api.post(SERVICES, backend.api_service())
        await until(api, f"v1.{GROUP}", lambda one: condition(one) == ("False", "FailedDiscoveryCheck"))


async def kept(api: InMemory, backend: ScriptedBackend) -> None:
    """Until a request needs no new connection: what the server asks by itself may use the one there is."""
    for _ in range(20):
        before = backend.connections
        assert (await api.get(f"{ECHOES}/a")).status == 200
        if backend.connections == before:
            return
    pytest.fail("each request has a connection of its own")


async def test_a_changed_client_certificate_is_shown(tmp_path: Path) -> None:
    clients = new_authority(datetime.now(UTC))
    one, other = tmp_path / "proxy.crt", tmp_path / "proxy.key"

    def renew(name: str) -> None:
        pair = issue(clients, [name], datetime.now(UTC))
        one.write_bytes(pair.certificate_pem)
        other.write_bytes(pair.key_pem)

    renew("first.example.com")
    backend = await ScriptedBackend().start(tmp_path)
    options = ControlPlaneOptions(proxy_client_cert_file=one, proxy_client_key_file=other)
    async with InMemory(ControlPlane(options=options)) as api:
        await available(api, backend.api_service())
        await fresh(api)
        await kept(api, backend)
        before = backend.connections
        renew("second.example.com")
        assert (await api.get(f"{ECHOES}/a")).status == 200
        assert backend.connections > before
        await kept(api, backend)
        other.write_bytes(issue(clients, ["third.example.com"], datetime.now(UTC)).key_pem)
        await kept(api, backend)  # a key of another certificate isn't used
    await backend.stop()


async def test_openapi_v2_of_a_backend_is_merged(backend: ScriptedBackend) -> None:
    path, echo = f"/apis/{GROUP}/v1/echoes", "com.example.echo.v1.Echo"
    schema = {"$ref": f"#/definitions/{echo}"}
    operation = {"operationId": "readEcho", "responses": {"200": {"description": "OK", "schema": schema}}}
    document = {"swagger": "2.0", "paths": {path: {"get": operation}}, "definitions": {echo: {"type": "object"}}}
    told: list[str] = []

    async def answer(asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if asked.target != "/openapi/v2":
            await well_behaved(asked, reader, writer)
            return
        told.append("".join(asked.values("if-none-match")))
        if told[-1] == '"one"':
            writer.write(b'HTTP/1.1 304 Not Modified\r\netag: "one"\r\n\r\n')
        else:
            writer.write(as_json(document).replace(b"\r\n", b'\r\netag: "one"\r\n', 1))

    backend.answer = answer
    async with InMemory(ControlPlane()) as api:
        before = await api.get("/openapi/v2")
        await available(api, backend.api_service())
        await fresh(api)
        found = await api.get("/openapi/v2")
        assert found.json["paths"][path] == {"get": operation}
        assert found.json["definitions"][echo] == {"type": "object"}
        assert found.json["definitions"].keys() - {echo} == before.json["definitions"].keys()
        assert found.headers["etag"] != before.headers["etag"]
        async with asyncio.timeout(HUNG_S):
            while '"one"' not in told:
                await api.clock.run(30)  # type: ignore[attr-defined]
                await asyncio.sleep(0.001)  # backends are asked over sockets
        assert (await api.get("/openapi/v2")).headers["etag"] == found.headers["etag"]
        in_protobuf = await api.get("/openapi/v2", accept="application/com.github.proto-openapi.spec.v2.v1.0+protobuf")
        assert echo.encode() in in_protobuf.body
        assert (await api.request("DELETE", f"{SERVICES}/v1.{GROUP}")).status == 200
        await forwarded(api, f"/apis/{GROUP}/v1/x", lambda status: status == 404)
        assert path not in (await api.get("/openapi/v2")).json["paths"]


async def test_without_the_part_there_are_no_api_services() -> None:
    async with InMemory(ControlPlane(disable=["aggregation"])) as api:
        assert (await api.get(SERVICES)).status == 404
        assert (await api.get("/apis/apps/v1")).status == 200


async def test_a_namespace_is_emptied_while_a_backend_is_away(backend: ScriptedBackend) -> None:
    """It stays until the backend says that nothing of it is left there."""
    await backend.stop()
    async with InMemory(ControlPlane()) as api:
        await api.post(SERVICES, backend.api_service())
        await until(api, f"v1.{GROUP}", lambda one: condition(one) == ("False", "FailedDiscoveryCheck"))
        await forwarded(api, f"{ECHOES}/a", lambda status: status == 503)
        await api.post("/api/v1/namespaces", {"metadata": {"name": "n"}})
        await api.post("/api/v1/namespaces/n/configmaps", {"metadata": {"name": "c"}})
        await api.request("DELETE", "/api/v1/namespaces/n")
        told: Tree = {}
        async with asyncio.timeout(HUNG_S):
            while "NamespaceDeletionDiscoveryFailure" not in told:
                await api.clock.run(1)  # type: ignore[attr-defined]
                status = (await api.get("/api/v1/namespaces/n")).json["status"]
                told = {one["type"]: one for one in status.get("conditions", ())}
        assert (await api.get("/api/v1/namespaces/n/configmaps/c")).status == 404
        assert told["NamespaceDeletionDiscoveryFailure"]["status"] == "True"
        assert told["NamespaceDeletionContentFailure"]["status"] == "False"
