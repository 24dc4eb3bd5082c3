"""The cluster's quotas limit how many objects a namespace has in a server behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from boats_behind_a_cluster import Boat, behind, boat, cluster_in, login_of

from oarlock.apps.admission.cluster_plugins import rights_of
from oarlock.client.client import Client
from oarlock.meta import errors
from oarlock.policy.authz.authorizer import AccessRule
from oarlock.server.assembly.run import Running
from oarlock.server.fairness.cluster import FLOW_CONTROL_RIGHTS
from oarlock.server.options.groups.generic import CLUSTER_PLUGINS

pytestmark = pytest.mark.anyio
COUNT = "count/boats.boats.example.com"
QUOTA = "v1/ResourceQuota"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Running]:
    """One in which nobody counts: boats aren't served through it here."""
    running = await cluster_in(tmp_path, disable=["resourcequota-controller"])
    try:
        yield running
    finally:
        await running.shut_down()


async def with_quota(admin: Client, hard: dict[str, Any], used: dict[str, Any]) -> None:
    """A quota whose status is as the cluster's controller, which finds boats through the aggregator, writes it."""
    head = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": "default"}}
    await admin.apply({**head, "spec": {"hard": hard}})
    await admin.apply({**head, "status": {"hard": hard, "used": used}}, subresource="status", force=True)


async def used(admin: Client) -> str:
    found: str = (await admin.get(QUOTA, "few", namespace="default"))["status"]["used"][COUNT]
    return found


async def test_no_more_objects_are_created_than_a_quota_allows(cluster: Running, tmp_path: Path) -> None:
    admin = cluster.client(None, "test")
    await with_quota(admin, {COUNT: "2"}, {COUNT: "0"})
    login = await login_of(cluster, tmp_path, "boats", [*rights_of(CLUSTER_PLUGINS), FLOW_CONTROL_RIGHTS])
    async with behind(tmp_path, cluster_kubeconfig=login) as running:
        client = running.client(None, "test")
        answers = await asyncio.gather(*(client.create(boat(name)) for name in "abcd"), return_exceptions=True)
        refusals = [answer for answer in answers if isinstance(answer, Exception)]
        assert len(refusals) == 2
        for refusal in refusals:
            assert isinstance(refusal, errors.Forbidden)
            assert f"exceeded quota: few, requested: {COUNT}=1, used: {COUNT}=2, limited: {COUNT}=2" in str(refusal)
        assert await used(admin) == "2"
        await admin.delete(QUOTA, "few", namespace="default")
        async with asyncio.timeout(30):
            while len(await names(client)) < 3:
                try:
                    await client.create(boat("more"))
                except errors.Forbidden:
                    await asyncio.sleep(0.01)


async def names(client: Client) -> set[str]:
    return {found.metadata.name async for found in client.list(Boat, namespace="default")}


async def test_a_refused_object_is_not_charged_and_a_dry_run_charges_nothing(cluster: Running, tmp_path: Path) -> None:
    admin = cluster.client(None, "test")
    await with_quota(admin, {COUNT: "2"}, {COUNT: "1"})
    async with behind(tmp_path) as running:
        client = running.client(None, "test")
        await client.create(boat("a"), dry_run=True)
        assert await used(admin) == "1"
        await client.create(boat("a"))
        with pytest.raises(errors.StatusError):
            await client.create(boat("a"))
        assert await used(admin) == "2"


async def test_a_quota_that_may_not_be_charged_lets_nothing_through_and_says_why(
    cluster: Running, tmp_path: Path
) -> None:
    admin = cluster.client(None, "test")
    await with_quota(admin, {COUNT: "2"}, {COUNT: "0"})
    rules = [rule for rule in rights_of(CLUSTER_PLUGINS) if rule.resources != ("resourcequotas/status",)]
    login = await login_of(cluster, tmp_path, "boats", [*rules, FLOW_CONTROL_RIGHTS])
    async with behind(tmp_path, cluster_kubeconfig=login) as running:
        client = running.client(None, "test")
        with pytest.raises(errors.ServiceUnavailable, match=r"quotas of the namespace default be charged: .*forbidden"):
            await client.create(boat("a"))
        assert not await names(client)
    off = tuple(name for name in CLUSTER_PLUGINS if name == "ResourceQuota")
    async with behind(tmp_path, cluster_kubeconfig=login, disable_admission_plugins=off) as running:
        await running.client(None, "test").create(boat("a"))


@pytest.mark.parametrize("hard", [{COUNT: "many"}, {}, {"count/boats": "0"}, {"pods": "0"}])
async def test_a_quota_that_counts_nothing_of_a_kind_refuses_nothing_of_it(
    cluster: Running, tmp_path: Path, hard: dict[str, Any]
) -> None:
    admin = cluster.client(None, "test")
    good = {name: amount for name, amount in hard.items() if amount != "many"}
    await with_quota(admin, good, dict.fromkeys(good, "0"))
    async with behind(tmp_path) as running:
        await running.client(None, "test").create(boat("a"))


def test_the_rights_of_quotas_are_asked_for_only_where_they_are_on() -> None:
    assert AccessRule(("update",), ("",), ("resourcequotas/status",)) in rights_of(["ResourceQuota"])
    assert not any("resourcequotas" in rule.resources for rule in rights_of(["NamespaceLifecycle"]))
