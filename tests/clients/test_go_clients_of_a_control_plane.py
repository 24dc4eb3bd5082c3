"""kubectl of today, client-go's clientset and controller-runtime with a control plane: what they send is protobuf."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kubectl import Kubectl, Running
from server_process import ControlPlaneProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(720)]

PROTOBUF = "application/vnd.kubernetes.protobuf"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlaneProcess]:
    with ControlPlaneProcess(tmp_path_factory.mktemp("plane")) as server:
        yield server


@pytest.fixture(scope="module")
def kubectl(go_programs: Path, plane: ControlPlaneProcess, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    """kubectl of the newest Kubernetes, as its own modules have it."""
    return Kubectl(str(go_programs / "kubectl"), plane.kubeconfig, tmp_path_factory.mktemp("home"))


@contextmanager
def lines(*command: str) -> Iterator[tuple[Running, subprocess.Popen[str]]]:
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    running = Running(process)
    try:
        yield running, process
    finally:
        process.kill()
        process.wait()
        running.close()


def test_kubectl_creates(kubectl: Kubectl, namespace: str) -> None:
    assert kubectl.version >= (1, 37)
    here = ("-n", namespace)
    commands = [
        ("ns", namespace),
        ("sa", "worker", *here),
        ("role", "reader", "--verb=get,list", "--resource=configmaps", *here),
        ("rolebinding", "readers", "--role=reader", f"--serviceaccount={namespace}:worker", *here),
        ("clusterrole", namespace, "--verb=get", "--resource=secrets"),
        ("clusterrolebinding", namespace, f"--clusterrole={namespace}", "--user=ann"),
        ("configmap", "settings", "--from-literal=a=b", *here),
        ("secret", "generic", "password", "--from-literal=a=b", *here),
        ("quota", "few", "--hard=pods=5", *here),
        ("deployment", "web", "--image=nginx", *here),
        ("job", "once", "--image=busybox", *here),
        ("cronjob", "often", "--image=busybox", "--schedule=* * * * *", *here),
        ("service", "clusterip", "web", "--tcp=80", *here),
        ("poddisruptionbudget", "web", "--selector=app=web", "--min-available=1", *here),
        ("priorityclass", namespace, "--value=5"),
        ("ingress", "web", "--rule=example.com/=web:80", *here),
    ]
    for command in commands:
        assert kubectl("create", *command).out.endswith(" created\n")
    assert kubectl("create", "token", "worker", *here).out.count(".") == 2
    assert "already exists" in kubectl.fails("create", "ns", namespace)
    shown = json.loads(kubectl("get", "role/reader", "rolebinding/readers", "cm/settings", *here, "-o", "json").out)
    role, binding, settings = shown["items"]
    assert role["rules"] == [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "worker", "namespace": namespace}]
    assert settings["data"] == {"a": "b"}
    with kubectl.running("rollout", "status", "deployment/web", *here) as status:
        status.line_with("Waiting for deployment")
    assert kubectl("rollout", "restart", "deployment/web", *here).out == "deployment.apps/web restarted\n"
    as_worker = f"--as=system:serviceaccount:{namespace}:worker"
    assert kubectl("auth", "can-i", "get", "configmaps", *here, as_worker).out == "yes\n"
    assert kubectl.run("auth", "can-i", "get", "secrets", *here, as_worker).out == "no\n"
    assert ["configmaps", "[]", "[]", "[get list]"] in kubectl("auth", "can-i", "--list", *here, as_worker).rows
    assert "is forbidden: User" in kubectl.fails("create", "configmap", "other", *here, as_worker)


def test_kubectl_looks(kubectl: Kubectl, namespace: str) -> None:
    assert ["Username", "admin"] in kubectl("auth", "whoami").rows
    names = {row[0] for row in kubectl("api-resources").rows}
    assert {"configmaps", "customresourcedefinitions", "leases", "roles"} <= names
    assert "holderIdentity\t<string>" in kubectl("explain", "lease.spec", "--recursive").out
    assert "<map[string]string>" in kubectl("explain", "configmap.data").out
    assert "spec\t<PodSpec>" in kubectl("explain", "pods").out
    assert "PodSpec is a description of a pod." in kubectl("explain", "deployment.spec.template.spec").out
    assert "SCTP" in kubectl("explain", "pod.spec.containers.ports.protocol").out
    kubectl("create", "ns", namespace)
    here = ("-n", namespace)
    kubectl("wait", "--for=jsonpath={.status.phase}=Active", f"ns/{namespace}", "--timeout=20s")
    with kubectl.running("get", "cm", *here, "-w", "--output-watch-events") as watch:
        tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "1"}}
        kubectl("apply", *here, "-f", "-", stdin=tree)
        watch.line_with("ADDED", " a ")
        assert kubectl("apply", *here, "-f", "-", stdin={**tree, "data": {"a": "2"}}).out == "configmap/a configured\n"
        watch.line_with("MODIFIED", " a ")
        applied = kubectl("apply", *here, "--server-side", "--force-conflicts", "-f", "-", stdin=tree)
        assert applied.out == "configmap/a serverside-applied\n"
        watch.line_with("MODIFIED", " a ")
        kubectl("delete", "cm", "a", *here, "--cascade=foreground", "--grace-period=0")
        watch.line_with("DELETED", " a ")
    assert kubectl("events", *here).err.startswith("No events found")
    kubectl("delete", "ns", namespace, "--timeout=60s")
    assert "NotFound" in kubectl.fails("get", "ns", namespace)


def test_a_clientset_in_protobuf(clients: Path, plane: ControlPlaneProcess, namespace: str) -> None:
    with lines(str(clients), "-kubeconfig", str(plane.kubeconfig), "-namespace", namespace, "kinds") as (running, _):
        told = [json.loads(running.line())]
        while told[-1]["event"] != "done":
            told.append(json.loads(running.line()))
    requests = [one for one in told if one["event"] == "request"]
    assert len(requests) > 15
    assert {one["got"].partition(";")[0] for one in requests} == {PROTOBUF}
    assert {one.get("sent") for one in requests} == {PROTOBUF, None}
    found = {one["event"]: (one.get("name"), one.get("names")) for one in told if one["event"] != "request"}
    assert found == {
        "add": ("1", None),
        "update": ("2", None),
        "delete": ("2", None),
        "stale": ("Conflict", None),
        "ending": ("true [0 255] kinds", None),
        "roles": (None, ["reader", "x"]),
        "event": ("was seen", ["2027-01-15T08:00:00.000500Z"]),
        "whoami": ("admin", ["system:masters", "system:authenticated"]),
        "before": ("false", ["x", "y"]),
        "after": ("true", ["x", "y"]),
        "scaled": ("0 2", ["25%", "app=web"]),
        "bound twice": ("Conflict", None),
        "on the node": (None, ["web", "Pending"]),
        "evicted": ("NotFound", None),
        "token": (f"system:serviceaccount:{namespace}:worker", ["true", "1", "true"]),
        "done": (None, None),
    }


def test_a_manager_of_controller_runtime(
    go_programs: Path, plane: ControlPlaneProcess, api: Callable[[ControlPlaneProcess], Any], namespace: str
) -> None:
    call, here = api(plane), f"/api/v1/namespaces/{namespace}"
    call("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    command = (str(go_programs / "manager"), "-config", str(plane.kubeconfig), "-namespace", namespace)
    with lines(*command) as (first, process):
        first.line_with("leads")
        config = {"metadata": {"name": "a", "labels": {"copy": "yes"}}, "data": {"k": "v"}}
        call("POST", f"{here}/configmaps", config)
        first.line_with("created", '"a"')
        secret = call("GET", f"{here}/secrets/a")
        assert secret["data"] == {"k": "dg=="}
        (owner,) = secret["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["controller"]) == ("ConfigMap", True)
        lease = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/copier"
        holder = call("GET", lease)["spec"]["holderIdentity"]
        with lines(*command) as (second, _):
            process.send_signal(signal.SIGTERM)
            second.line_with("leads")
            spec = call("GET", lease)["spec"]
            assert spec["holderIdentity"] != holder
            assert spec["leaseTransitions"] >= 1
            call.merge(f"{here}/configmaps/a", {"data": {"k": "w"}})
            second.line_with("updated", '"a"')
            call("DELETE", f"{here}/configmaps/a")
            second.line_with("absent", '"a"')
