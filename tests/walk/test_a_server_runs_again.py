"""One server object serves test after test, each in an event loop of its own, as if it were the first."""

from __future__ import annotations

import asyncio
import base64
import logging
import ssl
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import trustme
from conversion_service import ConversionService

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.storage.memory import MemoryBackend
from oarlock.testing import InMemory, VirtualClock

Tree = dict[str, Any]
PLANE = ControlPlane()
"""One for all tests of this file, as in a user's conftest.py."""

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
MAPS = "/api/v1/namespaces/default/configmaps"
AUTHORITY = trustme.CA()


@pytest.fixture(autouse=True)
def nothing_fails(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """A controller that fails runs again, which would hide it."""
    yield
    assert [one.getMessage() for one in caplog.get_records("call") if one.levelno >= logging.ERROR] == []


def in_a_new_loop(scenario: Callable[[InMemory, VirtualClock], Awaitable[None]]) -> None:
    async def run() -> None:
        clock = VirtualClock()
        async with InMemory(PLANE, clock=clock) as api:
            await clock.run(2)
            await asyncio.wait_for(scenario(api, clock), 60)

    asyncio.run(run())


async def until_so(clock: VirtualClock, look: Callable[[], Awaitable[bool]]) -> None:
    """Wait until `look` says so: some of what servers do is done in threads."""
    async with asyncio.timeout(60):
        while not await look():
            await asyncio.sleep(0.01)
            await clock.run(1)


async def status_is(api: InMemory, path: str, status: int) -> bool:
    return (await api.get(path)).status == status


twice = pytest.mark.parametrize("time", [1, 2])


@twice
def test_definitions_are_established(time: int) -> None:
    async def scenario(api: InMemory, clock: VirtualClock) -> None:
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        names = {"plural": "boats", "singular": "boat", "kind": "Boat", "listKind": "BoatList"}
        spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
        assert (await api.post(CRDS, {"metadata": {"name": "boats.example.com"}, "spec": spec})).status == 201
        await clock.run(2)
        boats = "/apis/example.com/v1/namespaces/default/boats"
        body = {"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": "b"}}
        assert (await api.post(boats, body)).status == 201
        await until_so(clock, lambda: status_is(api, f"{SERVICES}/v1.example.com", 200))

    in_a_new_loop(scenario)


@twice
def test_api_services_are_forwarded(time: int) -> None:
    async def scenario(api: InMemory, clock: VirtualClock) -> None:
        service = {"namespace": "default", "name": "nowhere"}
        spec = {"group": "far.example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}
        tree = {"metadata": {"name": "v1.far.example.com"}, "spec": {**spec, "service": service}}
        assert (await api.post(SERVICES, tree)).status == 201
        await clock.run(2)
        await until_so(clock, lambda: status_is(api, "/apis/far.example.com/v1/ships", 503))
        [condition] = (await api.get(f"{SERVICES}/v1.far.example.com")).json["status"]["conditions"]
        assert (condition["status"], condition["reason"]) == ("False", "ServiceNotFound")

    in_a_new_loop(scenario)


@twice
def test_webhooks_are_asked(time: int) -> None:
    def refuse(review: Tree) -> Tree:
        response = {"uid": review["request"]["uid"], "allowed": False, "status": {"code": 403}}
        return {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}

    async def scenario(api: InMemory, clock: VirtualClock) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        AUTHORITY.issue_cert("127.0.0.1").configure_cert(context)
        service = ConversionService()
        service.answer = refuse
        try:
            bundle = base64.b64encode(AUTHORITY.cert_pem.bytes()).decode()
            rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}
            webhook = {
                "name": "one.hooks.example.com",
                "clientConfig": {"url": await service.start(context), "caBundle": bundle},
                "rules": [{**rule, "scope": "Namespaced"}],
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
            assert (await api.post(HOOKS, {"metadata": {"name": "c"}, "webhooks": [webhook]})).status == 201
            assert (await api.post(MAPS, {"metadata": {"name": "a"}})).status == 403
        finally:
            await service.close()

    in_a_new_loop(scenario)


@twice
def test_garbage_is_collected(time: int) -> None:
    async def scenario(api: InMemory, clock: VirtualClock) -> None:
        owner = (await api.post(MAPS, {"metadata": {"name": "owner"}})).json["metadata"]
        link = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"]}
        await api.post(MAPS, {"metadata": {"name": "owned", "ownerReferences": [link]}})
        await api.delete(f"{MAPS}/owner")
        await clock.run(2)
        assert (await api.get(f"{MAPS}/owned")).status == 404

    in_a_new_loop(scenario)


@twice
def test_policies_are_checked(time: int) -> None:
    async def scenario(api: InMemory, clock: VirtualClock) -> None:
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
        spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "object.nothing == 1"}]}
        path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
        assert (await api.post(path, {"metadata": {"name": "one"}, "spec": spec})).status == 201

        async def observed() -> bool:
            return bool(((await api.get(f"{path}/one")).json.get("status") or {}).get("observedGeneration"))

        await until_so(clock, observed)

    in_a_new_loop(scenario)


def test_each_start_makes_the_same_objects() -> None:
    kept: list[list[str]] = []

    async def run() -> None:
        clock = VirtualClock()
        backend = MemoryBackend(clock)
        async with InMemory(PLANE, clock=clock, backend=backend):
            await clock.run(20)
            kept.append([one.key for one in (await backend.list("/", "0")).kvs])

    for _ in range(3):
        asyncio.run(run())
    assert len(kept[0]) > 150
    assert kept[0] == kept[1] == kept[2]
