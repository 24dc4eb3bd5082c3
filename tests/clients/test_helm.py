"""helm, if there is one: a chart of declared resources is installed, upgraded, rolled back and taken away again.

helm 3 makes merge patches of three versions of an object, helm 4 applies; both keep their releases in secrets, which
they send as protobuf. The helm is the one on the PATH, or the one OARLOCK_HELM names.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helm import Helm, helm_at
from server_process import ServerProcess

MOORINGS = "/apis/moorings.example.com/v1/namespaces/{}/moorings"
TEMPLATE = """\
apiVersion: moorings.example.com/v1
kind: Mooring
metadata:
  name: {{ .Release.Name }}
  labels: {app: quay}
spec:
  depth: {{ .Values.depth }}
  {{ .Values.extra }}
"""


@pytest.fixture(scope="session")
def major(helm_program: str) -> int:
    said = subprocess.run([helm_program, "version", "--short"], capture_output=True, text=True, timeout=60, check=True)
    found = re.match(r"v(\d+)", said.stdout)
    assert found is not None, said.stdout
    return int(found[1])


@pytest.fixture
def chart(tmp_path: Path) -> str:
    folder = tmp_path / "quay"
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: quay\nversion: 0.1.0\n")
    (folder / "values.yaml").write_text("depth: 3\nextra: ''\n")
    (folder / "templates" / "mooring.yaml").write_text(TEMPLATE)
    return str(folder)


@pytest.fixture
def helm(helm_program: str, moorings: ServerProcess, namespace: str, tmp_path: Path) -> Helm:
    """Runs helm in the test's namespace."""
    return helm_at(helm_program, moorings.kubeconfig, namespace, tmp_path)


def test_a_release_comes_changes_and_goes(
    helm: Helm,
    chart: str,
    major: int,
    moorings: ServerProcess,
    namespace: str,
    api: Callable[[ServerProcess], Any],
) -> None:
    call, path = api(moorings), MOORINGS.format(namespace)

    def depth() -> int:
        return int(call("GET", f"{path}/quay")["spec"]["depth"])

    helm("install", "quay", chart, "--wait", "--timeout", "30s")
    entries = call("GET", f"{path}/quay")["metadata"]["managedFields"]
    assert [(one["manager"], one["operation"]) for one in entries] == [("helm", "Update" if major == 3 else "Apply")]
    helm("upgrade", "quay", chart, "--set", "depth=5", "--wait", "--timeout", "30s")
    assert depth() == 5
    # somebody else's label stays, and so does a change of theirs unless helm is told to take it back
    call.merge(f"{path}/quay", {"metadata": {"labels": {"mine": "yes"}}, "spec": {"depth": 9}})
    if major == 3:
        helm("upgrade", "quay", chart, "--set", "depth=6")
    else:
        told = helm("upgrade", "quay", chart, "--set", "depth=6", fails=True)
        assert "Apply failed with 1 conflict: conflict with" in told
        assert ".spec.depth" in told
        helm("upgrade", "quay", chart, "--set", "depth=6", "--force-conflicts")
    assert depth() == 6
    assert call("GET", f"{path}/quay")["metadata"]["labels"]["mine"] == "yes"
    helm("rollback", "quay", "1")
    assert depth() == 3
    history = json.loads(helm("history", "quay", "--output", "json"))
    assert history[-1]["status"] == "deployed"
    assert history[-1]["description"] == "Rollback to 1"
    helm("uninstall", "quay", "--wait", "--timeout", "30s")
    assert call("GET", path)["items"] == []
    assert call("GET", f"/api/v1/namespaces/{namespace}/secrets")["items"] == []


def test_a_chart_with_a_mistake(helm: Helm, chart: str, major: int) -> None:
    told = helm("install", "quay", chart, "--set", "extra=hold: {kind: rope}", fails=True)
    assert 'spec.hold.kind: Unsupported value: "rope"' in told
    if major > 3:  # helm 3 lets the server ignore what it doesn't know, with a warning
        told = helm("install", "other", chart, "--set", "extra=detph: 4", fails=True)
        assert ".spec.detph: field not declared in schema" in told


def test_what_would_be_installed_is_asked_of_the_server(
    helm: Helm, chart: str, moorings: ServerProcess, namespace: str, api: Callable[[ServerProcess], Any]
) -> None:
    assert "kind: Mooring" in helm("install", "quay", chart, "--dry-run=server")
    assert api(moorings)("GET", MOORINGS.format(namespace))["items"] == []
