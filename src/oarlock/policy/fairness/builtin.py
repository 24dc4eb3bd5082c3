"""The flow schemas and priority levels that a server has from the beginning, as objects.

The mandatory ones can't be changed; the suggested ones are kept as they are here until an administrator changes them.
Source: the names, limits and rules are Kubernetes' own ("API Priority and Fairness", suggested configuration).
"""

from __future__ import annotations

from oarlock.meta.json_trees import Tree

API_VERSION = "flowcontrol.apiserver.k8s.io/v1"
AUTO_UPDATE = "apf.kubernetes.io/autoupdate-spec"
"""The annotation that says whether the server keeps an object's spec as it is here."""

_EVERYBODY = ("system:unauthenticated", "system:authenticated")


def _object(kind: str, name: str, spec: Tree) -> Tree:
    metadata = {"name": name, "annotations": {AUTO_UPDATE: "true"}}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def _level(name: str, shares: int, lendable_percent: int, queues: int, hand_size: int) -> Tree:
    response: Tree = {"type": "Reject"}
    if queues:
        queuing = {"queues": queues, "handSize": hand_size, "queueLengthLimit": 50}
        response = {"type": "Queue", "queuing": queuing}
    limited = {"nominalConcurrencyShares": shares, "limitResponse": response, "lendablePercent": lendable_percent}
    return _object("PriorityLevelConfiguration", name, {"type": "Limited", "limited": limited})


def _schema(name: str, level: str, precedence: int, distinguisher: str, rule: Tree) -> Tree:
    spec: Tree = {"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence}
    if distinguisher:
        spec["distinguisherMethod"] = {"type": distinguisher}
    return _object("FlowSchema", name, {**spec, "rules": [rule]})


def _groups(*names: str) -> list[Tree]:
    return [{"kind": "Group", "group": {"name": name}} for name in names]


def _users(*names: str) -> list[Tree]:
    return [{"kind": "User", "user": {"name": name}} for name in names]


_SYSTEM_ACCOUNTS = [{"kind": "ServiceAccount", "serviceAccount": {"namespace": "kube-system", "name": "*"}}]


def _resources(verbs: list[str], group: str, resources: list[str], *, cluster_scope: bool) -> Tree:
    rule = {"verbs": verbs, "apiGroups": [group], "resources": resources}
    return {**rule, **({"clusterScope": True} if cluster_scope else {}), "namespaces": ["*"]}


def _everything(subjects: list[Tree]) -> Tree:
    return {
        "subjects": subjects,
        "resourceRules": [_resources(["*"], "*", ["*"], cluster_scope=True)],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }


_PROBES = {
    "subjects": _groups(*_EVERYBODY),
    "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}],
}
_LEASES = {
    "subjects": [*_users("system:kube-controller-manager", "system:kube-scheduler"), *_SYSTEM_ACCOUNTS],
    "resourceRules": [_resources(["get", "create", "update"], "coordination.k8s.io", ["leases"], cluster_scope=False)],
}
_NODES = {
    "subjects": _groups("system:nodes"),
    "resourceRules": [
        _resources(["*"], "", ["nodes", "nodes/status"], cluster_scope=True),
        _resources(["*"], "coordination.k8s.io", ["leases"], cluster_scope=False),
    ],
}

MANDATORY_LEVELS: tuple[Tree, ...] = (
    _object(
        "PriorityLevelConfiguration",
        "exempt",
        {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}},
    ),
    _level("catch-all", 5, 0, 0, 0),
)

MANDATORY_SCHEMAS: tuple[Tree, ...] = (
    _schema("exempt", "exempt", 1, "", _everything(_groups("system:masters"))),
    _schema("catch-all", "catch-all", 10000, "ByUser", _everything(_groups(*_EVERYBODY))),
)

SUGGESTED_LEVELS: tuple[Tree, ...] = (
    _level("system", 30, 33, 64, 6),
    _level("node-high", 40, 25, 64, 6),
    _level("leader-election", 10, 0, 16, 4),
    _level("workload-high", 40, 50, 128, 6),
    _level("workload-low", 100, 90, 128, 6),
    _level("global-default", 20, 50, 128, 6),
)

SUGGESTED_SCHEMAS: tuple[Tree, ...] = (
    _schema("system-nodes", "system", 500, "ByUser", _everything(_groups("system:nodes"))),
    _schema("system-node-high", "node-high", 400, "ByUser", _NODES),
    _schema("probes", "exempt", 2, "", _PROBES),
    _schema("system-leader-election", "leader-election", 100, "ByUser", _LEASES),
    _schema(
        "kube-controller-manager",
        "workload-high",
        800,
        "ByNamespace",
        _everything(_users("system:kube-controller-manager")),
    ),
    _schema("kube-scheduler", "workload-high", 800, "ByNamespace", _everything(_users("system:kube-scheduler"))),
    _schema("kube-system-service-accounts", "workload-high", 900, "ByNamespace", _everything(_SYSTEM_ACCOUNTS)),
    _schema("service-accounts", "workload-low", 9000, "ByUser", _everything(_groups("system:serviceaccounts"))),
    _schema("global-default", "global-default", 9900, "ByUser", _everything(_groups(*_EVERYBODY))),
)
