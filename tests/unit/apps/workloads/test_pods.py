"""Pods as an API server treats them without nodes: admission, binding, eviction, deletion, and nobody to ask."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.meta.times import parse_rfc3339
from oarlock.testing import InMemory, VirtualClock

PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
STRATEGIC = {"content-type": "application/strategic-merge-patch+json"}
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def pod(name: str = "a", **spec: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "example.com/app:1"}], **spec}
    return {"metadata": {"name": name, "labels": {"app": "a"}}, "spec": spec}


async def created(api: InMemory, name: str = "a", **spec: Any) -> dict[str, Any]:
    made = await api.post(PODS, pod(name, **spec))
    assert made.status == 201, made.json
    return made.json


async def bound(api: InMemory, name: str = "a") -> None:
    target = {"kind": "Node", "name": "n"}
    assert (await api.post(f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": target})).status == 201
    told = await api.request("PATCH", f"{PODS}/{name}/status", {"status": READY}, headers=STRATEGIC)
    assert told.status == 200, told.json


async def served() -> AsyncIterator[InMemory]:
    clock = VirtualClock()
    async with InMemory(ControlPlane(), clock=clock) as server:
        await clock.run(1)  # the default service account is made
        yield server


@pytest.fixture
async def api() -> AsyncIterator[InMemory]:
    async for server in served():
        yield server


@pytest.fixture(scope="module")
async def refusing() -> AsyncIterator[InMemory]:
    """One for all whose requests are refused, and so change nothing."""
    async for server in served():
        yield server


@pytest.mark.anyio
async def test_admission_completes_a_pod(api: InMemory) -> None:
    spec = (await created(api))["spec"]
    assert spec["serviceAccountName"] == spec["serviceAccount"] == "default"
    (volume,) = spec["volumes"]
    (mount,) = spec["containers"][0]["volumeMounts"]
    assert mount == {
        "name": volume["name"],
        "readOnly": True,
        "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
    }
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert [one["tolerationSeconds"] for one in spec["tolerations"]] == [300, 300]


@pytest.mark.anyio
async def test_a_pod_has_the_priority_of_its_class(api: InMemory) -> None:
    assert (await created(api, priorityClassName="system-node-critical"))["spec"]["priority"] == 2000001000
    refused = await api.post(PODS, pod("b", priorityClassName="none"))
    assert refused.json["message"] == 'pods "b" is forbidden: no PriorityClass with name none was found'
    wrong = await api.post(PODS, pod("b", priorityClassName="system-node-critical", priority=1))
    assert wrong.status == 403


@pytest.mark.anyio
async def test_classes_and_accounts_count_for_the_next_pod(api: InMemory) -> None:
    classes, accounts = "/apis/scheduling.k8s.io/v1/priorityclasses", PODS.replace("/pods", "/serviceaccounts")
    for name, value in (("high", 20), ("low", 10)):
        answer = await api.post(classes, {"metadata": {"name": name}, "value": value, "globalDefault": True})
        assert answer.status == 201
        assert (await created(api, f"with-{name}"))["spec"]["priority"] == value
    assert (await created(api, "named", priorityClassName="high"))["spec"]["priority"] == 20
    for name in ("high", "low"):
        await api.delete(f"{classes}/{name}")
    assert (await created(api, "without"))["spec"]["priority"] == 0
    answer = await api.post(accounts, {"metadata": {"name": "own"}, "imagePullSecrets": [{"name": "secret"}]})
    assert answer.status == 201
    spec = (await created(api, "owned", serviceAccountName="own"))["spec"]
    assert spec["imagePullSecrets"] == [{"name": "secret"}]
    await api.delete(f"{accounts}/own")
    refused = await api.post(PODS, pod("late", serviceAccountName="own"))
    assert refused.json["message"].endswith('serviceaccount "own" not found')


@pytest.mark.anyio
async def test_only_containers_without_a_token_get_one(api: InMemory) -> None:
    own = {"name": "own", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    containers = [{"name": "a", "image": "i", "volumeMounts": [own]}, {"name": "b", "image": "i"}]
    volumes = [{"name": "own", "emptyDir": {}}]
    spec = (await created(api, containers=containers, volumes=volumes, initContainers=[{"name": "c", "image": "i"}]))[
        "spec"
    ]
    token = spec["volumes"][1]["name"]
    mounted = [one["volumeMounts"][0]["name"] for one in (*spec["containers"], *spec["initContainers"])]
    assert mounted == ["own", token, token]


@pytest.mark.anyio
async def test_a_pod_may_do_without_a_token(api: InMemory) -> None:
    assert "volumes" not in (await created(api, automountServiceAccountToken=False))["spec"]


@pytest.mark.anyio
async def test_a_bound_pod_has_time_to_end(api: InMemory) -> None:
    await created(api)
    await bound(api)
    going = (await api.request("DELETE", f"{PODS}/a")).json
    assert going["metadata"]["deletionGracePeriodSeconds"] == 30
    sooner = (await api.request("DELETE", f"{PODS}/a?gracePeriodSeconds=5")).json
    assert sooner["metadata"]["deletionGracePeriodSeconds"] == 5
    assert sooner["metadata"]["deletionTimestamp"] < going["metadata"]["deletionTimestamp"]
    later = (await api.request("DELETE", f"{PODS}/a?gracePeriodSeconds=20")).json
    assert later["metadata"]["deletionGracePeriodSeconds"] == 5
    gone = await api.request("DELETE", f"{PODS}/a?gracePeriodSeconds=0")
    assert (gone.json["kind"], gone.json["metadata"]["deletionGracePeriodSeconds"]) == ("Pod", 0)
    assert (await api.get(f"{PODS}/a")).status == 404


@pytest.mark.anyio
async def test_a_finalizer_outlasts_the_time_to_end(api: InMemory) -> None:
    await api.post(PODS, {**pod(), "metadata": {"name": "a", "finalizers": ["example.com/mine"]}})
    await bound(api)
    await api.request("DELETE", f"{PODS}/a?gracePeriodSeconds=0")
    kept = (await api.get(f"{PODS}/a")).json["metadata"]
    assert kept["deletionGracePeriodSeconds"] == 0
    await api.request("PATCH", f"{PODS}/a", {"metadata": {"finalizers": None}}, headers=STRATEGIC)
    assert (await api.get(f"{PODS}/a")).status == 404


@pytest.mark.anyio
async def test_a_pod_that_no_node_has_goes_at_once(api: InMemory) -> None:
    await created(api)
    assert (await api.request("DELETE", f"{PODS}/a")).json["kind"] == "Pod"
    assert (await api.get(f"{PODS}/a")).status == 404


@pytest.mark.anyio
async def test_a_binding_is_one_of_a_kind(api: InMemory) -> None:
    await created(api)
    await bound(api)
    seen = (await api.get(f"{PODS}/a")).json
    assert seen["spec"]["nodeName"] == "n"
    again = await api.post(f"{PODS}/a/binding", {"metadata": {"name": "a"}, "target": {"name": "m"}})
    assert (again.status, again.json["details"]["kind"]) == (409, "pods/binding")
    dry = await created(api, "b")
    binding = {"metadata": {"name": "b", "annotations": {"x": "y"}}, "target": {"name": "m"}}
    assert (await api.post(f"{PODS}/b/binding?dryRun=All", binding)).status == 201
    assert (await api.get(f"{PODS}/b")).json == dry


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("metadata", "code", "why"),
    [
        ({"uid": "other"}, 409, "Precondition failed: UID in precondition: other, UID in object meta: "),
        ({"resourceVersion": "1"}, 409, "Precondition failed: ResourceVersion in precondition: 1, ResourceVersion in "),
        ({"name": "b"}, 400, "name in URL does not match name in Binding object"),
        ({"name": ""}, 400, "name in URL does not match name in Binding object"),
        ({"namespace": "other"}, 400, "the namespace of the provided object does not match the namespace sent on the"),
    ],
)
async def test_a_binding_that_was_made_for_another_pod_binds_none(
    api: InMemory, metadata: dict[str, str], code: int, why: str
) -> None:
    before = await created(api)
    body = {"metadata": {"name": "a", **metadata}, "target": {"kind": "Node", "name": "n"}}
    refused = await api.post(f"{PODS}/a/binding", body)
    assert refused.status == code
    assert why in refused.json["message"]
    if code == 409:
        key = "StorageError: invalid object, Code: 4, Key: /registry/pods/default/a, ResourceVersion: 0"
        assert refused.json["message"].startswith(f'Operation cannot be fulfilled on pods "a": {key}, ')
        assert refused.json["details"] == {"name": "a", "kind": "pods"}
    assert (await api.get(f"{PODS}/a")).json == before


@pytest.mark.anyio
async def test_a_binding_brings_annotations_and_labels_to_the_pod_it_names(api: InMemory) -> None:
    live = (await created(api))["metadata"]
    metadata = {key: live[key] for key in ("name", "uid", "resourceVersion")}
    metadata |= {"annotations": {"x": "y"}, "labels": {"app": "other", "topology.kubernetes.io/zone": "z"}}
    body = {"metadata": metadata, "target": {"kind": "Node", "name": "n"}}
    assert (await api.post(f"{PODS}/a/binding", body)).status == 201
    seen = (await api.get(f"{PODS}/a")).json
    assert seen["spec"]["nodeName"] == "n"
    assert seen["metadata"]["annotations"] == {"x": "y"}
    assert seen["metadata"]["labels"] == {"app": "a", "topology.kubernetes.io/zone": "z"}


@pytest.mark.anyio
async def test_a_pod_that_is_bound_is_nominated_no_more(api: InMemory) -> None:
    await created(api)
    status = {"status": {"nominatedNodeName": "m"}}
    assert (await api.request("PATCH", f"{PODS}/a/status", status, headers=STRATEGIC)).status == 200
    await bound(api)
    seen = (await api.get(f"{PODS}/a")).json
    assert seen["spec"]["nodeName"] == "n"
    assert "nominatedNodeName" not in seen["status"]


@pytest.mark.anyio
async def test_a_pod_that_is_made_with_a_node_gets_the_labels_of_its_place(api: InMemory) -> None:
    labels = {"topology.kubernetes.io/zone": "z", "other": "o"}
    assert (await api.post("/api/v1/nodes", {"metadata": {"name": "n", "labels": labels}})).status == 201
    made = await created(api, nodeName="n")
    assert made["metadata"]["labels"] == {"app": "a", "topology.kubernetes.io/zone": "z"}
    assert (await created(api, "b", nodeName="unknown"))["metadata"]["labels"] == {"app": "a"}


@pytest.mark.anyio
async def test_nobody_sets_the_node_or_most_else_afterwards(api: InMemory) -> None:
    await created(api)
    for spec in ({"nodeName": "n"}, {"hostname": "h"}, {"containers": [{"name": "c", "command": ["x"]}]}):
        refused = await api.request("PATCH", f"{PODS}/a", {"spec": spec}, headers=STRATEGIC)
        assert refused.status == 422, refused.json
        assert "pod updates may not change fields other than" in refused.json["message"]
    image = {"spec": {"containers": [{"name": "c", "image": "example.com/app:2"}]}}
    assert (await api.request("PATCH", f"{PODS}/a", image, headers=STRATEGIC)).status == 200
    tolerated = {"spec": {"tolerations": [{"key": "more", "operator": "Exists"}]}}
    assert (await api.request("PATCH", f"{PODS}/a", tolerated, headers=STRATEGIC)).status in (200, 422)


@pytest.mark.anyio
async def test_ephemeral_containers_and_resources_have_paths_of_their_own(api: InMemory) -> None:
    await created(api)
    debug = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "busybox"}]}}
    added = await api.request("PATCH", f"{PODS}/a/ephemeralcontainers", debug, headers=STRATEGIC)
    assert added.status == 200, added.json
    removed = {"spec": {"ephemeralContainers": [{"name": "debug", "$patch": "delete"}]}}
    assert (await api.request("PATCH", f"{PODS}/a/ephemeralcontainers", removed, headers=STRATEGIC)).status == 422
    larger = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
    best = await api.request("PATCH", f"{PODS}/a/resize", larger, headers=STRATEGIC)
    assert "Pod QOS Class may not change" in best.json["message"]
    asks = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m"}}}
    assert (await api.post(PODS, pod("b", containers=[asks]))).status == 201
    resized = await api.request("PATCH", f"{PODS}/b/resize", larger, headers=STRATEGIC)
    assert resized.json["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1"}


@pytest.mark.anyio
async def test_a_pod_without_a_node_has_nobody_to_ask(api: InMemory) -> None:
    await created(api)
    assert (await api.get(f"{PODS}/a/log")).status == 204
    for what in ("exec", "attach", "portforward"):
        assert (await api.get(f"{PODS}/a/{what}")).json["message"] == "pod a does not have a host assigned"
    await bound(api)
    for what in ("log", "exec", "attach", "portforward"):
        answer = await api.get(f"{PODS}/a/{what}")
        assert (answer.status, answer.json["message"]) == (404, 'nodes "n" not found')
    assert (await api.get(f"{PODS}/none/log")).status == 404


@pytest.mark.anyio
async def test_a_budget_is_kept(api: InMemory) -> None:
    selector = {"matchLabels": {"app": "a"}}
    await api.post(BUDGETS, {"metadata": {"name": "p"}, "spec": {"minAvailable": 1, "selector": selector}})
    for name in ("a", "b"):
        await created(api, name)
        await bound(api, name)
    early = await api.post(f"{PODS}/a/eviction", {"metadata": {"name": "a"}})
    assert (early.status, "still being processed" in early.json["details"]["causes"][0]["message"]) == (429, True)
    status = {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1}
    await api.request("PATCH", f"{BUDGETS}/p/status", {"status": status}, headers=STRATEGIC)
    dry = {"metadata": {"name": "a"}, "deleteOptions": {"dryRun": ["All"]}}
    assert (await api.post(f"{PODS}/a/eviction", dry)).status == 201
    assert "deletionTimestamp" not in (await api.get(f"{PODS}/a")).json["metadata"]
    assert (await api.post(f"{PODS}/a/eviction", {"metadata": {"name": "a"}})).status == 201
    assert (await api.get(f"{PODS}/a")).json["metadata"]["deletionTimestamp"]
    refused = await api.post(f"{PODS}/b/eviction", {"metadata": {"name": "b"}})
    assert refused.status == 429
    assert refused.json["details"]["causes"][0]["reason"] == "DisruptionBudget"
    spent = (await api.get(f"{BUDGETS}/p")).json["status"]
    assert (spent["disruptionsAllowed"], [*spent["disruptedPods"]]) == (0, ["a"])


@pytest.mark.anyio
@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [{"name": "c", "image": "i", "env": [{"name": "A"}, {"name": "A"}]}]},
        {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}, {"containerPort": 80}]}]},
        {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": 0.5, "memory": "1Gi"}}}]},
    ],
)
async def test_what_kubernetes_lets_pass(api: InMemory, spec: dict[str, Any]) -> None:
    assert (await api.post(PODS, pod(**spec))).status == 201


@pytest.mark.anyio
@pytest.mark.parametrize(
    "spec",
    [
        None,
        [],
        "x",
        {"containers": None},
        {"containers": [None]},
        {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 2**70}]}]},
        {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "many"}}}]},
        {"containers": [{"name": "c" * 10000, "image": "i"}]},
        {"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]},
        {"containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "none", "mountPath": "/x"}]}]},
        {"tolerations": {"key": "x"}},
        {"nodeSelector": {"a": 1}},
    ],
)
async def test_what_is_refused(refusing: InMemory, spec: Any) -> None:
    body = {"metadata": {"name": "a"}, "spec": spec}
    if isinstance(spec, dict) and "containers" not in spec:
        body["spec"] = {**pod()["spec"], **spec}
    answer = await refusing.post(PODS, body)
    assert answer.status in (400, 422), answer.json


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("spec", "query", "grace_s", "ends"),
    [
        ({"terminationGracePeriodSeconds": 2**63 - 1}, "", 2**63 - 1, -1),
        ({}, "?gracePeriodSeconds=9223372036854775807", 2**63 - 1, -1),
        ({}, "?gracePeriodSeconds=1099511627776", 2**40, -7293016647),
        ({}, "?gracePeriodSeconds=-1", 1, 1),
        ({}, "?gracePeriodSeconds=-9223372036854775808", 1, 1),
    ],
)
async def test_a_grace_period_that_no_time_can_hold_wraps_around_as_in_go(
    api: InMemory, spec: dict[str, Any], query: str, grace_s: int, ends: float
) -> None:
    await created(api, **spec)
    await bound(api)
    deleted = await api.request("DELETE", f"{PODS}/a{query}")
    assert deleted.status == 200, deleted
    metadata = deleted.json["metadata"]
    assert metadata["deletionGracePeriodSeconds"] == grace_s
    now = parse_rfc3339(metadata["creationTimestamp"])
    assert abs(parse_rfc3339(metadata["deletionTimestamp"]) - now - ends) <= 2
    if grace_s > 7:
        sooner = (await api.request("DELETE", f"{PODS}/a?gracePeriodSeconds=7")).json["metadata"]
        assert sooner["deletionGracePeriodSeconds"] == 7
        assert abs(parse_rfc3339(sooner["deletionTimestamp"]) - now - 7) <= 2
    assert (await api.request("DELETE", f"{PODS}/a?gracePeriodSeconds=0")).status == 200
    assert (await api.get(f"{PODS}/a")).status == 404


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("1e9999999999999999999999999", "unable to parse quantity's suffix"),
        ("9" * 200_000, "quantities must match the regular expression"),
        ("", "quantities must match the regular expression"),
        ("1x", "quantities must match the regular expression"),
        ("1KI", "quantities must match the regular expression"),
        (True, "quantities must match the regular expression"),
        ({}, "quantities must match the regular expression"),
    ],
)
async def test_a_quantity_that_nobody_can_read_is_refused_and_no_quota_misses_it(
    refusing: InMemory, value: Any, why: str
) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"example.com/gpu": value}}}
    refused = await refusing.post(PODS, pod("a", containers=[container]))
    assert refused.status == 400
    assert refused.json["message"].startswith(f'Pod in version "v1" cannot be handled as a Pod: {why}')
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": value}}}
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    refused = await refusing.post(claims, {"metadata": {"name": "a"}, "spec": claim})
    assert refused.status == 400
    assert why in refused.json["message"]


@pytest.mark.anyio
async def test_quantities_are_kept_as_kubernetes_writes_them(api: InMemory) -> None:
    spellings = (
        "1 =1,1e3=1e3,+1=+1,.5=500m,5.=5.,1E=1E,1024Ki=1Mi,1000m=1,0.1=100m,9223372036854775808=9223372036854775808,"
        "1.500=1.500,007=007,1E2=100,8Ki=8Ki,5Mi=5Mi,0=0,00=0,1500Mi=1500Mi,2048=2048"
    )
    for number, spelling in enumerate(spellings.split(",")):
        sent, stored = spelling.split("=")
        limits = {"memory": sent}
        made = await created(
            api, f"a{number}", containers=[{"name": "c", "image": "i", "resources": {"limits": limits}}]
        )
        assert made["spec"]["containers"][0]["resources"]["limits"] == {"memory": stored}, sent


@pytest.mark.anyio
async def test_a_pod_with_scheduling_gates_is_created_and_waits_for_them(api: InMemory) -> None:
    made = await created(api, schedulingGates=[{"name": "example.com/gate"}])
    (condition,) = made["status"]["conditions"]
    assert (condition["reason"], condition["status"]) == ("SchedulingGated", "False")
    assert condition["lastTransitionTime"] == made["metadata"]["creationTimestamp"]
    body = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}}
    gated = await api.post(f"{PODS}/a/binding", body)
    assert (gated.status, "has non-empty .spec.schedulingGates" in gated.json["message"]) == (409, True)
    lifted = await api.request("PATCH", f"{PODS}/a", {"spec": {"schedulingGates": None}}, headers=STRATEGIC)
    assert lifted.status == 200, lifted.json
    assert (await api.post(f"{PODS}/a/binding", body)).status == 201
