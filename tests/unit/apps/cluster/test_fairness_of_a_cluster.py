"""The cluster's flow schemas and priority levels divide the requests to a server behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from boats_behind_a_cluster import behind, cluster_in, login_of

from oarlock.apps.admission.cluster_plugins import rights_of
from oarlock.meta.context import Target, User
from oarlock.policy.authz.authorizer import AccessRule
from oarlock.policy.fairness.engine import Fairness
from oarlock.server.assembly.run import Running
from oarlock.server.fairness.cluster import FLOW_CONTROL_RIGHTS
from oarlock.server.filters.fairness import FairnessFilter, MaxInFlight
from oarlock.server.options.groups.generic import CLUSTER_PLUGINS

pytestmark = pytest.mark.anyio
FLOW_CONTROL = "flowcontrol.apiserver.k8s.io/v1"
LEVEL = {
    "apiVersion": FLOW_CONTROL,
    "kind": "PriorityLevelConfiguration",
    "metadata": {"name": "sailors"},
    "spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 30, "limitResponse": {"type": "Reject"}}},
}
SCHEMA = {
    "apiVersion": FLOW_CONTROL,
    "kind": "FlowSchema",
    "metadata": {"name": "sailors"},
    "spec": {
        "priorityLevelConfiguration": {"name": "sailors"},
        "matchingPrecedence": 10,
        "rules": [
            {
                "subjects": [{"kind": "Group", "group": {"name": "sailors"}}],
                "resourceRules": [
                    {"verbs": ["*"], "apiGroups": ["boats.example.com"], "resources": ["*"], "namespaces": ["*"]}
                ],
            }
        ],
    },
}
ANN = User("ann", groups=("sailors", "system:authenticated"))
BOATS = Target("list", "boats.example.com", "v1", resource="boats", namespace="default")


def fairness_of(running: Running) -> Fairness:
    in_flight = running.parts.fairness.in_flight
    assert isinstance(in_flight, FairnessFilter)
    return in_flight.fairness


def schema_of_ann(running: Running) -> str:
    return fairness_of(running).flow_of((object(),), ANN, BOATS, "").schema.name


async def soon(is_so: Callable[[], Any]) -> None:
    async with asyncio.timeout(30):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_requests_have_the_levels_that_the_cluster_says(cluster: Running, tmp_path: Path) -> None:
    admin = cluster.client(None, "test")
    await admin.create(LEVEL)
    await admin.create(SCHEMA)
    async with behind(tmp_path) as running:
        await soon(lambda: schema_of_ann(running) == "sailors")
        assert fairness_of(running).levels["sailors"].settings.shares == 30
        await admin.patch(f"{FLOW_CONTROL}/FlowSchema", "sailors", {"spec": {"matchingPrecedence": 9950}})
        await soon(lambda: schema_of_ann(running) == "global-default")
        await admin.delete(f"{FLOW_CONTROL}/FlowSchema", "sailors")
        await admin.delete(f"{FLOW_CONTROL}/PriorityLevelConfiguration", "sailors")
        await soon(lambda: "sailors" not in fairness_of(running).levels)


async def test_the_rights_that_are_asked_for_suffice_and_without_them_the_built_in_levels_apply(
    cluster: Running, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    admin = cluster.client(None, "test")
    await admin.create(LEVEL)
    rules = [*rights_of(CLUSTER_PLUGINS)]
    enough = await login_of(cluster, tmp_path, "enough", [*rules, FLOW_CONTROL_RIGHTS])
    async with behind(tmp_path, cluster_kubeconfig=enough) as running:
        await soon(lambda: "sailors" in fairness_of(running).levels)
    assert not caplog.text
    half = AccessRule(FLOW_CONTROL_RIGHTS.verbs, FLOW_CONTROL_RIGHTS.api_groups, ("flowschemas",))
    little = await login_of(cluster, tmp_path, "little", [*rules, half])
    async with behind(tmp_path, cluster_kubeconfig=little) as running:
        await soon(lambda: "don't divide the requests" in caplog.text)
        assert {"global-default", "workload-low"} < {*fairness_of(running).levels}
        assert "sailors" not in fairness_of(running).levels
        assert running.parts.server.cluster_rules is not None
        assert not running.parts.server.cluster_rules.unknown()
    [record] = caplog.records
    assert "but the built-in ones" in record.getMessage()
    assert 'cannot watch resource "prioritylevelconfigurations"' in record.getMessage()


async def test_a_cluster_without_these_kinds_leaves_the_built_in_ones_and_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = await cluster_in(tmp_path, disable=["flowcontrol"])
    try:
        async with behind(tmp_path) as running:
            await soon(lambda: "don't divide the requests" in caplog.text)
            assert "global-default" in fairness_of(running).levels
    finally:
        await cluster.shut_down()
    assert caplog.text.count("don't divide the requests") == 1


async def test_it_is_off_when_that_is_said(cluster: Running, tmp_path: Path) -> None:
    async with behind(tmp_path, enable_priority_and_fairness=False) as running:
        assert isinstance(running.parts.fairness.in_flight, MaxInFlight)
