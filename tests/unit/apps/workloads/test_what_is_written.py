"""What the server makes of objects of Kubernetes' kinds: nulls, zeros, amounts, generations, what changes show."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.testing import InMemory

MERGE = {"content-type": "application/merge-patch+json"}
NAMESPACE = "namespaces/default"
PODS, EVENTS = f"/api/v1/{NAMESPACE}/pods", f"/api/v1/{NAMESPACE}/events"
CLAIMS, RANGES = f"/api/v1/{NAMESPACE}/persistentvolumeclaims", f"/api/v1/{NAMESPACE}/limitranges"
DEPLOYMENTS = f"/apis/apps/v1/{NAMESPACE}/deployments"
REVISIONS = f"/apis/apps/v1/{NAMESPACE}/controllerrevisions"
AUTOSCALERS = f"/apis/autoscaling/v2/{NAMESPACE}/horizontalpodautoscalers"
SLICES = f"/apis/discovery.k8s.io/v1/{NAMESPACE}/endpointslices"
BUDGETS = f"/apis/policy/v1/{NAMESPACE}/poddisruptionbudgets"
DRIVERS, CLASSES = "/apis/storage.k8s.io/v1/csidrivers", "/apis/scheduling.k8s.io/v1/priorityclasses"
POD: dict[str, Any] = {"containers": [{"name": "c", "image": "i"}]}
DEPLOYMENT = {
    "selector": {"matchLabels": {"a": "b"}},
    "template": {"metadata": {"labels": {"a": "b"}}, "spec": POD},
}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def api(anyio_backend: Any) -> AsyncIterator[InMemory]:
    async with InMemory(ControlPlane()) as api:
        await api.clock.run(1)  # type: ignore[attr-defined]  # the default service account is made
        yield api


async def made(api: InMemory, path: str, name: str, **fields: Any) -> dict[str, Any]:
    answer = await api.post(path, {"metadata": {"name": name}, **fields})
    assert answer.status == 201, answer.json
    tree: dict[str, Any] = answer.json
    return tree


async def changed(api: InMemory, path: str, patch: dict[str, Any]) -> dict[str, Any]:
    answer = await api.request("PATCH", path, patch, headers=MERGE)
    assert answer.status == 200, answer.json
    tree: dict[str, Any] = answer.json
    return tree


async def test_lists_and_times_that_nobody_set_are_null_where_go_writes_null(api: InMemory) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    scaler = await made(api, AUTOSCALERS, "a", spec={"maxReplicas": 2, "scaleTargetRef": target})
    assert scaler["status"] == {"currentMetrics": None, "desiredReplicas": 0}
    older = (await api.get(f"{AUTOSCALERS.replace('/v2/', '/v1/')}/a")).json
    assert older["status"] == {"currentReplicas": 0, "desiredReplicas": 0}
    endpoints = await made(api, SLICES, "a", addressType="IPv4", endpoints=[])
    assert (endpoints["endpoints"], endpoints["ports"]) == (None, None)
    limits = await made(api, RANGES, "a", spec={"limits": []})
    assert limits["spec"] == {"limits": None}
    await made(api, PODS, "times", spec=POD)
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    (condition,) = (await changed(api, f"{PODS}/times/status", ready))["status"]["conditions"]
    assert (condition["lastProbeTime"], condition["lastTransitionTime"]) == (None, None)


async def test_types_are_published_without_what_only_the_server_makes_of_them(api: InMemory) -> None:
    document = (await api.get("/openapi/v3/apis/discovery.k8s.io/v1")).json
    ports = document["components"]["schemas"]["io.k8s.api.discovery.v1.EndpointSlice"]["properties"]["ports"]
    assert (ports["type"], "nullable" in ports, "default" in ports) == ("array", False, False)
    older = (await api.get("/openapi/v2")).json["definitions"]["io.k8s.api.discovery.v1.EndpointSlice"]
    assert older["properties"]["ports"]["type"] == "array"


async def test_zeros_of_what_is_no_pointer_in_go_are_left_out(api: InMemory) -> None:
    spec = (await made(api, DEPLOYMENTS, "zeros", spec={**DEPLOYMENT, "paused": False, "minReadySeconds": 0}))["spec"]
    assert not spec.keys() & {"paused", "minReadySeconds"}
    assert (await changed(api, f"{DEPLOYMENTS}/zeros", {"spec": {"replicas": 0}}))["spec"]["replicas"] == 0


async def test_amounts_have_no_smaller_parts_than_thousandths(api: InMemory) -> None:
    limits = {"cpu": "0.0001", "memory": "1n", "a.example.com/b": "1"}
    pod = await made(
        api, PODS, "small", spec={"containers": [{**POD["containers"][0], "resources": {"limits": limits}}]}
    )
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {**limits, "cpu": "1m", "memory": "1m"}


async def test_a_generation_counts_what_the_strategy_of_its_kind_counts(api: InMemory) -> None:
    await made(api, DEPLOYMENTS, "counted", spec=DEPLOYMENT)
    annotated = await changed(api, f"{DEPLOYMENTS}/counted", {"metadata": {"annotations": {"a": "b"}}})
    assert annotated["metadata"]["generation"] == 2
    labelled = await changed(api, f"{DEPLOYMENTS}/counted", {"metadata": {"labels": {"a": "b"}}})
    assert labelled["metadata"]["generation"] == 2
    assert "generation" not in (await made(api, DRIVERS, "d.example.com", spec={}))["metadata"]
    driver = await changed(api, f"{DRIVERS}/d.example.com", {"spec": {"podInfoOnMount": True}})
    assert driver["metadata"]["generation"] == 1
    await made(api, CLASSES, "counted", value=1)
    described = await changed(api, f"{CLASSES}/counted", {"description": "d"})
    assert described["metadata"]["generation"] == 1


async def test_an_update_that_may_not_be_shows_what_it_would_change(api: InMemory) -> None:
    await made(api, CLAIMS, "fixed", spec=CLAIM)
    refused = await api.request("PATCH", f"{CLAIMS}/fixed", {"spec": {"accessModes": ["ReadOnlyMany"]}}, headers=MERGE)
    (cause,) = refused.json["details"]["causes"]
    assert cause["message"].endswith(
        '@@ -1,6 +1,6 @@\n {\n  "AccessModes": [\n-  "ReadWriteOnce"\n+  "ReadOnlyMany"\n  ],\n'
        '  "Selector": null,\n  "Resources": {\n'
    )
    await made(api, PODS, "fixed", spec=POD)
    refused = await api.request("PATCH", f"{PODS}/fixed", {"spec": {"hostNetwork": True}}, headers=MERGE)
    assert '\n-  "HostNetwork": false,\n+  "HostNetwork": true,\n' in refused.json["message"]


async def test_a_revision_has_data_that_stay(api: InMemory) -> None:
    lacking = await api.post(REVISIONS, {"metadata": {"name": "r"}, "revision": -1})
    texts = {one["field"]: one["message"] for one in lacking.json["details"]["causes"]}
    assert texts["data"] == "Required value: data is mandatory"
    assert texts["revision"].endswith("must be greater than or equal to 0")
    await made(api, REVISIONS, "r", data={"a": 1}, revision=1)
    assert (await changed(api, f"{REVISIONS}/r", {"revision": 2}))["revision"] == 2
    refused = await api.request("PATCH", f"{REVISIONS}/r", {"data": {"a": 2}}, headers=MERGE)
    assert refused.json["details"]["causes"][0]["field"] == "data"


async def test_a_finalizer_has_the_domain_of_who_takes_it_off(api: InMemory) -> None:
    refused = await api.post(PODS, {"metadata": {"name": "f", "finalizers": ["noslash"]}, "spec": POD})
    (cause,) = refused.json["details"]["causes"]
    assert cause["field"] == "metadata.finalizers[0]"


async def test_a_policy_of_preemption_is_that_of_the_class(api: InMemory) -> None:
    refused = await api.post(PODS, {"metadata": {"name": "p"}, "spec": {**POD, "preemptionPolicy": "Never"}})
    assert refused.status == 403
    assert "the string value of PreemptionPolicy (Never) must not be provided" in refused.json["message"]


async def test_a_negative_grace_is_a_second(api: InMemory) -> None:
    pod = await made(api, PODS, "grace", spec={**POD, "terminationGracePeriodSeconds": -5})
    assert pod["spec"]["terminationGracePeriodSeconds"] == 1


async def test_a_pod_that_goes_at_once_is_shown_as_one_that_goes(api: InMemory) -> None:
    await made(api, PODS, "gone", spec=POD)
    metadata = (await api.request("DELETE", f"{PODS}/gone")).json["metadata"]
    assert (metadata["deletionGracePeriodSeconds"], metadata["generation"]) == (0, 2)


async def test_a_pod_is_bound_by_the_collection_too(api: InMemory) -> None:
    await made(api, PODS, "bound", spec=POD)
    binding = {"metadata": {"name": "bound"}, "target": {"kind": "Node", "name": "n"}}
    assert (await api.post(f"/api/v1/{NAMESPACE}/bindings", binding)).status == 201
    pod = (await api.get(f"{PODS}/bound")).json
    assert (pod["spec"]["nodeName"], pod["metadata"]["generation"]) == ("n", 1)
    assert (await api.post(f"/api/v1/{NAMESPACE}/bindings", binding)).status == 409


async def test_a_bound_pod_gets_the_zone_of_its_node(api: InMemory) -> None:
    zone = {"topology.kubernetes.io/zone": "z1", "other": "o"}
    assert (await api.post("/api/v1/nodes", {"metadata": {"name": "zoned", "labels": zone}})).status == 201
    await made(api, PODS, "zoned", spec=POD)
    binding = {"metadata": {"name": "zoned"}, "target": {"kind": "Node", "name": "zoned"}}
    assert (await api.post(f"{PODS}/zoned/binding", binding)).status == 201
    labels = (await api.get(f"{PODS}/zoned")).json["metadata"]["labels"]
    assert labels == {"topology.kubernetes.io/zone": "z1"}


async def test_what_is_known_of_containers_is_written_whole(api: InMemory) -> None:
    await made(api, PODS, "known", spec=POD)
    status = {"containerStatuses": [{"name": "c"}]}
    (known,) = (await changed(api, f"{PODS}/known/status", {"status": status}))["status"]["containerStatuses"]
    empty = {"image": "", "imageID": "", "lastState": {}, "ready": False, "restartCount": 0, "state": {}}
    assert known == {"name": "c", **empty}


async def test_an_evicted_pod_says_why_it_ends(api: InMemory) -> None:
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "e"}}}
    await made(api, BUDGETS, "e", spec=budget)
    told = {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1}
    await changed(api, f"{BUDGETS}/e/status", {"status": told})
    pod = {"metadata": {"name": "e", "labels": {"app": "e"}}, "spec": {**POD, "nodeName": "n"}}
    assert (await api.post(PODS, pod)).status == 201
    running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await changed(api, f"{PODS}/e/status", {"status": running})
    eviction = {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "e"}}
    assert (await api.post(f"{PODS}/e/eviction", eviction)).status == 201
    conditions = (await api.get(f"{PODS}/e")).json["status"]["conditions"]
    assert [one["type"] for one in conditions] == ["Ready", "DisruptionTarget"]
    (condition,) = (await api.get(f"{BUDGETS}/e")).json["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("DisruptionAllowed", "False")


async def test_events_of_both_groups_have_rules_of_their_own(api: InMemory) -> None:
    new, other = EVENTS.replace("/api/v1/", "/apis/events.k8s.io/v1/"), {"kind": "Pod", "namespace": "other"}
    event = {
        "eventTime": "2026-01-01T00:00:00.000001Z",
        "reportingController": "a.example.com/b",
        "reportingInstance": "i",
        "action": "Do",
        "reason": "R",
        "type": "Normal",
        "regarding": other,
    }
    await made(api, new, "elsewhere", **event)
    changes = {"eventTime": "2026-01-01T00:00:01.000001Z", "regarding": {"name": "z"}}
    refused = await api.request("PATCH", f"{new}/elsewhere", changes, headers=MERGE)
    texts = {one["field"]: one["message"] for one in refused.json["details"]["causes"]}
    assert texts["eventTime"] == 'Invalid value: "2026-01-01T00:00:01.000001Z": field is immutable'
    assert texts["involvedObject"].startswith('Invalid value: {"Kind":"Pod","Namespace":"other","Name":"z","UID":""')
    once = await api.post(new, {"metadata": {"name": "once"}, **event, "series": {"count": 1}})
    assert [one["field"] for one in once.json["details"]["causes"]] == ["series.count", "series.lastObservedTime"]
    older = await api.post(EVENTS, {"metadata": {"name": "x"}, "involvedObject": other})
    assert older.json["details"]["causes"][0]["field"] == "involvedObject.namespace"
