"""kubectl on ``oarlock up``: its commands for namespaces, accounts, roles, quotas, workloads and definitions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from definitions import BERTHS, bundle
from kubectl import Kubectl
from server_process import ServerProcess

KubectlAt = Any


@pytest.fixture
def kubectl(kubectl_at: KubectlAt, plane: ServerProcess) -> Kubectl:
    found: Kubectl = kubectl_at(plane)
    return found


@pytest.mark.slow
def test_what_a_namespace_is_filled_with_goes_with_it(kubectl: Kubectl, namespace: str) -> None:
    kubectl("create", "namespace", namespace)
    here = ("--namespace", namespace)
    kubectl("create", "serviceaccount", "robot", *here)
    kubectl("create", "role", "reader", "--verb=get,list", "--resource=configmaps", *here)
    kubectl("create", "rolebinding", "robots", "--role=reader", f"--serviceaccount={namespace}:robot", *here)
    kubectl("create", "configmap", "sea", "--from-literal=a=b", *here)
    kubectl("create", "deployment", "web", "--image=nginx", *here)
    kubectl("create", "quota", "few", "--hard=configmaps=9", *here)
    robot = f"system:serviceaccount:{namespace}:robot"
    assert kubectl("get", "configmap", "sea", "-o", "jsonpath={.data.a}", f"--as={robot}", *here).out == "b"
    assert "cannot list resource" in kubectl.fails("get", "secrets", f"--as={robot}", *here)
    rows = kubectl("get", "deployments", *here).rows
    assert rows[0][:2] == ["NAME", "READY"]
    assert rows[1][:2] == ["web", "0/1"]
    kubectl("scale", "deployment", "web", "--replicas=3", *here)
    assert "0 of 3 updated replicas are available" in rollout(kubectl, "web", *here)
    kubectl("delete", "namespace", namespace, "--timeout=60s")
    assert "NotFound" in kubectl.fails("get", "namespace", namespace)


def rollout(kubectl: Kubectl, name: str, *here: str) -> str:
    """What ``rollout status`` says first, of what a controller would bring about."""
    path = f"/apis/apps/v1/namespaces/{here[1]}/deployments/{name}/status"
    found = json.loads(kubectl("get", "--raw", path).out)
    found["status"] = {"observedGeneration": found["metadata"]["generation"], "replicas": 3, "updatedReplicas": 3}
    kubectl("replace", "--raw", path, "-f", "-", stdin=found)
    return kubectl.run("rollout", "status", f"deployment/{name}", "--timeout=1s", *here).out


@pytest.mark.slow
def test_waiting_and_cascades(kubectl: Kubectl, namespace: str) -> None:
    kubectl("create", "namespace", namespace)
    here = ("--namespace", namespace)
    kubectl("create", "configmap", "owner", *here)
    uid = kubectl("get", "configmap", "owner", "-o", "jsonpath={.metadata.uid}", *here).out
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid, "blockOwnerDeletion": True}
    for name in ("kept", "gone"):
        metadata = {"name": name, "namespace": namespace, "ownerReferences": [reference]}
        kubectl("apply", "-f", "-", stdin={"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    kubectl(
        "patch",
        "configmap",
        "kept",
        "--type=json",
        "-p",
        '[{"op": "remove", "path": "/metadata/ownerReferences"}]',
        *here,
    )
    kubectl("delete", "configmap", "owner", "--cascade=foreground", "--timeout=60s", *here)
    assert "NotFound" in kubectl.fails("get", "configmap", "gone", *here)
    assert kubectl("get", "configmaps", "kept", "-o", "name", *here).lines == ["configmap/kept"]


@pytest.mark.slow
def test_what_there_is_and_what_it_means(kubectl: Kubectl) -> None:
    names = {line.split()[0] for line in kubectl("api-resources", "--no-headers").lines}
    assert {"pods", "deployments", "customresourcedefinitions", "roles", "leases"} <= names
    assert "replicas" in kubectl("explain", "deployment.spec").out
    versions = json.loads(kubectl("version", "-o", "json").out)
    assert versions["serverVersion"]["gitVersion"].startswith("v1.36.")
    assert "is running at" in kubectl("cluster-info").out


@pytest.mark.slow
def test_a_large_bundle_of_definitions_is_applied(kubectl: Kubectl, namespace: str) -> None:
    parts = bundle(f"{namespace[-6:]}.example.com", kinds=8, fields=72)
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": parts})
    assert len(text) > 300_000
    for _ in range(2):  # the second time nothing changes
        kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text)
    kubectl(
        "wait", "--for=condition=Established", "--timeout=60s", *(f"crd/{one['metadata']['name']}" for one in parts)
    )
    group = parts[0]["spec"]["group"]
    one = {"apiVersion": f"{group}/v1", "kind": "Part0", "metadata": {"name": "a", "namespace": "default"}}
    kubectl("apply", "-f", "-", stdin={**one, "spec": {"field1": "x"}})
    assert kubectl("get", f"part0s.{group}", "-o", "jsonpath={.items[*].spec.field1}").out == "x"
    kubectl("delete", *(f"crd/{one['metadata']['name']}" for one in parts), "--timeout=60s")


@pytest.mark.slow
def test_a_definition_by_client_side_apply(kubectl: Kubectl, namespace: str) -> None:
    kubectl("create", "namespace", namespace)
    kubectl("apply", "-f", "-", stdin=BERTHS)
    kubectl("wait", "--for=condition=Established", "--timeout=60s", f"crd/{BERTHS['metadata']['name']}")
    berth = {"apiVersion": "harbour.example.com/v1", "kind": "Berth", "metadata": {"name": "b", "namespace": namespace}}
    kubectl("apply", "-f", "-", stdin={**berth, "spec": {"depth": 2}})
    assert "should be greater than or equal to 1" in kubectl.fails(
        "apply", "-f", "-", stdin={**berth, "spec": {"depth": 0}}
    )
