"""kubectl with workload kinds of a control plane: a Deployment is applied, shown, scaled, changed and waited for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kubectl import Kubectl
from server_process import ServerProcess

MANIFEST = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: c, image: "nginx:1.0", ports: [{containerPort: 80}], resources: {limits: {cpu: 500m}}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
"""
DONE = {
    "observedGeneration": 3,
    "replicas": 3,
    "updatedReplicas": 3,
    "readyReplicas": 3,
    "availableReplicas": 3,
    "conditions": [{"type": "Available", "status": "True"}, {"type": "Progressing", "status": "True"}],
}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    program = Path(__file__).parent / "roles" / "server.py"
    with ServerProcess(tmp_path_factory.mktemp("workloads"), program, "memory://") as server:
        yield server


@pytest.mark.slow
def test_a_deployment(kubectl_at: Callable[[ServerProcess], Kubectl], plane: ServerProcess) -> None:
    kubectl = kubectl_at(plane)
    there = ("-n", "default")
    kubectl("apply", "-f", "-", *there, stdin=MANIFEST)
    again = kubectl("apply", "-f", "-", *there, stdin=MANIFEST).out
    assert again.count("unchanged") == 2
    header, row = kubectl("get", "deploy", "web", "-o", "wide", *there).rows
    assert header == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE", "CONTAINERS", "IMAGES", "SELECTOR"]
    assert (row[:4], row[5:]) == (["web", "0/2", "0", "0"], ["c", "nginx:1.0", "app=web"])
    shown = kubectl("describe", "deploy", "web", *there).out
    assert "RollingUpdateStrategy:  25% max unavailable, 25% max surge" in shown
    kubectl("scale", "deploy", "web", "--replicas=3", *there)
    kubectl("set", "image", "deploy/web", "c=nginx:2.0", *there)
    kubectl("get", "--raw", "/apis/apps/v1/namespaces/default/deployments/web/status")
    tree = json.loads(kubectl("get", "deploy", "web", "-o", "json", *there).out)
    assert (tree["spec"]["replicas"], tree["metadata"]["generation"]) == (3, 3)
    tree["status"] = DONE
    path = "/apis/apps/v1/namespaces/default/deployments/web/status"
    kubectl("replace", "--raw", path, "-f", "-", stdin=json.dumps(tree))
    assert "successfully rolled out" in kubectl("rollout", "status", "deploy/web", *there).out
    kubectl("wait", "--for=condition=Available", "deploy/web", *there)
    kubectl("delete", "-f", "-", *there, stdin=MANIFEST)
