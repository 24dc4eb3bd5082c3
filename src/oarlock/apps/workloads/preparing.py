"""What the server writes into new workload objects: their first status, labels that select their pods.

Functions that change a new object in place, by group and plural. Source: the strategies of Kubernetes' registries.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from oarlock.apps.workloads.pod_quality import pod_quality
from oarlock.apps.workloads.trees import Settle, Tree, at, below

__all__ = ["PREPARES"]

_UID_LABELS: Final = ("batch.kubernetes.io/controller-uid", "controller-uid")
_NAME_LABELS: Final = ("batch.kubernetes.io/job-name", "job-name")
_NODE_INFO: Final = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)


def _pod(new: Tree) -> None:
    new["status"] = {"phase": "Pending", "qosClass": pod_quality(new.get("spec") or {})}
    if at(new, "spec.schedulingGates"):
        why = "Scheduling is blocked due to non-empty scheduling gates"
        gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": why}
        new["status"]["conditions"] = [{**gated, "lastTransitionTime": new["metadata"]["creationTimestamp"]}]


def _job(new: Tree) -> None:
    spec = new.get("spec")
    if spec is None or spec.get("manualSelector"):
        return
    metadata = below(below(spec, "template"), "metadata")
    labels = below(metadata, "labels")
    own = new["metadata"]
    for label in _UID_LABELS:
        labels.setdefault(label, own["uid"])
    for label in _NAME_LABELS:
        labels.setdefault(label, own.get("name", ""))
    if "selector" not in spec:
        spec["selector"] = {"matchLabels": {_UID_LABELS[0]: own["uid"]}}


def _node(new: Tree) -> None:
    status = below(new, "status")
    below(below(status, "daemonEndpoints"), "kubeletEndpoint").setdefault("Port", 0)
    info = below(status, "nodeInfo")
    for name in _NODE_INFO:
        info.setdefault(name, "")
    below(new, "spec")


def _phase(phase: str) -> Settle:
    def prepare(new: Tree) -> None:
        below(new, "status").setdefault("phase", phase)

    return prepare


def _balanced(new: Tree) -> None:
    below(below(new, "status"), "loadBalancer")


def _fields(**fields: object) -> Settle:
    """Sets fields of the status of a new object, which Go writes even if they are empty."""

    def prepare(new: Tree) -> None:
        status = below(new, "status")
        for name, value in fields.items():
            status.setdefault(name, value)

    return prepare


def _status(new: Tree) -> None:
    below(new, "status")


def _budget(new: Tree) -> None:
    status = below(new, "status")
    for name in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"):
        status.setdefault(name, 0)


PREPARES: Mapping[tuple[str, str], Settle] = {
    ("", "nodes"): _node,
    ("", "persistentvolumeclaims"): _phase("Pending"),
    ("", "persistentvolumes"): _phase("Pending"),
    ("", "pods"): _pod,
    ("", "replicationcontrollers"): _fields(replicas=0),
    ("", "services"): _balanced,
    ("apps", "daemonsets"): _fields(
        currentNumberScheduled=0, numberMisscheduled=0, desiredNumberScheduled=0, numberReady=0
    ),
    ("apps", "deployments"): _status,
    ("apps", "replicasets"): _fields(replicas=0),
    ("apps", "statefulsets"): _fields(replicas=0, availableReplicas=0),
    ("autoscaling", "horizontalpodautoscalers"): _fields(desiredReplicas=0),
    ("batch", "cronjobs"): _status,
    ("batch", "jobs"): _job,
    ("networking.k8s.io", "ingresses"): _balanced,
    ("networking.k8s.io", "servicecidrs"): _status,
    ("policy", "poddisruptionbudgets"): _budget,
    ("resource.k8s.io", "resourceclaims"): _status,
}
"""By group and plural."""
