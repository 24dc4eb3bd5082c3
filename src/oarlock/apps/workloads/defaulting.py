"""The defaults of workload kinds that depend on something; fixed ones are in ``apps.kinds.released``.

Functions that change an object in place, by group and plural. Source: Kubernetes' defaults.
"""

from __future__ import annotations

from collections.abc import Mapping

from oarlock.apps.workloads.autoscaling import default_metrics
from oarlock.apps.workloads.pod_defaults import settle_pod, settle_template
from oarlock.apps.workloads.trees import Settle, Tree, at, below

__all__ = ["SETTLES"]


def _template(tree: Tree) -> None:
    settle_template(at(tree, "spec.template"))


def _pod_template(tree: Tree) -> None:
    settle_template(tree.get("template"))


def _deployment(tree: Tree) -> None:
    _template(tree)
    strategy = at(tree, "spec.strategy", {})
    if strategy.get("type") == "RollingUpdate":
        rolling = below(strategy, "rollingUpdate")
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")


def _daemon_set(tree: Tree) -> None:
    _template(tree)
    strategy = at(tree, "spec.updateStrategy", {})
    if strategy.get("type") == "RollingUpdate":
        rolling = below(strategy, "rollingUpdate")
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)


def _stateful_set(tree: Tree) -> None:
    _template(tree)
    strategy = at(tree, "spec.updateStrategy", {})
    if strategy.get("type") == "RollingUpdate":
        below(strategy, "rollingUpdate").setdefault("partition", 0)
    for claim in at(tree, "spec.volumeClaimTemplates", ()):
        claim.setdefault("apiVersion", "v1")
        claim.setdefault("kind", "PersistentVolumeClaim")
        below(claim, "status").setdefault("phase", "Pending")


def _replication_controller(tree: Tree) -> None:
    _template(tree)
    labels = at(tree, "spec.template.metadata.labels")
    if labels:
        if not at(tree, "spec.selector"):
            tree["spec"]["selector"] = dict(labels)
        if not tree["metadata"].get("labels"):
            tree["metadata"]["labels"] = dict(labels)


def _job(tree: Tree) -> None:
    spec = tree.get("spec")
    if spec is None:
        return
    settle_template(spec.get("template"))
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = spec["parallelism"] = 1
    spec.setdefault("parallelism", 1)
    if "backoffLimitPerIndex" in spec:
        spec.setdefault("backoffLimit", 2**31 - 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    policy = "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed"
    spec.setdefault("podReplacementPolicy", policy)


def _cron_job(tree: Tree) -> None:
    settle_template(at(tree, "spec.jobTemplate.spec.template"))


def _service(tree: Tree) -> None:
    spec = tree.get("spec")
    if spec is None:
        spec = tree["spec"] = {"type": "ClusterIP", "sessionAffinity": "None"}
    kind = spec.get("type")
    for port in spec.get("ports") or ():
        if port.get("targetPort") in (None, 0, "") and port.get("port"):
            port["targetPort"] = port["port"]
        if not port.get("nodePort"):
            port.pop("nodePort", None)
    if spec.get("sessionAffinity") == "ClientIP":
        below(below(spec, "sessionAffinityConfig"), "clientIP").setdefault("timeoutSeconds", 10800)
    else:
        spec.pop("sessionAffinityConfig", None)
    if kind != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind in ("NodePort", "LoadBalancer"):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)


def _node(tree: Tree) -> None:
    status = tree.get("status")
    if status and status.get("capacity"):
        allocatable = below(status, "allocatable")
        for name, amount in status["capacity"].items():
            allocatable.setdefault(name, amount)


def _network_policy(tree: Tree) -> None:
    spec = tree.get("spec")
    if spec is not None and not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if "egress" in spec else ["Ingress"]


def _autoscaler(tree: Tree) -> None:
    spec = tree.get("spec")
    if spec is None:
        return
    if tree.get("apiVersion") == "autoscaling/v1":
        return
    if not spec.get("metrics"):
        spec["metrics"] = default_metrics()
    behavior = spec.get("behavior")
    if behavior is not None:
        _scaling(below(behavior, "scaleUp"), up=True)
        _scaling(below(behavior, "scaleDown"), up=False)


def _scaling(rules: Tree, *, up: bool) -> None:
    if up:
        rules.setdefault("stabilizationWindowSeconds", 0)
    rules.setdefault("selectPolicy", "Max")
    if not rules.get("policies"):
        policies = [{"type": "Percent", "value": 100, "periodSeconds": 15}]
        rules["policies"] = [{"type": "Pods", "value": 4, "periodSeconds": 15}, *policies] if up else policies


SETTLES: Mapping[tuple[str, str], Settle] = {
    ("", "pods"): settle_pod,
    ("", "podtemplates"): _pod_template,
    ("", "replicationcontrollers"): _replication_controller,
    ("", "services"): _service,
    ("", "nodes"): _node,
    ("apps", "daemonsets"): _daemon_set,
    ("apps", "deployments"): _deployment,
    ("apps", "replicasets"): _template,
    ("apps", "statefulsets"): _stateful_set,
    ("autoscaling", "horizontalpodautoscalers"): _autoscaler,
    ("batch", "cronjobs"): _cron_job,
    ("batch", "jobs"): _job,
    ("networking.k8s.io", "networkpolicies"): _network_policy,
}
"""By group and plural."""
