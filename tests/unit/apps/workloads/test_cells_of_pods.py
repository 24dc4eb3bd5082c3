"""The READY, STATUS and RESTARTS of a pod, as Kubernetes' printer of pods tells them."""

from __future__ import annotations

from typing import Any

import pytest

from oarlock.apps.kinds.core.pod import pod_row

Tree = dict[str, Any]
NOW = 1_700_000_000.0
RUNS: Tree = {"running": {}}
DONE: Tree = {"terminated": {"exitCode": 0, "reason": "Completed"}}
FAILED: Tree = {"terminated": {"exitCode": 2, "reason": "Error"}}
READY = {"type": "Ready", "status": "True"}
SIDECAR = {"name": "s", "restartPolicy": "Always"}


def state(name: str, state: Tree, **others: Any) -> Tree:
    return {"name": name, "state": state, **others}


def pod(phase: str, containers: list[Tree], *, inits: list[Tree] | None = None, **others: Any) -> Tree:
    spec: Tree = {"containers": [{"name": c["name"]} for c in containers], **others.pop("spec", {})}
    status = {"phase": phase, "containerStatuses": containers, "initContainerStatuses": inits or [], **others}
    return {"metadata": {"creationTimestamp": "2023-11-14T22:12:20Z"}, "spec": spec, "status": status}


GATED = [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]
STOPPED: Tree = {"terminated": {"exitCode": 137, "signal": 9}}
LAST = {"terminated": {"finishedAt": "2023-11-14T22:12:20Z"}}
ROWS = {
    "a pod that runs": (pod("Running", [state("a", RUNS, ready=True)], conditions=[READY]), "1/1", "Running", "0"),
    "a gate": (
        pod("Pending", [], conditions=GATED, spec={"containers": [{"name": "a"}]}),
        "0/1",
        "SchedulingGated",
        "0",
    ),
    "a container that waits": (
        pod("Running", [state("a", {"waiting": {"reason": "CrashLoopBackOff"}}, restartCount=3, lastState=LAST)]),
        "0/1",
        "CrashLoopBackOff",
        "3 (60s ago)",
    ),
    "a signal": (pod("Failed", [state("a", STOPPED)]), "0/1", "Signal:9", "0"),
    "one of two has ended, the pod is ready": (
        pod("Running", [state("a", DONE), state("b", RUNS, ready=True)], conditions=[READY]),
        "1/2",
        "Running",
        "0",
    ),
    "one of two has ended, the pod isn't ready": (
        pod("Running", [state("a", DONE), state("b", RUNS, ready=True)]),
        "1/2",
        "NotReady",
        "0",
    ),
    "one has failed, the first is complete": (
        pod("Running", [state("a", DONE), state("b", FAILED)]),
        "0/2",
        "Error",
        "0",
    ),
    "the second init container": (
        pod(
            "Pending",
            [state("a", {"waiting": {"reason": "PodInitializing"}})],
            inits=[state("i", DONE), state("j", RUNS)],
            spec={"initContainers": [{"name": "i"}, {"name": "j"}]},
        ),
        "0/1",
        "Init:1/2",
        "0",
    ),
    "a sidecar that has started": (
        pod(
            "Running",
            [state("a", RUNS, ready=True)],
            inits=[state("i", DONE, restartCount=4), state("s", RUNS, started=True, ready=True, restartCount=1)],
            spec={"initContainers": [{"name": "i"}, SIDECAR]},
            conditions=[READY, {"type": "Initialized", "status": "True"}],
        ),
        "2/2",
        "Running",
        "1",
    ),
    "a sidecar that fails later": (
        pod(
            "Running",
            [state("a", RUNS, ready=True)],
            inits=[state("s", {"waiting": {"reason": "CrashLoopBackOff"}}, restartCount=2)],
            spec={"initContainers": [SIDECAR]},
            conditions=[READY, {"type": "Initialized", "status": "True"}],
        ),
        "1/2",
        "Init:CrashLoopBackOff",
        "2",
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_the_cells_of_a_pod(name: str) -> None:
    tree, *cells = ROWS[name]
    tree["spec"]["containers"] = tree["spec"]["containers"] or [{"name": "a"}]
    assert pod_row(tree, NOW)[:3] == cells


def test_a_pod_that_is_deleted_terminates_unless_it_has_ended() -> None:
    running = pod("Running", [state("a", RUNS, ready=True)])
    ended = pod("Succeeded", [state("a", DONE)])
    lost = pod("Running", [state("a", RUNS)], reason="NodeLost")
    for tree in (running, ended, lost):
        tree["metadata"]["deletionTimestamp"] = "2023-11-14T22:13:00Z"
    assert [pod_row(tree, NOW)[1] for tree in (running, ended, lost)] == ["Terminating", "Completed", "Unknown"]


def test_gates_that_are_open_are_counted() -> None:
    gates = [{"conditionType": "a"}, {"conditionType": "b"}]
    tree = pod("Running", [], spec={"readinessGates": gates}, conditions=[{"type": "b", "status": "True"}])
    assert pod_row(tree, NOW)[-1] == "1/2"
