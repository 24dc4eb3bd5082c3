"""helm, if there is one, on ``oarlock up``: a chart with definitions, objects of them, workloads and hooks.

Hooks are objects that are done when they are there: nothing runs a Job here, so that helm would wait for one.
The helm is the one on the PATH, or the one OARLOCK_HELM names; without it these tests are skipped.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from definitions import definition
from helm import Helm, helm_at
from server_process import ServerProcess

CONFIG_MAPS = "/api/v1/namespaces/{}/configmaps"
OBJECTS = """\
{{ if not (.Capabilities.APIVersions.Has "quays.example.com/v1/Quay") }}{{ fail "there are no quays" }}{{ end }}
apiVersion: quays.example.com/v1
kind: Quay
metadata: {name: "{{ .Release.Name }}"}
spec: {depth: {{ .Values.depth }}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: "{{ .Release.Name }}"}
spec:
  replicas: {{ .Values.depth }}
  selector: {matchLabels: {app: quay}}
  template:
    metadata: {labels: {app: quay}}
    spec: {containers: [{name: crane, image: crane}]}
---
apiVersion: v1
kind: Service
metadata: {name: "{{ .Release.Name }}"}
spec: {selector: {app: quay}, ports: [{port: 80}]}
"""
HOOKS = """\
{{ range $hook := list "pre-install" "post-upgrade" "pre-delete" }}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ $hook }}
  annotations: {helm.sh/hook: {{ $hook }}, helm.sh/hook-delete-policy: before-hook-creation}
data: {depth: "{{ $.Values.depth }}"}
---
{{ end }}
"""


@pytest.fixture
def chart(tmp_path: Path) -> str:
    folder = tmp_path / "quay"
    for name in ("crds", "templates"):
        (folder / name).mkdir(parents=True)
    (folder / "Chart.yaml").write_text('apiVersion: v2\nname: quay\nversion: 0.1.0\nkubeVersion: ">=1.30.0-0"\n')
    (folder / "values.yaml").write_text("depth: 3\n")
    quays = definition("quays.example.com", "Quay", {"depth": {"type": "integer"}})
    (folder / "crds" / "quays.yaml").write_text(yaml.safe_dump(quays))
    (folder / "templates" / "objects.yaml").write_text(OBJECTS)
    (folder / "templates" / "hooks.yaml").write_text(HOOKS)
    return str(folder)


@pytest.fixture
def helm(helm_program: str, plane: ServerProcess, namespace: str, tmp_path: Path) -> Helm:
    return helm_at(helm_program, plane.kubeconfig, namespace, tmp_path)


@pytest.mark.slow
def test_a_chart_with_definitions_and_hooks(
    helm: Helm, chart: str, plane: ServerProcess, namespace: str, api: Callable[[ServerProcess], Any]
) -> None:
    call, quay = api(plane), f"/apis/quays.example.com/v1/namespaces/{namespace}/quays/quay"

    def hooks() -> dict[str, str]:
        items = call("GET", CONFIG_MAPS.format(namespace))["items"]
        return {one["metadata"]["name"]: one["data"]["depth"] for one in items if "depth" in one["data"]}

    helm("install", "quay", chart, "--create-namespace")
    assert call("GET", quay)["spec"] == {"depth": 3}
    assert hooks() == {"pre-install": "3"}
    helm("upgrade", "quay", chart, "--set", "depth=5")
    deployment = call("GET", f"/apis/apps/v1/namespaces/{namespace}/deployments/quay")
    assert (call("GET", quay)["spec"]["depth"], deployment["spec"]["replicas"]) == (5, 5)
    assert hooks() == {"pre-install": "3", "post-upgrade": "5"}
    helm("rollback", "quay", "1")
    assert call("GET", quay)["spec"] == {"depth": 3}
    assert [one["revision"] for one in json.loads(helm("history", "quay", "--output", "json"))] == [1, 2, 3]
    helm("uninstall", "quay", "--wait", "--timeout", "60s")
    assert hooks().keys() == {"pre-install", "post-upgrade", "pre-delete"}
    assert call("GET", f"/apis/apps/v1/namespaces/{namespace}/deployments")["items"] == []
    assert call("GET", quay.removesuffix("/quay"))["items"] == []
