"""Services have the addresses of their pods in Endpoints and EndpointSlices, and each address stays in its slice."""

from __future__ import annotations

from typing import Any

import pytest
from cluster_kit import ClusterInMemory, cluster_in_memory

from oarlock_cluster.controllers.endpoint_slice import placed
from oarlock_cluster.controllers.endpoints import subsets_of

GROUP = ("IPv4", (("http", 80, "TCP", ""),))
PORTS = [{"name": "http", "port": 80, "protocol": "TCP"}]


def endpoint(number: int, ready: bool = True) -> dict[str, Any]:
    return {"addresses": [f"10.0.0.{number}"], "conditions": {"ready": ready}, "targetRef": {"uid": str(number)}}


def slice_of(name: str, *numbers: int) -> dict[str, Any]:
    endpoints = [endpoint(number) for number in numbers]
    return {"metadata": {"name": name, "labels": {}}, "addressType": "IPv4", "ports": PORTS, "endpoints": endpoints}


def numbers_in(slices: list[Any]) -> list[list[str]]:
    return [[one["targetRef"]["uid"] for one in slice["endpoints"]] for slice in slices]


def test_new_addresses_come_into_slices_of_a_hundred() -> None:
    slices = placed({GROUP: [endpoint(number) for number in range(250)]}, [], {})
    assert [len(slice["endpoints"]) for slice in slices.create] == [100, 100, 50]


def test_an_address_is_added_to_the_fullest_slice_with_room() -> None:
    existing = [slice_of("a", *range(10)), slice_of("b", *range(20, 50))]
    wanted = [endpoint(number) for number in (*range(10), *range(20, 51))]
    slices = placed({GROUP: wanted}, existing, {})
    assert [slice["metadata"]["name"] for slice in slices.update] == ["b"]
    assert (slices.create, slices.delete) == ([], [])


def test_a_slice_that_changes_anyway_takes_the_new_addresses() -> None:
    slices = placed({GROUP: [endpoint(2), endpoint(3), endpoint(4)]}, [slice_of("a", 1, 2), slice_of("b", 3)], {})
    assert numbers_in(slices.update) == [["2", "4"]]


def test_a_slice_whose_addresses_are_all_gone_goes() -> None:
    slices = placed({GROUP: [endpoint(3)]}, [slice_of("a", 1, 2), slice_of("b", 3)], {})
    assert [slice["metadata"]["name"] for slice in slices.delete] == ["a"]
    assert slices.update == []


def pod(name: str, ip: str, port: int = 8080, ready: str = "True", **more: Any) -> dict[str, Any]:
    container = {"name": "c", "ports": [{"name": "http", "containerPort": port, "protocol": "TCP"}]}
    return {
        "metadata": {"name": name, "namespace": "n", "uid": name, "labels": {"app": "web"}},
        "spec": {"containers": [container], **more},
        "status": {"podIPs": [{"ip": ip}], "conditions": [{"type": "Ready", "status": ready}]},
    }


def service(**spec: Any) -> dict[str, Any]:
    ports = [{"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"}]
    given = {"selector": {"app": "web"}, "ports": ports, "clusterIP": "10.96.0.1", "ipFamilies": ["IPv4"], **spec}
    return {"metadata": {"name": "web", "namespace": "n", "uid": "s"}, "spec": given}


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([pod("a", "10.0.0.1"), pod("b", "10.0.0.2")], [(["10.0.0.1", "10.0.0.2"], [], 8080)]),
        ([pod("a", "10.0.0.1"), pod("b", "10.0.0.2", ready="False")], [(["10.0.0.1"], ["10.0.0.2"], 8080)]),
        ([pod("a", "10.0.0.1"), pod("b", "10.0.0.2", 81)], [(["10.0.0.2"], [], 81), (["10.0.0.1"], [], 8080)]),
        ([pod("a", "fd00::1")], []),
    ],
)
def test_ports_with_the_same_addresses_are_one_subset(pods: list[Any], expected: list[Any]) -> None:
    def ips(subset: Any, kind: str) -> list[str]:
        return [one["ip"] for one in subset.get(kind, [])]

    found = subsets_of(service(), pods)
    shown = [(ips(one, "addresses"), ips(one, "notReadyAddresses"), one["ports"][0]["port"]) for one in found]
    assert shown == expected


def test_a_port_that_only_some_pods_have_is_a_subset_of_its_own() -> None:
    ports = [
        {"name": "web", "port": 80, "targetPort": 8080, "protocol": "TCP"},
        {"name": "metrics", "port": 90, "targetPort": "http", "protocol": "TCP"},
    ]
    unnamed = pod("b", "10.0.0.2")
    unnamed["spec"]["containers"][0]["ports"] = []
    metrics, web = subsets_of(service(ports=ports), [pod("a", "10.0.0.1"), unnamed])
    assert ([each["ip"] for each in metrics["addresses"]], metrics["ports"][0]["name"]) == (["10.0.0.1"], "metrics")
    assert ([each["ip"] for each in web["addresses"]], web["ports"][0]["name"]) == (["10.0.0.1", "10.0.0.2"], "web")


async def node(cluster: ClusterInMemory) -> None:
    labels = {"topology.kubernetes.io/zone": "z1"}
    assert (await cluster.api.post("/api/v1/nodes", {"metadata": {"name": "n1", "labels": labels}})).status == 201


async def run_pod(cluster: ClusterInMemory, name: str, ip: str) -> None:
    container = {"name": "c", "image": "i:1", "ports": [{"name": "http", "containerPort": 8080}]}
    metadata = {"name": name, "labels": {"app": "web"}}
    await cluster.create("pods", name, {"containers": [container], "nodeName": "n1"}, metadata=metadata)
    await cluster.report(name, podIP=ip, podIPs=[{"ip": ip}])


async def addresses(cluster: ClusterInMemory) -> dict[str, bool]:
    """Whether each address of the slices is ready."""
    slices = await cluster.all("endpointslices")
    of_default = [one for one in slices if one["metadata"]["labels"]["kubernetes.io/service-name"] != "kubernetes"]
    return {e["addresses"][0]: e["conditions"]["ready"] for one in of_default for e in one["endpoints"] or ()}


@pytest.mark.anyio
async def test_a_service_has_the_addresses_of_its_pods_as_they_come_and_go() -> None:
    async with cluster_in_memory() as cluster:
        await node(cluster)
        ports = [{"name": "http", "port": 80, "targetPort": "http"}]
        await cluster.create("services", "web", {"selector": {"app": "web"}, "ports": ports})
        empty = await cluster.until(lambda: cluster.get("endpoints", "web"))
        assert empty.get("subsets") is None
        assert empty["metadata"]["labels"] == {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}
        await run_pod(cluster, "a", "10.1.0.1")
        await run_pod(cluster, "b", "10.1.0.2")

        async def both() -> bool:
            return await addresses(cluster) == {"10.1.0.1": True, "10.1.0.2": True}

        await cluster.until(both)
        slices = [one for one in await cluster.all("endpointslices") if one["metadata"]["name"] != "kubernetes"]
        assert len(slices) == 1, "the empty slice was filled"
        assert [one["zone"] for one in slices[0]["endpoints"]] == ["z1", "z1"]
        assert "endpoints.kubernetes.io/last-change-trigger-time" in slices[0]["metadata"]["annotations"]

        await cluster.report("b", ready=False)

        async def one_ready() -> Any:
            subsets = (await cluster.get("endpoints", "web")).get("subsets") or [{}]
            told = await addresses(cluster) == {"10.1.0.1": True, "10.1.0.2": False}
            return told and "notReadyAddresses" in subsets[0]

        await cluster.until(one_ready)
        await cluster.delete("services", "web")
        await cluster.until(lambda: _gone(cluster, "web"))


async def _gone(cluster: ClusterInMemory, name: str) -> bool:
    labels = [one["metadata"]["labels"]["kubernetes.io/service-name"] for one in await cluster.all("endpointslices")]
    return name not in labels and await cluster.get("endpoints", name) is None


@pytest.mark.anyio
async def test_endpoints_written_by_hand_are_mirrored_into_slices() -> None:
    async with cluster_in_memory() as cluster:
        await cluster.create("services", "ext", {"ports": [{"port": 5432}]})
        subset = {"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 5432}]}
        tree = {"metadata": {"name": "ext"}, "subsets": [subset]}
        assert (await cluster.api.post(cluster.path("endpoints"), tree)).status == 201

        async def mirrored() -> bool:
            return await addresses(cluster) == {"192.0.2.1": True}

        await cluster.until(mirrored)
        await cluster.delete("endpoints", "ext")
        await cluster.until(lambda: _gone(cluster, "ext"))
