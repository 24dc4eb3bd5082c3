"""Workload objects get the defaults that clients wait for, and refusals in Kubernetes' words."""

from __future__ import annotations

from typing import Any

import pytest
from minimal_objects import MINIMAL, ONCE, PODS, SELECTED

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.testing import InMemory

STRATEGIC = {"content-type": "application/strategic-merge-patch+json"}
APPS = "/apis/apps/v1/namespaces/default"
SCALERS = "/apis/autoscaling/{}/namespaces/default/horizontalpodautoscalers"


def at(tree: Any, path: str) -> Any:
    for name in path.split("."):
        tree = tree[int(name)] if isinstance(tree, list) else tree[name]
    return tree


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("path", "key", "expected"),
    [
        (
            f"{APPS}/deployments",
            ("apps", "deployments"),
            {
                "metadata.generation": 1,
                "spec.replicas": 1,
                "spec.strategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
                },
                "spec.revisionHistoryLimit": 10,
                "spec.progressDeadlineSeconds": 600,
                "spec.template.spec.restartPolicy": "Always",
                "spec.template.spec.dnsPolicy": "ClusterFirst",
                "spec.template.spec.terminationGracePeriodSeconds": 30,
                "spec.template.spec.schedulerName": "default-scheduler",
                "spec.template.spec.containers.0.imagePullPolicy": "IfNotPresent",
                "spec.template.spec.containers.0.terminationMessagePath": "/dev/termination-log",
            },
        ),
        (
            f"{APPS}/daemonsets",
            ("apps", "daemonsets"),
            {"spec.updateStrategy.rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
        ),
        (
            f"{APPS}/statefulsets",
            ("apps", "statefulsets"),
            {
                "spec.podManagementPolicy": "OrderedReady",
                "spec.updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
                "spec.persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
            },
        ),
        (
            "/apis/batch/v1/namespaces/default/jobs",
            ("batch", "jobs"),
            {
                "spec.completions": 1,
                "spec.parallelism": 1,
                "spec.backoffLimit": 6,
                "spec.completionMode": "NonIndexed",
                "spec.suspend": False,
                "spec.template.metadata.labels.job-name": "a",
            },
        ),
        (
            "/apis/batch/v1/namespaces/default/cronjobs",
            ("batch", "cronjobs"),
            {"spec.concurrencyPolicy": "Allow", "spec.failedJobsHistoryLimit": 1, "spec.suspend": False},
        ),
        (
            "/api/v1/namespaces/default/services",
            ("", "services"),
            {
                "spec.type": "ClusterIP",
                "spec.sessionAffinity": "None",
                "spec.ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
                "spec.internalTrafficPolicy": "Cluster",
                "status": {"loadBalancer": {}},
            },
        ),
        (
            "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
            ("networking.k8s.io", "networkpolicies"),
            {"spec.policyTypes": ["Ingress"]},
        ),
        (
            "/api/v1/namespaces/default/persistentvolumeclaims",
            ("", "persistentvolumeclaims"),
            {"spec.volumeMode": "Filesystem", "status.phase": "Pending"},
        ),
    ],
)
async def test_defaults(path: str, key: tuple[str, str], expected: dict[str, Any]) -> None:
    async with InMemory(ControlPlane()) as api:
        made = await api.post(path, {"metadata": {"name": "a"}, **MINIMAL[key]})
        assert made.status == 201, made.json
        assert {place: at(made.json, place) for place in expected} == expected


@pytest.mark.anyio
async def test_a_job_selects_its_own_pods_and_keeps_its_template() -> None:
    async with InMemory(ControlPlane()) as api:
        jobs = "/apis/batch/v1/namespaces/default/jobs"
        made = (await api.post(jobs, {"metadata": {"name": "a"}, "spec": ONCE})).json
        uid = made["metadata"]["uid"]
        assert made["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
        assert made["spec"]["template"]["metadata"]["labels"]["controller-uid"] == uid
        patch = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "other"}]}}}}
        refused = await api.request("PATCH", f"{jobs}/a", patch, headers=STRATEGIC)
        assert (refused.status, refused.json["details"]["causes"][0]["field"]) == (422, "spec.template")
        always = {**ONCE["template"]["spec"], "restartPolicy": "Always"}
        wrong = await api.post(jobs, {"metadata": {"name": "b"}, "spec": {"template": {"spec": always}}})
        assert wrong.json["message"] == (
            'Job.batch "b" is invalid: spec.template.spec.restartPolicy: Required value: valid values: '
            '"OnFailure", "Never"'
        )


@pytest.mark.anyio
@pytest.mark.parametrize("plural", ["deployments", "replicasets", "daemonsets"])
async def test_a_selector_stays_and_fits(plural: str) -> None:
    async with InMemory(ControlPlane()) as api:
        path = f"{APPS}/{plural}"
        assert (await api.post(path, {"metadata": {"name": "a"}, "spec": SELECTED})).status == 201
        other = {"selector": {"matchLabels": {"app": "b"}}, "template": {"metadata": {"labels": {"app": "b"}}}}
        refused = await api.request("PATCH", f"{path}/a", {"spec": other}, headers=STRATEGIC)
        assert refused.status == 422
        assert "spec.selector: Invalid value: {" in refused.json["message"]
        assert ": field is immutable" in refused.json["message"]
        missing = {"template": SELECTED["template"]}
        wrong = await api.post(path, {"metadata": {"name": "b"}, "spec": missing})
        missing_selector = ["spec.selector"] if plural != "daemonsets" else []  # of which Kubernetes says nothing
        assert [one["field"] for one in wrong.json["details"]["causes"]] == [
            *missing_selector,
            "spec.template.metadata.labels",
        ]


@pytest.mark.anyio
async def test_a_stateful_set_changes_little() -> None:
    async with InMemory(ControlPlane()) as api:
        path = f"{APPS}/statefulsets"
        await api.post(path, {"metadata": {"name": "a"}, "spec": SELECTED})
        scaled = await api.request("PATCH", f"{path}/a", {"spec": {"replicas": 2}}, headers=STRATEGIC)
        assert scaled.status == 200
        refused = await api.request("PATCH", f"{path}/a", {"spec": {"serviceName": "s"}}, headers=STRATEGIC)
        assert "updates to statefulset spec for fields other than 'replicas'" in refused.json["message"]


@pytest.mark.anyio
async def test_strategic_patches_merge_by_kubernetes_keys() -> None:
    async with InMemory(ControlPlane()) as api:
        path = f"{APPS}/deployments"
        await api.post(path, {"metadata": {"name": "a"}, "spec": SELECTED})
        sidecar = {"name": "s", "image": "side", "env": [{"name": "A", "value": "1"}]}
        added = await api.request(
            "PATCH", f"{path}/a", {"spec": {"template": {"spec": {"containers": [sidecar]}}}}, headers=STRATEGIC
        )
        names = [one["name"] for one in at(added.json, "spec.template.spec.containers")]
        assert sorted(names) == ["c", "s"]
        more = {"containers": [{"name": "s", "env": [{"name": "B", "value": "2"}]}]}
        changed = await api.request("PATCH", f"{path}/a", {"spec": {"template": {"spec": more}}}, headers=STRATEGIC)
        (side,) = [one for one in at(changed.json, "spec.template.spec.containers") if one["name"] == "s"]
        assert {one["name"]: one["value"] for one in side["env"]} == {"A": "1", "B": "2"}


@pytest.mark.anyio
async def test_an_autoscaler_in_both_versions() -> None:
    async with InMemory(ControlPlane()) as api:
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
        old = {"maxReplicas": 4, "scaleTargetRef": target, "targetCPUUtilizationPercentage": 60}
        assert (await api.post(SCALERS.format("v1"), {"metadata": {"name": "a"}, "spec": old})).status == 201
        new = (await api.get(f"{SCALERS.format('v2')}/a")).json
        cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}
        assert new["spec"]["metrics"] == [{"type": "Resource", "resource": cpu}]
        assert new["spec"]["minReplicas"] == 1
        queue = {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "5"}}
        new["spec"]["metrics"].append({"type": "External", "external": queue})
        new["spec"]["behavior"] = {"scaleDown": {"stabilizationWindowSeconds": 60}}
        put = await api.request("PUT", f"{SCALERS.format('v2')}/a", new)
        assert put.status == 200, put.json
        seen = (await api.get(f"{SCALERS.format('v1')}/a")).json
        assert seen["spec"]["targetCPUUtilizationPercentage"] == 60
        assert "metrics" not in seen["spec"]
        assert {one.rpartition("/")[2] for one in seen["metadata"]["annotations"]} == {"metrics", "behavior"}
        back = await api.request("PUT", f"{SCALERS.format('v1')}/a", seen)
        assert back.status == 200, back.json
        assert (await api.get(f"{SCALERS.format('v2')}/a")).json["spec"] == put.json["spec"]
        plain = {"maxReplicas": 4, "scaleTargetRef": target}
        await api.post(SCALERS.format("v1"), {"metadata": {"name": "b"}, "spec": plain})
        shown = (await api.get(f"{SCALERS.format('v2')}/b")).json
        assert at(shown, "spec.metrics.0.resource.target.averageUtilization") == 80


@pytest.mark.anyio
async def test_quantities_have_their_canonical_text() -> None:
    async with InMemory(ControlPlane()) as api:
        limits = {"cpu": 0.5, "memory": "1024Mi", "example.com/gpu": 2}
        containers = [{**PODS["containers"][0], "resources": {"limits": limits}}]
        spec = {**SELECTED, "template": {**SELECTED["template"], "spec": {"containers": containers}}}
        made = (await api.post(f"{APPS}/deployments", {"metadata": {"name": "a"}, "spec": spec})).json
        assert at(made, "spec.template.spec.containers.0.resources.limits") == {
            "cpu": "500m",
            "memory": "1Gi",
            "example.com/gpu": "2",
        }
