"""Services get addresses and node ports, keep them, and give them back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.apps.controlplane.options import ControlPlaneOptions
from oarlock.meta.errors import Forbidden
from oarlock.registry.write.write_request import AdmissionRequest
from oarlock.storage.memory import MemoryBackend
from oarlock.storage.sqlite.backend import SqliteBackend
from oarlock.testing import InMemory, VirtualClock

SERVICES = "/api/v1/namespaces/default/services"
ADDRESSES = "/apis/networking.k8s.io/v1/ipaddresses"
STRATEGIC = {"content-type": "application/strategic-merge-patch+json"}


def service(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


async def given(api: InMemory) -> set[str]:
    return {one["metadata"]["name"] for one in (await api.get(ADDRESSES)).json["items"]}


@pytest.mark.anyio
async def test_a_service_has_an_address_of_the_range() -> None:
    plane = ControlPlane(options=ControlPlaneOptions(service_cluster_ip_range="10.7.0.0/29"))
    async with InMemory(plane) as api:
        made = [(await api.post(SERVICES, service(f"s{i}"))).json["spec"] for i in range(5)]
        addresses = {one["clusterIP"] for one in made}
        assert addresses <= {f"10.7.0.{i}" for i in range(1, 7)}
        assert len(addresses) == 5
        assert all(one["clusterIPs"] == [one["clusterIP"]] for one in made)
        assert made[0]["ipFamilies"] == ["IPv4"]
        assert made[0]["ipFamilyPolicy"] == "SingleStack"
        full = [await api.post(SERVICES, service(f"t{i}")) for i in range(2)]
        assert full[-1].status == 422
        assert "range is full" in full[-1].json["message"]


@pytest.mark.anyio
async def test_an_address_is_somebodys_until_the_service_is_gone() -> None:
    clock = VirtualClock()
    async with InMemory(ControlPlane(), clock=clock) as api:
        await clock.run(1)  # controllers run
        mine = await api.post(SERVICES, service("a", clusterIP="10.0.0.50"))
        assert mine.json["spec"]["clusterIP"] == "10.0.0.50"
        taken = await api.post(SERVICES, service("b", clusterIP="10.0.0.50"))
        assert taken.json["message"] == (
            'Service "b" is invalid: spec.clusterIPs: Invalid value: ["10.0.0.50"]: failed to allocate IP 10.0.0.50: '
            "provided IP is already allocated"
        )
        elsewhere = await api.post(SERVICES, service("b", clusterIP="192.0.2.1"))
        assert "is not in the valid range. The range of valid IPs is 10.0.0.0/24" in elsewhere.json["message"]
        await clock.run(1)
        await api.request("DELETE", f"{SERVICES}/a")
        await clock.run(1)
        assert "10.0.0.50" not in await given(api)
        assert (await api.post(SERVICES, service("b", clusterIP="10.0.0.50"))).status == 201


@pytest.mark.anyio
async def test_an_address_stays_what_it_is() -> None:
    async with InMemory(ControlPlane()) as api:
        made = (await api.post(SERVICES, service("a"))).json
        again = await api.request("PUT", f"{SERVICES}/a", service("a", ports=[{"port": 81}]))
        assert again.status == 200, again.json
        assert again.json["spec"]["clusterIP"] == made["spec"]["clusterIP"]
        moved = await api.request("PATCH", f"{SERVICES}/a", {"spec": {"clusterIP": "10.0.0.77"}}, headers=STRATEGIC)
        assert moved.status == 422


@pytest.mark.anyio
async def test_an_address_that_nobody_has_is_taken_back() -> None:
    clock = VirtualClock()
    async with InMemory(ControlPlane(), clock=clock) as api:
        bad = service("a", clusterIP="10.0.0.60", ports=[{"port": 70000}])
        assert (await api.post(SERVICES, bad)).status == 422
        await clock.run(600)
        assert "10.0.0.60" not in await given(api)
        assert (await api.post(SERVICES, service("a", clusterIP="10.0.0.60"))).status == 201


@pytest.mark.anyio
async def test_a_dry_run_takes_nothing() -> None:
    async with InMemory(ControlPlane()) as api:
        before = await given(api)
        dry = await api.post(f"{SERVICES}?dryRun=All", service("a"))
        assert dry.json["spec"]["clusterIP"].startswith("10.0.0.")
        assert await given(api) == before


@pytest.mark.anyio
async def test_headless_and_external_services_have_none() -> None:
    async with InMemory(ControlPlane()) as api:
        before = await given(api)
        headless = (await api.post(SERVICES, service("a", clusterIP="None"))).json["spec"]
        assert headless["clusterIPs"] == ["None"]
        external = (await api.post(SERVICES, service("b", type="ExternalName", externalName="example.com"))).json
        assert "clusterIP" not in external["spec"]
        assert await given(api) == before
        patch = {"spec": {"type": "ClusterIP", "externalName": None}}
        inside = await api.request("PATCH", f"{SERVICES}/b", patch, headers=STRATEGIC)
        assert inside.json["spec"]["clusterIP"].startswith("10.0.0."), inside.json


@pytest.mark.anyio
async def test_node_ports() -> None:
    async with InMemory(ControlPlane()) as api:
        made = (await api.post(SERVICES, service("a", type="NodePort"))).json["spec"]["ports"][0]
        assert 30000 <= made["nodePort"] <= 32767
        same = await api.post(
            SERVICES, service("b", type="NodePort", ports=[{"port": 1, "nodePort": made["nodePort"]}])
        )
        assert "provided port is already allocated" in same.json["message"]
        low = await api.post(SERVICES, service("b", type="NodePort", ports=[{"port": 1, "nodePort": 80}]))
        assert "The range of valid ports is 30000-32767" in low.json["message"]
        kept = await api.request("PUT", f"{SERVICES}/a", service("a", type="NodePort"))
        assert kept.json["spec"]["ports"][0]["nodePort"] == made["nodePort"]
        inside = await api.request("PATCH", f"{SERVICES}/a", {"spec": {"type": "ClusterIP"}}, headers=STRATEGIC)
        assert "nodePort" not in inside.json["spec"]["ports"][0]


@pytest.mark.anyio
async def test_no_port_is_given_twice_by_two_servers_at_once(tmp_path: Path) -> None:
    options = ControlPlaneOptions(service_node_port_range="30000-30003")
    stores = [SqliteBackend(tmp_path / "store.db", VirtualClock()) for _ in range(2)]
    servers = [InMemory(ControlPlane(options=options, disable=["controllers"]), backend=store) for store in stores]
    fixed = [{"port": 1, "nodePort": 30002}]
    async with servers[0] as one, servers[1] as other:
        same = await asyncio.gather(
            *(api.post(SERVICES, service(f"s{i}", type="NodePort", ports=fixed)) for i, api in enumerate((one, other)))
        )
        assert sorted(answer.status for answer in same) == [201, 422]
        posts = (
            api.post(SERVICES, service(f"{name}{i}", type="NodePort"))
            for name, api in (("a", one), ("b", other))
            for i in range(4)
        )
        answers = await asyncio.gather(*posts)
        assert {answer.status for answer in answers} <= {201, 422}
        listed = (await one.get(SERVICES)).json["items"]
        given_ports = [port["nodePort"] for svc in listed for port in svc["spec"]["ports"] if "nodePort" in port]
        assert len(given_ports) == len({*given_ports}) == 4


@pytest.mark.anyio
async def test_a_port_is_claimed_no_longer_than_its_service_takes_to_be_written() -> None:
    clock = VirtualClock()
    store = MemoryBackend(clock=clock)
    fixed = [{"port": 1, "nodePort": 30002}]
    async with InMemory(ControlPlane(), clock=clock, backend=store) as api:
        await clock.run(1)
        assert (await api.post(SERVICES, service("a", type="NodePort", ports=fixed))).status == 201
        await clock.run(1)
        await api.request("DELETE", f"{SERVICES}/a")
        assert (await api.post(SERVICES, service("b", type="NodePort", ports=fixed))).status == 201
        await api.request("DELETE", f"{SERVICES}/b")
        refused = service("c", type="NodePort", ports=[{"port": 70000, "nodePort": 30003}])
        assert (await api.post(SERVICES, refused)).status == 422
        other = service("d", type="NodePort", ports=[{"port": 1, "nodePort": 30003}])
        assert (await api.post(SERVICES, other)).status == 201
        await api.request("DELETE", f"{SERVICES}/d")
        await clock.run(1)
        assert (await api.post(SERVICES, service("e", type="NodePort", ports=other["spec"]["ports"]))).status == 201


@pytest.mark.anyio
async def test_a_refused_write_gives_its_address_back() -> None:
    """At once, to anybody; by an update too."""
    async with InMemory(ControlPlane(), clock=VirtualClock()) as api:
        bad = service("a", clusterIP="10.0.0.60")
        bad["metadata"]["labels"] = {"a": "b c"}
        assert (await api.post(SERVICES, bad)).status == 422
        assert "10.0.0.60" not in await given(api)
        assert (await api.post(SERVICES, service("b", clusterIP="10.0.0.60"))).status == 201
        assert (await api.post(SERVICES, service("b", clusterIP="10.0.0.61"))).status == 409
        outside = {"metadata": {"name": "c"}, "spec": {"type": "ExternalName", "externalName": "a.example.com"}}
        assert (await api.post(SERVICES, outside)).status == 201
        inside = {"type": "ClusterIP", "externalName": None, "clusterIP": "10.0.0.61", "ports": [{"port": 70000}]}
        assert (await api.patch(f"{SERVICES}/c", {"spec": inside})).status == 422
        assert "10.0.0.61" not in await given(api)


@pytest.mark.anyio
async def test_a_service_that_is_made_again_has_its_address_at_once() -> None:
    clock = VirtualClock()
    async with InMemory(ControlPlane(), clock=clock) as api:
        await clock.run(1)
        for _ in range(3):
            assert (await api.post(SERVICES, service("a", clusterIP="10.0.0.60"))).status == 201
            assert (await api.delete(f"{SERVICES}/a")).status == 200
        await clock.run(1)
        assert "10.0.0.60" not in await given(api)
        assert (await api.post(SERVICES, service("b", clusterIP="10.0.0.60"))).status == 201
        await clock.run(1)
        assert "10.0.0.60" in await given(api)


@pytest.mark.anyio
async def test_a_write_that_lost_a_race_has_one_address() -> None:
    """Its second attempt takes another one, or the same; the first one's is nobody's any more."""
    plane = ControlPlane(options=ControlPlaneOptions(service_cluster_ip_range="10.7.0.0/29"))
    async with InMemory(plane, clock=VirtualClock()) as api:
        for number in range(4):
            outside = {"type": "ExternalName", "externalName": "a.example.com"}
            assert (await api.post(SERVICES, service(f"s{number}", **outside))).status == 201
            inside = {"spec": {"type": "ClusterIP", "externalName": None}}
            told = {"metadata": {"labels": {"a": "b"}}}
            path = f"{SERVICES}/s{number}"
            first, second = await asyncio.gather(api.patch(path, inside), api.patch(path, told))
            assert (first.status, second.status) == (200, 200)
        found = (await api.get(SERVICES)).json["items"]
        assert {one["spec"]["clusterIP"] for one in found} == await given(api)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("spec", "field", "why"),
    [
        ({"ipFamilies": ["IPv6"]}, "spec.ipFamilies[0]", "not configured on this cluster"),
        ({"ipFamilies": ["Foo"]}, "spec.ipFamilies[0]", 'supported values: "IPv4", "IPv6"'),
        ({"ipFamilies": ["IPv4", "IPv4"]}, "spec.ipFamilies[1]", 'Duplicate value: "IPv4"'),
        ({"ipFamilyPolicy": "RequireDualStack"}, "spec.ipFamilyPolicy", "not configured for dual-stack services"),
        ({"clusterIPs": ["10.0.0.77"]}, "spec.clusterIPs", "must be empty when `clusterIP` is not specified"),
        ({"clusterIP": "10.0.0.77", "clusterIPs": ["10.0.0.78"]}, "spec.clusterIPs", "first value must match"),
        ({"clusterIP": "10.0.0.0"}, "spec.clusterIPs", "is not in the valid range"),
    ],
)
async def test_what_this_cluster_cannot_give_is_refused(spec: dict[str, object], field: str, why: str) -> None:
    async with InMemory(ControlPlane()) as api:
        body = {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}], **spec}}
        refused = await api.post("/api/v1/namespaces/default/services", body)
        assert refused.status == 422
        assert refused.json["details"]["causes"][0]["field"] == field
        assert why in refused.json["message"]


class Ports:
    """An admission plugin that makes every service one with node ports, and notes the addresses that it sees."""

    waits = False

    def __init__(self) -> None:
        self.seen: list[tuple[str, Any]] = []

    def handles(self, request: AdmissionRequest) -> bool:
        return request.ctx.target.resource == "services" and request.operation != "DELETE"

    async def mutate(self, request: AdmissionRequest, new: Any, old: Any, offload: Any) -> Any:
        self.seen.append(("mutate", new["spec"].get("clusterIP")))
        return {**new, "spec": {**new["spec"], "type": "NodePort"}}

    async def validate(self, request: AdmissionRequest, new: Any, old: Any, offload: Any, hub: Any = None) -> None:
        self.seen.append(("validate", new["spec"].get("clusterIP")))
        if new["metadata"]["name"] == "refused":
            raise Forbidden(request.ctx.target.group_resource, "refused", "not here")


@pytest.mark.anyio
async def test_addresses_and_ports_are_taken_for_what_mutating_admission_has_made() -> None:
    """As in Kubernetes: who mutates sees no address of a new service, who validates does."""
    ports = Ports()
    async with InMemory(ControlPlane(admission=[ports]), clock=VirtualClock()) as api:
        ports.seen.clear()
        made = (await api.post(SERVICES, service("a"))).json["spec"]
        assert made["type"] == "NodePort"
        assert made["ports"][0]["nodePort"] >= 30000
        assert ports.seen == [("mutate", None), ("validate", made["clusterIP"])]
        before = await given(api)
        assert (await api.post(SERVICES, service("refused"))).status == 403
        assert await given(api) == before
