"""What pods use, also when they are resized, and which quotas count them."""

from __future__ import annotations

from typing import Any

import pytest

from oarlock.apps.controllers.quota.charging import Charge, QuotaLedger
from oarlock.apps.controllers.quota.usage import PODS, is_in_scopes, usage_of
from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.apps.kinds.pods.updates import pod_quality
from oarlock.client.transport import ClientRequest, ClientResponse
from oarlock.testing import InMemory, VirtualClock

DEFAULT = "/api/v1/namespaces/default"
STRATEGIC = "application/strategic-merge-patch+json"


def pod(name: str, cpu: str = "", **resources: Any) -> dict[str, Any]:
    asked = {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}} if cpu else resources
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i", "resources": asked}]}}


async def resize(api: InMemory, cpu: str) -> Any:
    containers = pod("p", cpu)["spec"]["containers"]
    wanted = [{"name": one["name"], "resources": one["resources"]} for one in containers]
    return await api.patch(f"{DEFAULT}/pods/p/resize", {"spec": {"containers": wanted}}, STRATEGIC)


async def accounts(api: InMemory, clock: VirtualClock) -> None:
    """Pods need the account that a controller makes."""
    await clock.run(2)
    assert (await api.get(f"{DEFAULT}/serviceaccounts/default")).status == 200


@pytest.mark.anyio
async def test_a_pod_is_resized_within_its_quota() -> None:
    clock = VirtualClock()
    async with InMemory(ControlPlane(), clock=clock) as api:
        await accounts(api, clock)
        hard = {"requests.cpu": "1", "limits.cpu": "1"}
        await api.post(f"{DEFAULT}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": hard}})
        await clock.run(2)
        assert (await api.post(f"{DEFAULT}/pods", pod("p", "500m"))).status == 201
        refused = await resize(api, "64")
        assert (refused.status, refused.json["message"]) == (
            403,
            'pods "p" is forbidden: exceeded quota: q, requested: limits.cpu=63500m,requests.cpu=63500m, '
            "used: limits.cpu=500m,requests.cpu=500m, limited: limits.cpu=1,requests.cpu=1",
        )
        assert (await resize(api, "800m")).status == 200
        used = (await api.get(f"{DEFAULT}/resourcequotas/q")).json["status"]["used"]
        assert used == {"limits.cpu": "800m", "requests.cpu": "800m"}
        assert (await resize(api, "200m")).status == 200
        await clock.run(1)
        used = (await api.get(f"{DEFAULT}/resourcequotas/q")).json["status"]["used"]
        assert used == {"limits.cpu": "200m", "requests.cpu": "200m"}


@pytest.mark.anyio
async def test_a_pod_is_resized_within_the_limits_of_its_namespace() -> None:
    clock = VirtualClock()
    async with InMemory(ControlPlane(), clock=clock) as api:
        await accounts(api, clock)
        limits = [{"type": "Container", "max": {"cpu": "1"}}]
        await api.post(f"{DEFAULT}/limitranges", {"metadata": {"name": "l"}, "spec": {"limits": limits}})
        await clock.run(2)
        assert (await api.post(f"{DEFAULT}/pods", pod("p", "500m"))).status == 201
        refused = await resize(api, "2")
        why = "maximum cpu usage per Container is 1, but limit is 2"
        assert (refused.status, refused.json["message"]) == (403, f'pods "p" is forbidden: {why}')
        assert (await resize(api, "1")).status == 200


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        ({"requests": {"ephemeral-storage": "1Gi"}}, "BestEffort"),
        ({"limits": {"example.com/gpu": "1"}}, "BestEffort"),
        ({"requests": {"cpu": "0"}}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1000m", "memory": "1024Mi"}}, "Guaranteed"),
    ],
)
def test_a_quota_and_the_status_of_a_pod_agree_on_its_class(resources: dict[str, Any], quality: str) -> None:
    found = pod("p", **resources)
    assert pod_quality(found["spec"]) == quality
    best_effort = quality == "BestEffort"
    assert is_in_scopes(PODS, found, {"scopes": ["BestEffort"]}) is best_effort
    assert is_in_scopes(PODS, found, {"scopes": ["NotBestEffort"]}) is not best_effort


def test_the_class_of_a_pod_that_says_what_it_uses_as_a_whole() -> None:
    some = {"cpu": "1", "memory": "1Gi"}
    containers = [{"resources": {"requests": {"cpu": "1"}}}]
    assert pod_quality({"resources": {"requests": some, "limits": some}, "containers": containers}) == "Guaranteed"


@pytest.mark.anyio
async def test_a_quota_of_nothing_refuses_pods_that_ask_for_storage_alone() -> None:
    clock = VirtualClock()
    async with InMemory(ControlPlane(), clock=clock) as api:
        await accounts(api, clock)
        spec = {"hard": {"pods": "0"}, "scopes": ["BestEffort"]}
        await api.post(f"{DEFAULT}/resourcequotas", {"metadata": {"name": "q"}, "spec": spec})
        await clock.run(2)
        wanted = pod("p", requests={"ephemeral-storage": "1Gi"})
        assert (await api.post(f"{DEFAULT}/pods", wanted)).status == 403
        assert (await api.post(f"{DEFAULT}/pods", pod("other", "1"))).status == 201


class Overtaking:
    """A transport beside which somebody else writes quota ``b`` before its first charge arrives."""

    def __init__(self, api: InMemory) -> None:
        self._api = api
        self._transport = api.client().transport
        self._waits = True

    async def send(self, request: ClientRequest) -> ClientResponse:
        if self._waits and request.method == "PUT" and request.path.endswith("/b/status"):
            self._waits = False
            await self._api.patch(f"{DEFAULT}/resourcequotas/b", {"metadata": {"labels": {"seen": "yes"}}})
        return await self._transport.send(request)

    async def close(self) -> None: ...


@pytest.mark.anyio
async def test_who_is_charged_is_charged_once_although_another_quota_is_tried_again() -> None:
    clock = VirtualClock()
    async with InMemory(ControlPlane(disable=["resourcequota-controller"]), clock=clock) as api:
        for name in ("a", "b"):
            path = f"{DEFAULT}/resourcequotas"
            made = (await api.post(path, {"metadata": {"name": name}, "spec": {"hard": {"pods": "5"}}})).json
            status = {"hard": {"pods": "5"}, "used": {"pods": "1"}}
            assert (await api.put(f"{path}/{name}/status", {**made, "status": status})).status == 200
        ledger = QuotaLedger()
        ledger.client = api.client().over(lambda _: Overtaking(api))  # type: ignore[arg-type,return-value]
        wanted = pod("p", "1")
        await ledger.charge("default", Charge(PODS, "p", wanted, usage_of(PODS, wanted)))
        found = (await api.get(f"{DEFAULT}/resourcequotas")).json["items"]
        assert [one["status"]["used"]["pods"] for one in found] == ["2", "2"]
        assert found[1]["metadata"]["labels"] == {"seen": "yes"}
