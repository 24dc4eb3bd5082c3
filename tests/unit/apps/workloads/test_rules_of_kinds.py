"""Rules of Kubernetes' kinds: what is refused, where the error is, and what it says; hostile values are refused too."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.testing import InMemory

POD: dict[str, Any] = {"containers": [{"name": "c", "image": "i"}]}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": POD}
SELECTED = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
ONCE = {"template": {"spec": {**POD, "restartPolicy": "Never"}}}
NAMESPACE = "namespaces/default"
PATHS = {
    "pod": f"/api/v1/{NAMESPACE}/pods",
    "service": f"/api/v1/{NAMESPACE}/services",
    "claim": f"/api/v1/{NAMESPACE}/persistentvolumeclaims",
    "volume": "/api/v1/persistentvolumes",
    "node": "/api/v1/nodes",
    "deployment": f"/apis/apps/v1/{NAMESPACE}/deployments",
    "daemonset": f"/apis/apps/v1/{NAMESPACE}/daemonsets",
    "statefulset": f"/apis/apps/v1/{NAMESPACE}/statefulsets",
    "job": f"/apis/batch/v1/{NAMESPACE}/jobs",
    "cronjob": f"/apis/batch/v1/{NAMESPACE}/cronjobs",
    "autoscaler": f"/apis/autoscaling/v2/{NAMESPACE}/horizontalpodautoscalers",
    "budget": f"/apis/policy/v1/{NAMESPACE}/poddisruptionbudgets",
    "ingress": f"/apis/networking.k8s.io/v1/{NAMESPACE}/ingresses",
    "networkpolicy": f"/apis/networking.k8s.io/v1/{NAMESPACE}/networkpolicies",
    "claim for devices": f"/apis/resource.k8s.io/v1/{NAMESPACE}/resourceclaims",
}
SPECS: dict[str, dict[str, Any]] = {
    "pod": POD,
    "service": {"ports": [{"port": 80}]},
    "claim": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    "volume": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}},
    "node": {},
    "deployment": SELECTED,
    "daemonset": SELECTED,
    "statefulset": SELECTED,
    "job": ONCE,
    "cronjob": {"schedule": "* * * * *", "jobTemplate": {"spec": ONCE}},
    "autoscaler": {"maxReplicas": 2, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}},
    "budget": {},
    "ingress": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}},
    "networkpolicy": {"podSelector": {}},
    "claim for devices": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "g.example.com"}}]}},
}


def container(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "i", **fields}]}


def peer(**block: Any) -> dict[str, Any]:
    return {"ingress": [{"from": [{"ipBlock": block}]}]}


def asked(expression: str) -> dict[str, Any]:
    """A claim for a device of which this is true."""
    one = {"deviceClassName": "g.example.com", "selectors": [{"cel": {"expression": expression}}]}
    return {"devices": {"requests": [{"name": "r", "exactly": one}]}}


def constrained(attribute: str) -> dict[str, Any]:
    """A claim for devices that are alike in this."""
    one = {"name": "r", "exactly": {"deviceClassName": "g.example.com"}}
    return {"requests": [one], "constraints": [{"requests": ["r"], "matchAttribute": attribute}]}


def mounted() -> dict[str, Any]:
    return container(volumeMounts=[{"name": "v", "mountPath": "/v"}])


def twice() -> list[dict[str, Any]]:
    """Two ports with one node port."""
    return [{"name": str(number), "port": number, "nodePort": 30_001} for number in (1, 2)]


C, V, DEVICE = "spec.containers[0]", "spec.volumes[0]", "spec.devices.requests[0].exactly"
RULES: list[tuple[str, dict[str, Any], str, str]] = [
    ("pod", container(env=[{"name": "a=b"}]), f"{C}.env[0].name", "a valid environment variable name"),
    ("pod", container(livenessProbe={"periodSeconds": 1}), f"{C}.livenessProbe", "must specify a handler type"),
    ("pod", container(lifecycle={"preStop": {"sleep": {"seconds": 99}}}), f"{C}.lifecycle.preStop.sleep", "(30)"),
    ("pod", container(resources={"requests": {"cpu": "-1"}}), f"{C}.resources.requests[cpu]", "greater than or equal"),
    ("pod", container(resources={"limits": {"gpu": "1"}}), f"{C}.resources.limits[gpu]", "fully qualified"),
    ("pod", container(securityContext={"runAsUser": -1}), f"{C}.securityContext.runAsUser", "between 0 and"),
    ("pod", container(ports=[{"containerPort": 1, "name": "--"}]), f"{C}.ports[0].name", "at least one letter"),
    ("pod", {"volumes": [{"name": "v", "configMap": {}}]}, f"{V}.configMap.name", "Required value"),
    ("pod", {"volumes": [{"name": "v", "nfs": {"server": "s", "path": "x"}}]}, f"{V}.nfs.path", "an absolute path"),
    ("pod", {"tolerations": [{"operator": "Equal"}]}, "spec.tolerations[0].operator", "operator must be Exists"),
    ("pod", {"nodeSelector": {"a": "b c"}}, "spec.nodeSelector", "a valid label must be"),
    ("pod", {"hostAliases": [{"ip": "9" * 5000}]}, "spec.hostAliases[0].ip", "must be a valid IP address"),
    ("pod", {"os": {"name": "linux"}, "securityContext": {"windowsOptions": {}}}, "spec.securityContext.win", "linux"),
    ("service", {"ports": [{"port": 80, "targetPort": "12"}]}, "spec.ports[0].targetPort", "at least one letter"),
    ("service", {"externalIPs": ["127.0.0.1"]}, "spec.externalIPs[0]", "loopback range"),
    ("service", {"loadBalancerClass": "a.b/c"}, "spec.loadBalancerClass", "may only be used when `type`"),
    ("claim", {"accessModes": ["Foo"]}, "spec.accessModes", "supported values"),
    ("claim", {"resources": {"requests": {"storage": "0"}}}, "spec.resources[storage]", "greater than zero"),
    ("volume", {"capacity": {"cpu": "1"}}, "spec.capacity", 'supported values: "storage"'),
    ("volume", {"hostPath": {"path": "/a/.."}}, "spec.hostPath.path", "must not contain '..'"),
    ("node", {"taints": [{"key": "a", "effect": "Foo"}]}, "metadata.taints[0].effect", "supported values"),
    ("node", {"podCIDRs": ["10.1.0.1/24"]}, "spec.podCIDRs[0]", "must not have bits set beyond the prefix length"),
    ("deployment", {"strategy": {"rollingUpdate": {"maxSurge": "x"}}}, "spec.strategy.rollingUpdate.maxSurge", "perce"),
    ("daemonset", {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}}, "spec.updateStrategy.rol", "cannot be"),
    ("statefulset", {"serviceName": "Bad_"}, "spec.serviceName", "a lowercase RFC 1123 label"),
    ("job", {"completionMode": "Indexed", "parallelism": 1}, "spec.completions", "when completion mode is Indexed"),
    ("job", {"successPolicy": {"rules": []}}, "spec.successPolicy", "requires indexed completion mode"),
    ("cronjob", {"schedule": "99 * * * *"}, "spec.schedule", "above maximum (59)"),
    ("cronjob", {"schedule": "9" * 5000 + " * * * *"}, "spec.schedule", "value out of range"),
    ("cronjob", {"timeZone": "../../etc/passwd"}, "spec.timeZone", "unknown time zone"),
    ("autoscaler", {"metrics": [{"type": "Resource"}]}, "spec.metrics[0].resource", "must populate information"),
    ("budget", {"minAvailable": "150%"}, "spec.minAvailable", "must not be greater than 100%"),
    ("ingress", {"rules": [{"host": "1.2.3.4"}]}, "spec.rules[0].host", "must be a DNS name, not an IP address"),
    ("networkpolicy", peer(cidr="1.2.3.4/24"), "spec.ingress[0].from[0].ipBlock.cidr", "bits set beyond"),
    ("networkpolicy", peer(cidr="1.2.0.0/" + "9" * 5000), "spec.ingress[0].from[0].ipBlock.cidr", "a valid CIDR value"),
    ("claim for devices", {"devices": {"requests": [{"name": "r"}]}}, "spec.devices.requests[0]", "exactly one of"),
    ("claim for devices", asked("device.("), f"{DEVICE}.selectors[0].cel.expression", "compilation failed"),
    ("claim for devices", asked("device.foo == 1"), f"{DEVICE}.selectors[0].cel", "undefined field 'foo'"),
    ("claim for devices", asked("device.driver"), f"{DEVICE}.selectors[0].cel", "must evaluate to bool or the unknown"),
    ("claim for devices", {"devices": constrained("a")}, "spec.devices.constraints[0].matchAttribute", "a domain"),
    ("pod", {"hostnameOverride": "Bad_"}, "spec.hostnameOverride", "a lowercase RFC 1123 subdomain"),
    ("pod", {"hostnameOverride": "a", "hostNetwork": True}, "spec.hostnameOverride", "when hostNetwork is true"),
    ("pod", {"resourceClaims": [{"name": "a"}]}, "spec.resourceClaims[0]", '{"Name":"a","ResourceClaimName":null,'),
    ("pod", {"dnsConfig": {"searches": ["a b"]}}, "spec.dnsConfig.searches[0]", "'_', '-' or '.'"),
    ("pod", {**mounted(), "volumes": [{"name": "v", "nfs": {}}]}, f"{C}.volumeMounts[0].name", 'Not found: "v"'),
    ("cronjob", {"jobTemplate": {}}, "spec.jobTemplate.spec.template.spec.containers", "Required value"),
    ("deployment", {"template": None}, "spec.template.spec.containers", "Required value"),
    ("service", {"type": "NodePort", "ports": twice()}, "spec.ports[1].nodePort", "already allocated"),
    ("autoscaler", {"behavior": {"scaleUp": {"policies": []}}}, "spec.behavior.scaleUp.policies", "at least one"),
    ("volume", {"volumeAttributesClassName": ""}, "spec.volumeAttributesClassName", "an empty string is disallowed"),
]


@pytest.fixture(scope="module")
async def api(anyio_backend: Any) -> AsyncIterator[InMemory]:
    async with InMemory(ControlPlane()) as api:
        await api.clock.run(1)  # type: ignore[attr-defined]  # the default service account is made
        yield api


@pytest.mark.anyio
@pytest.mark.parametrize("kind", PATHS)
async def test_an_object_that_makes_sense_is_taken(api: InMemory, kind: str) -> None:
    answer = await api.post(f"{PATHS[kind]}?dryRun=All", {"metadata": {"name": "a"}, "spec": SPECS[kind]})
    assert answer.status == 201, answer.json


@pytest.mark.anyio
@pytest.mark.parametrize(("kind", "spec", "field", "why"), RULES)
async def test_one_that_breaks_a_rule_is_refused(
    api: InMemory, kind: str, spec: dict[str, Any], field: str, why: str
) -> None:
    body = {"metadata": {"name": "a"}, "spec": {**SPECS[kind], **spec}}
    refused = await api.post(f"{PATHS[kind]}?dryRun=All", body)
    assert refused.status == 422, refused.json
    causes = refused.json["details"]["causes"]
    assert any(cause["field"].startswith(field) and why in cause["message"] for cause in causes), causes


@pytest.mark.anyio
async def test_status_keeps_what_the_strategy_of_its_kind_keeps(api: InMemory) -> None:
    merge = {"content-type": "application/merge-patch+json"}
    new = {"labels": {"l": "1"}, "annotations": {"a": "1"}, "finalizers": ["a.b/c"]}
    for kind, kept in (("pod", {"labels", "annotations", "finalizers"}), ("deployment", {"annotations", "finalizers"})):
        path = PATHS[kind]
        assert (await api.post(path, {"metadata": {"name": "kept"}, "spec": SPECS[kind]})).status == 201
        changed = await api.request("PATCH", f"{path}/kept/status", {"metadata": new}, headers=merge)
        assert changed.status == 200, changed.json
        assert {name for name in new if changed.json["metadata"].get(name) == new[name]} == kept


@pytest.mark.anyio
async def test_a_node_is_created_with_its_status(api: InMemory) -> None:
    body = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "2"}}}
    made = await api.post(PATHS["node"], body)
    assert made.json["status"]["allocatable"] == {"cpu": "2"}
    negative = {"metadata": {"name": "m"}, "status": {"capacity": {"cpu": "-1"}}}
    assert (await api.post(PATHS["node"], negative)).status == 422


MANY = 20_000


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("pod", container(ports=[{"containerPort": 1}] * MANY)),
        ("pod", {"tolerations": [{}] * MANY}),
        ("pod", {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z"}] * MANY}),
        ("service", {"ipFamilies": ["IPv4"] * MANY}),
        ("claim for devices", {"devices": {"constraints": [{"requests": ["r"] * MANY, "matchAttribute": "a.b/c"}]}}),
    ],
)
async def test_what_is_wrong_many_times_is_told_some_times(api: InMemory, kind: str, spec: dict[str, Any]) -> None:
    body = {"metadata": {"name": "a"}, "spec": {**SPECS[kind], **spec}}
    answer = await api.post(f"{PATHS[kind]}?dryRun=All", body)
    assert answer.status in (201, 422), answer.json
    assert len(answer.warnings) <= 100
    assert len((answer.json.get("details") or {}).get("causes", ())) <= 100
