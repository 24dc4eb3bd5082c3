"""kubectl with workloads that run on simulated nodes: rolled out, waited for, read, entered, and moved off a node."""

from __future__ import annotations

import re
import threading
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from kubectl import Kubectl
from server_process import ControlPlaneProcess, ServerProcess
from until import until

MANIFEST = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
      annotations: {sim/log: "ready to serve", sim/cpu: 250m, sim/memory: 64Mi}
    spec: {containers: [{name: c, image: "web:1"}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  template:
    spec: {restartPolicy: Never, containers: [{name: c, image: "once:1"}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: web}}}
"""


LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
NODES = """\
nodes: [{{name: node, count: 3}}]
behaviours:
- selector: {{matchLabels: {{app: web}}}}
  ports: {{8080: {}}}
"""


class _Hello(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"x" * 1_000_000)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged."""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("cluster")
    nodes = folder / "nodes.yaml"
    with ThreadingHTTPServer(("127.0.0.1", 0), _Hello) as program:
        threading.Thread(target=program.serve_forever, daemon=True).start()
        nodes.write_text(NODES.format(program.server_port))
        with ControlPlaneProcess(folder, "memory://", ["--nodes", str(nodes)]) as server:
            yield server
        program.shutdown()


@pytest.mark.slow
def test_a_server_that_is_killed_goes_on_and_makes_no_pod_twice(
    api: Callable[[ServerProcess], Any], tmp_path: Path
) -> None:
    pods, replicas = "/api/v1/namespaces/default/pods", 12
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "a"}}, "template": template}
    with ControlPlaneProcess(tmp_path, options=["--nodes", "1"]) as server:
        call = api(server)
        call("POST", "/apis/apps/v1/namespaces/default/deployments", {"metadata": {"name": "a"}, "spec": spec})
        until(lambda: len(call("GET", pods)["items"]) >= 3)
        seen = {pod["metadata"]["uid"] for pod in call("GET", pods)["items"]}
        server.restart()
        call = api(server)
        for lease in call("GET", LEASES)["items"]:  # of the server that was killed: they would end in 15 seconds
            call("DELETE", f"{LEASES}/{lease['metadata']['name']}")
        path = "/apis/apps/v1/namespaces/default/deployments/a"
        until(lambda: call("GET", path).get("status", {}).get("readyReplicas") == replicas)
        found = {pod["metadata"]["uid"] for pod in call("GET", pods)["items"]}
    assert len(found) == replicas
    assert seen <= found


@pytest.mark.slow
@pytest.mark.kubectl("1.31")
def test_a_deployment_is_rolled_out_read_entered_and_moved(
    kubectl_at: Callable[[ServerProcess], Kubectl], plane: ServerProcess
) -> None:
    kubectl = kubectl_at(plane)
    kubectl("apply", "-f", "-", stdin=MANIFEST)
    assert "successfully rolled out" in kubectl("rollout", "status", "deploy/web").out
    kubectl("wait", "--for=condition=Complete", "job/once")
    assert kubectl("logs", "deploy/web").out == "ready to serve\n"
    pod = kubectl("get", "pods", "-l", "app=web", "-o", "name").lines[0].removeprefix("pod/")
    assert kubectl("exec", pod, "--", "hostname").out == f"{pod}\n"
    _check_port_forward(kubectl, pod)
    used = kubectl("top", "pod", "-l", "app=web", "--no-headers").lines
    assert [line.split()[1:] for line in used] == [["250m", "64Mi"]] * 3
    assert len(kubectl("top", "nodes", "--no-headers").lines) == 3
    node = kubectl("get", "pod", pod, "-o", "jsonpath={.spec.nodeName}").out
    kubectl("drain", node, "--ignore-daemonsets", "--force")
    kubectl("rollout", "status", "deploy/web")
    placed = kubectl("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].spec.nodeName}").out.split()
    assert len(placed) == 3
    assert node not in placed
    kubectl("uncordon", node)
    kubectl("set", "image", "deploy/web", "c=web:2")
    kubectl("rollout", "status", "deploy/web")
    kubectl("rollout", "undo", "deploy/web")
    kubectl("rollout", "status", "deploy/web")
    assert kubectl("get", "deploy", "web", "-o", "jsonpath={.spec.template.spec.containers[0].image}").out == "web:1"
    assert "REVISION" in kubectl("rollout", "history", "deploy/web").out
    kubectl("delete", "-f", "-", stdin=MANIFEST)
    kubectl("wait", "--for=delete", "pods", "-l", "app=web")


def _check_port_forward(kubectl: Kubectl, pod: str) -> None:
    with kubectl.running("port-forward", pod, ":8080") as forwarding:
        shown = forwarding.line()
        port = int(re.findall(r":(\d+) -> 8080", shown)[0])
        for _ in range(2):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=60) as answer:
                assert answer.read() == b"x" * 1_000_000
