"""Namespaces have no more than their quotas say, whoever asks at the same time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oarlock.apps.controllers.quota.usage import (
    CLAIMS,
    PODS,
    SERVICES,
    amounts_of,
    is_in_scopes,
    shown,
    unsaid,
    usage_of,
    wire,
)
from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.apps.kinds.core.objects import ConfigMap
from oarlock.meta.errors import Denied
from oarlock.policy.admission.plugin import Admission, PlacedPlugin, Review
from oarlock.storage.memory import MemoryBackend
from oarlock.testing import InMemory, VirtualClock

MAPS = "/api/v1/namespaces/default/configmaps"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"


async def limit(api: InMemory, name: str = "q", **hard: str) -> None:
    quota = {"metadata": {"name": name}, "spec": {"hard": {key.replace("_", "/"): text for key, text in hard.items()}}}
    assert (await api.post(QUOTAS, quota)).status == 201


async def used(api: InMemory, name: str = "q") -> dict[str, Any]:
    found: dict[str, Any] = (await api.get(f"{QUOTAS}/{name}")).json["status"].get("used", {})
    return found


async def number_of_maps(api: InMemory) -> int:
    return len((await api.get(MAPS)).json["items"])


@pytest.mark.anyio
async def test_what_there_is_no_room_for_is_refused() -> None:
    clock = VirtualClock()
    async with InMemory(ControlPlane(), clock=clock) as api:
        await clock.run(1)
        there = await number_of_maps(api)
        await limit(api, count_configmaps=str(there + 1), configmaps=str(there + 5))
        await clock.run(1)
        assert (await used(api))["count/configmaps"] == str(there)
        assert (await api.post(MAPS, {"metadata": {"name": "a"}})).status == 201
        refused = await api.post(MAPS, {"metadata": {"name": "b"}})
        name, most = "count/configmaps", there + 1
        why = f"exceeded quota: q, requested: {name}=1, used: {name}={most}, limited: {name}={most}"
        assert (refused.status, refused.json["message"]) == (403, f'configmaps "b" is forbidden: {why}')
        await api.request("DELETE", f"{MAPS}/a")
        await clock.run(1)
        assert (await used(api))["count/configmaps"] == str(there)
        assert (await api.post(MAPS, {"metadata": {"name": "b"}})).status == 201


@pytest.mark.anyio
async def test_requests_at_the_same_time_get_no_more_than_there_is() -> None:
    clock = VirtualClock()
    async with InMemory(ControlPlane(), clock=clock) as api:
        await clock.run(1)
        there = await number_of_maps(api)
        await limit(api, count_configmaps=str(there + 7))
        await limit(api, "wide", count_configmaps=str(there + 9))
        await clock.run(1)
        asked = [api.post(MAPS, {"metadata": {"name": f"m{number}"}}) for number in range(40)]
        statuses = [answer.status for answer in await asyncio.gather(*asked)]
        assert (statuses.count(201), statuses.count(403)) == (7, 33)
        assert await number_of_maps(api) == there + 7
        assert [(await used(api, name))["count/configmaps"] for name in ("q", "wide")] == [str(there + 7)] * 2


@pytest.mark.anyio
async def test_two_servers_together_give_no_more_than_there_is() -> None:
    clock = VirtualClock()
    backend = MemoryBackend(clock)
    async with InMemory(ControlPlane(), clock=clock, backend=backend) as first:
        await clock.run(1)
        there = await number_of_maps(first)
        await limit(first, count_configmaps=str(there + 6))
        await clock.run(1)
        second = ControlPlane(disable=["resourcequota-controller", "garbage-collector-controller"])
        async with InMemory(second, clock=clock, backend=backend) as other:
            servers = [first, other]
            asked = [servers[number % 2].post(MAPS, {"metadata": {"name": f"m{number}"}}) for number in range(30)]
            statuses = [answer.status for answer in await asyncio.gather(*asked)]
            assert (statuses.count(201), statuses.count(403)) == (6, 24)


@pytest.mark.anyio
async def test_what_was_charged_and_never_stored_is_given_back() -> None:
    clock = VirtualClock()
    async with InMemory(ControlPlane(), clock=clock) as api:
        await clock.run(1)
        await limit(api, count_configmaps="50")
        await clock.run(1)
        there = (await used(api))["count/configmaps"]
        await api.post(MAPS, {"metadata": {"name": "same"}})
        quota = (await api.get(f"{QUOTAS}/q")).json
        quota["status"]["used"]["count/configmaps"] = str(int(there) + 2)  # by a server that died then
        assert (await api.put(f"{QUOTAS}/q/status", quota)).status == 200
        await clock.run(15)
        assert (await used(api))["count/configmaps"] == str(int(there) + 1)


@pytest.mark.anyio
async def test_a_dry_run_is_refused_and_charges_nothing() -> None:
    clock = VirtualClock()
    async with InMemory(ControlPlane(), clock=clock) as api:
        await limit(api, count_secrets="1")
        await clock.run(1)
        secrets = "/api/v1/namespaces/default/secrets"
        assert (await api.post(f"{secrets}?dryRun=All", {"metadata": {"name": "s"}})).status == 201
        assert await used(api) == {"count/secrets": "0"}
        await api.post(secrets, {"metadata": {"name": "s"}})
        assert (await api.post(f"{secrets}?dryRun=All", {"metadata": {"name": "t"}})).status == 403


def test_what_objects_use() -> None:
    container = {"name": "c", "resources": {"requests": {"cpu": "200m", "example.com/gpu": 1}, "limits": {"cpu": 1}}}
    first = {"name": "i", "resources": {"requests": {"cpu": "1"}}}
    pod = {"spec": {"containers": [container, container], "initContainers": [first], "overhead": {"memory": "1Mi"}}}
    pod_uses = shown(usage_of(PODS, pod))
    assert pod_uses == (
        "count/pods=1,cpu=1,limits.cpu=2,limits.memory=1Mi,memory=1Mi,pods=1,requests.cpu=1,"
        "requests.example.com/gpu=2,requests.memory=1Mi"
    )
    assert unsaid(pod, ["limits.memory", "cpu"]) == "must specify limits.memory for: c,i"
    assert wire(usage_of(PODS, {**pod, "status": {"phase": "Failed"}})) == {"count/pods": "1"}
    claim = {"spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}}}
    assert shown(usage_of(CLAIMS, claim)).endswith("requests.storage=1Gi")
    balanced = {"spec": {"type": "LoadBalancer", "ports": [{"port": 1}, {"port": 2}]}}
    assert wire(usage_of(SERVICES, balanced))["services.nodeports"] == "2"
    assert wire(amounts_of({"cpu": "0.1", "memory": "many"})) == {"cpu": "100m"}


def test_scopes_choose_pods() -> None:
    plain, urgent = {"spec": {"containers": [{}]}}, {"spec": {"priorityClassName": "high", "activeDeadlineSeconds": 5}}
    chosen = {
        "scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}
    }
    assert [is_in_scopes(PODS, pod, chosen) for pod in (plain, urgent)] == [False, True]
    assert [is_in_scopes(PODS, pod, {"scopes": ["NotTerminating"]}) for pod in (plain, urgent)] == [True, False]
    assert [is_in_scopes(PODS, pod, {"scopes": ["NotBestEffort"]}) for pod in (plain, urgent)] == [False, False]
    assert is_in_scopes(CLAIMS, {}, {}) != is_in_scopes(CLAIMS, {}, {"scopes": ["BestEffort"]})


@pytest.mark.anyio
async def test_what_is_refused_after_it_was_charged_is_given_back_at_once() -> None:
    """A name that is taken, tried often, uses nothing up."""
    clock = VirtualClock()
    async with InMemory(ControlPlane(disable=["resourcequota-controller"]), clock=clock) as api:
        made = (await api.post(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {"count/secrets": "3"}}})).json
        status = {"hard": {"count/secrets": "3"}, "used": {"count/secrets": "0"}}
        assert (await api.put(f"{QUOTAS}/q/status", {**made, "status": status})).status == 200
        secrets = "/api/v1/namespaces/default/secrets"
        assert (await api.post(secrets, {"metadata": {"name": "s"}})).status == 201
        assert [(await api.post(secrets, {"metadata": {"name": "s"}})).status for _ in range(5)] == [409] * 5
        assert await used(api) == {"count/secrets": "1"}
        answers = await asyncio.gather(*(api.post(secrets, {"metadata": {"name": "t"}}) for _ in range(2)))
        assert sorted(one.status for one in answers) == [201, 409]
        assert await used(api) == {"count/secrets": "2"}


class AfterQuotas(Admission[ConfigMap]):
    """Refuses, asked after everybody else."""

    async def validate(self, review: Review[ConfigMap]) -> None:
        if review.name == "refused":
            raise Denied("not here")


@pytest.mark.anyio
async def test_what_anybody_refuses_was_never_charged() -> None:
    clock = VirtualClock()
    last = PlacedPlugin(AfterQuotas(), after="ResourceQuota")
    async with InMemory(ControlPlane(admission=[last]), clock=clock) as api:
        await clock.run(1)
        await limit(api, count_configmaps="50")
        await clock.run(1)
        before = (await api.get(f"{QUOTAS}/q")).json["metadata"]["resourceVersion"]
        assert (await api.post(MAPS, {"metadata": {"name": "refused"}})).status == 403
        assert (await api.get(f"{QUOTAS}/q")).json["metadata"]["resourceVersion"] == before
        assert (await api.post(MAPS, {"metadata": {"name": "a"}})).status == 201
        assert (await api.get(f"{QUOTAS}/q")).json["metadata"]["resourceVersion"] != before
