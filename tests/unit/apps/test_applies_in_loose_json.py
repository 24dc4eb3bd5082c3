"""Applies of Kubernetes' kinds in JSON with commas too many, which is YAML: as people write them in Go."""

from __future__ import annotations

from typing import Any

import pytest

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.testing import Answer, InMemory, VirtualClock

APPLY = {"content-type": "application/apply-patch+yaml"}
MERGE = {"content-type": "application/merge-patch+json"}
STRATEGIC = {"content-type": "application/strategic-merge-patch+json"}
DEPLOYMENT = "/apis/apps/v1/namespaces/default/deployments/d"
POD = "/api/v1/namespaces/default/pods/p"
SERVICE = "/api/v1/namespaces/default/services/s"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/w"


@pytest.fixture
async def api() -> Any:
    clock = VirtualClock()
    async with InMemory(ControlPlane(), clock=clock) as server:
        await clock.run(1)
        yield server


async def apply(api: InMemory, path: str, body: str, manager: str = "apply_test", **query: str) -> Answer:
    more = "".join(f"&{key}={value}" for key, value in query.items())
    return await api.request("PATCH", f"{path}?fieldManager={manager}{more}", body.encode(), APPLY)


def deployment(spec: str, *containers: str) -> str:
    listed = ", ".join(f'{{"name": "{one}", "image": "example.com/app:1",}}' for one in containers)
    return f"""{{
      "apiVersion": "apps/v1", "kind": "Deployment",
      "metadata": {{"name": "d", "labels": {{"app": "a",}},}},
      "spec": {{{spec}
        "selector": {{"matchLabels": {{"app": "a"}}}},
        "template": {{"metadata": {{"labels": {{"app": "a",}}}}, "spec": {{"containers": [{listed},]}},}},
      }},
    }}"""


def names(answer: Answer) -> list[str]:
    return [one["name"] for one in answer.json["spec"]["template"]["spec"]["containers"]]


@pytest.mark.anyio
async def test_an_empty_struct_is_there(api: InMemory) -> None:
    body = """{
      "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p",},
      "spec": {"containers": [{"name": "c", "image": "i",},], "volumes": [{"name": "v", "emptyDir": {},},],},
    }"""
    made = await apply(api, POD, body)
    assert made.status == 201, made.json
    assert made.json["spec"]["volumes"][0] == {"name": "v", "emptyDir": {}}
    again = await apply(api, POD, body.replace('"emptyDir": {}', '"emptyDir": null'), "other")
    assert (again.status, "volumes[name=" in again.json["message"]) == (409, True), "null is another value"
    assert (await api.get(POD)).json["spec"]["volumes"][0] == {"name": "v", "emptyDir": {}}


@pytest.mark.anyio
async def test_many_updates_are_grouped_and_the_apply_is_not(api: InMemory) -> None:
    body = """{
      "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
      "metadata": {"name": "w",},
      "webhooks": [{
        "name": "w.example.com", "timeoutSeconds": 1, "sideEffects": "None", "admissionReviewVersions": ["v1",],
        "clientConfig": {"service": {"namespace": "n", "name": "s", "path": "/",}},
        "rules": [{"operations": ["CREATE"], "apiGroups": ["none.io"], "apiVersions": ["v1"], "resources": ["x"],},],
      },],
    }"""
    assert (await apply(api, HOOKS, body)).status == 201
    for number in range(20):
        patch = {"metadata": {"labels": {f"n{number}": "v"}}}
        assert (await api.request("PATCH", f"{HOOKS}?fieldManager=updater{number:02}", patch, MERGE)).status == 200
    owners = (await api.get(HOOKS)).json["metadata"]["managedFields"]
    assert [one["manager"] for one in owners[:2]] == ["apply_test", "ancient-changes"]
    assert len(owners) == 11


@pytest.mark.anyio
async def test_a_field_is_handed_over_to_a_controller(api: InMemory) -> None:
    assert (await apply(api, DEPLOYMENT, deployment('"replicas": 2,', "c"))).status == 201
    scaled = await api.request("PATCH", f"{DEPLOYMENT}?fieldManager=scaler", {"spec": {"replicas": 5}}, MERGE)
    assert scaled.status == 200
    assert (await apply(api, DEPLOYMENT, deployment('"replicas": 2,', "c"))).status == 409
    kept = await apply(api, DEPLOYMENT, deployment("", "c"))
    assert (kept.status, kept.json["spec"]["replicas"]) == (200, 5)


@pytest.mark.anyio
async def test_an_item_that_a_controller_has_added_to_is_removed_with_its_applier(api: InMemory) -> None:
    assert names(await apply(api, DEPLOYMENT, deployment("", "c", "sidecar"))) == ["c", "sidecar"]
    more = {"spec": {"template": {"spec": {"containers": [{"name": "sidecar", "env": [{"name": "A", "value": "B"}]}]}}}}
    assert (await api.request("PATCH", f"{DEPLOYMENT}?fieldManager=controller", more, STRATEGIC)).status == 200
    removed = await apply(api, DEPLOYMENT, deployment("", "c"))
    assert removed.status == 200, removed.json
    assert names(removed) == ["c"]


@pytest.mark.anyio
async def test_an_atomic_field_is_applied_as_a_whole(api: InMemory) -> None:
    def service(selector: str) -> str:
        return f"""{{
          "apiVersion": "v1", "kind": "Service", "metadata": {{"name": "s",}},
          "spec": {{"selector": {{{selector}}}, "ports": [{{"port": 80, "protocol": "TCP",}},],}},
        }}"""

    assert (await apply(api, SERVICE, service('"app": "a", "tier": "b",'))).status == 201
    other = await apply(api, SERVICE, service('"app": "c",'), "other")
    assert (other.status, "conflict" in other.json["message"]) == (409, True)
    forced = await apply(api, SERVICE, service('"app": "c",'), "other", force="true")
    assert (forced.status, forced.json["spec"]["selector"]) == (200, {"app": "c"})
