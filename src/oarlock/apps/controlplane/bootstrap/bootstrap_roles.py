"""The roles and bindings that every control plane has: those of people here, of programs in `system_roles`.

See also: ``controllers.roles.aggregation``, which stores them.
Source: Kubernetes' default roles, https://kubernetes.io/docs/reference/access-authn-authz/rbac/.
"""

from __future__ import annotations

from collections.abc import Iterable

from oarlock.apps.controlplane.bootstrap.system_roles import (
    ALL,
    AUTHENTICATION,
    AUTHORIZATION,
    CONTROLLER_PREFIX,
    CONTROLLER_ROLES,
    NAMESPACED_ROLES,
    READ,
    SYSTEM_MEMBERS,
    SYSTEM_ROLES,
    WRITE,
    DefaultRule,
    rule_tree,
)
from oarlock.apps.kinds.rbac import GROUP
from oarlock.meta.json_trees import Tree
from oarlock.schema.definition import ResourceDefinition

DECLARED = "oarlock:declared-resources"
AGGREGATE_TO = "rbac.authorization.k8s.io/aggregate-to-{}"
LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_EXEC = "pods/attach pods/exec pods/portforward pods/proxy"
_SCALED = "replicationcontrollers replicationcontrollers/scale"

_ROLES: dict[str, tuple[DefaultRule, ...]] = {
    "cluster-admin": (DefaultRule("*", "*", "*"), DefaultRule("*", "", "*")),
    "system:discovery": (
        DefaultRule(
            "get", "", "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/"
        ),
    ),
    "system:basic-user": (
        DefaultRule("create", AUTHORIZATION, "selfsubjectaccessreviews selfsubjectrulesreviews"),
        DefaultRule("create", AUTHENTICATION, "selfsubjectreviews"),
    ),
    "system:public-info-viewer": (DefaultRule("get", "", "/healthz /livez /readyz /version /version/"),),
    "system:service-account-issuer-discovery": (
        DefaultRule(
            "get",
            "",
            "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/",
        ),
    ),
    "system:auth-delegator": (
        DefaultRule("create", AUTHENTICATION, "tokenreviews"),
        DefaultRule("create", AUTHORIZATION, "subjectaccessreviews"),
    ),
    "system:monitoring": (
        DefaultRule(
            "get", "", "/flagz /healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/* /statusz"
        ),
        DefaultRule("get", "core", "nodes/metrics"),
    ),
    "system:aggregate-to-view": (
        DefaultRule(
            READ,
            "core",
            f"configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods {_SCALED}"
            " serviceaccounts services services/status",
        ),
        DefaultRule(
            READ,
            "core",
            "bindings limitranges namespaces/status pods/log pods/status replicationcontrollers/status resourcequotas"
            " resourcequotas/status",
        ),
        DefaultRule(READ, "core", "namespaces"),
        DefaultRule(READ, "core events.k8s.io", "events"),
        DefaultRule(READ, "discovery.k8s.io", "endpointslices"),
        DefaultRule(
            READ,
            "apps",
            "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status"
            " replicasets replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status",
        ),
        DefaultRule(READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
        DefaultRule(READ, "batch", "cronjobs cronjobs/status jobs jobs/status"),
        DefaultRule(
            READ,
            "extensions",
            "daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses ingresses/status"
            " networkpolicies replicasets replicasets/scale replicasets/status replicationcontrollers/scale",
        ),
        DefaultRule(READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
        DefaultRule(READ, "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
        DefaultRule(READ, "resource.k8s.io", "resourceclaims resourceclaims/status resourceclaimtemplates"),
    ),
    "system:aggregate-to-edit": (
        DefaultRule(READ, "core", f"{_EXEC} secrets services/proxy"),
        DefaultRule("impersonate", "core", "serviceaccounts"),
        DefaultRule(WRITE, "core", f"pods {_EXEC}"),
        DefaultRule("create", "core", "pods/eviction"),
        DefaultRule(
            WRITE,
            "core",
            f"configmaps persistentvolumeclaims {_SCALED} secrets serviceaccounts services services/proxy",
        ),
        DefaultRule("create", "core", "serviceaccounts/token"),
        DefaultRule(WRITE, "core events.k8s.io", "events"),
        DefaultRule(
            WRITE,
            "apps",
            "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale statefulsets"
            " statefulsets/scale",
        ),
        DefaultRule(WRITE, "autoscaling", "horizontalpodautoscalers"),
        DefaultRule(WRITE, "batch", "cronjobs jobs"),
        DefaultRule(
            WRITE,
            "extensions",
            "daemonsets deployments deployments/rollback deployments/scale ingresses networkpolicies replicasets"
            " replicasets/scale replicationcontrollers/scale",
        ),
        DefaultRule(WRITE, "policy", "poddisruptionbudgets"),
        DefaultRule(WRITE, "networking.k8s.io", "ingresses networkpolicies"),
        DefaultRule(ALL, "coordination.k8s.io", "leases"),
        DefaultRule(WRITE, "resource.k8s.io", "resourceclaims resourceclaimtemplates"),
    ),
    "system:aggregate-to-admin": (
        DefaultRule("create", AUTHORIZATION, "localsubjectaccessreviews"),
        DefaultRule(ALL, GROUP, "rolebindings roles"),
    ),
}

_AGGREGATED = {"admin": "", "edit": "admin", "view": "edit"}
"""Roles whose rules are those of others; each is part of the next."""

_MEMBERS = {
    "cluster-admin": ("Group system:masters",),
    "system:discovery": ("Group system:authenticated",),
    "system:basic-user": ("Group system:authenticated",),
    "system:public-info-viewer": ("Group system:authenticated", "Group system:unauthenticated"),
    "system:service-account-issuer-discovery": ("Group system:serviceaccounts",),
    "system:monitoring": ("Group system:monitoring",),
}
"""Who has a role in the whole cluster: a kind of subject and a name."""


def cluster_roles() -> list[Tree]:
    """Every ClusterRole."""
    made = []
    for name, rules in _all_roles().items():
        labels = dict(LABELS)
        if name.startswith("system:aggregate-to-"):
            labels[AGGREGATE_TO.format(name.rpartition("-")[2])] = "true"
        made.append({**_head("ClusterRole", name, labels), "rules": list(map(rule_tree, rules))})
    for name, part_of in _AGGREGATED.items():
        labels = {**LABELS, **({AGGREGATE_TO.format(part_of): "true"} if part_of else {})}
        selector = {"matchLabels": {AGGREGATE_TO.format(name): "true"}}
        made.append({**_head("ClusterRole", name, labels), "aggregationRule": {"clusterRoleSelectors": [selector]}})
    return made


def _all_roles() -> dict[str, tuple[DefaultRule, ...]]:
    controllers = {CONTROLLER_PREFIX + name: rules for name, rules in CONTROLLER_ROLES.items()}
    return {**_ROLES, **SYSTEM_ROLES, **controllers}


def roles_of(definitions: Iterable[ResourceDefinition]) -> list[Tree]:
    """The parts of ``view``, ``edit`` and ``admin`` for resources that say what these may do."""
    made = []
    for role in _AGGREGATED:
        rules = []
        for definition in definitions:
            verbs = getattr(definition.rbac, role) if definition.rbac is not None else ()
            if verbs:
                about = {"apiGroups": [definition.group], "resources": [definition.names.plural]}
                rules.append({"verbs": list(verbs), **about})
        labels = {**LABELS, AGGREGATE_TO.format(role): "true"}
        made.append({**_head("ClusterRole", f"{DECLARED}-{role}", labels), "rules": rules or None})
    return made


def bindings() -> list[Tree]:
    """Every ClusterRoleBinding."""
    controllers = {CONTROLLER_PREFIX + name: (f"ServiceAccount {name}",) for name in CONTROLLER_ROLES}
    return [
        {
            **_head("ClusterRoleBinding", name, LABELS),
            "roleRef": _reference("ClusterRole", name),
            "subjects": list(map(_subject, members)),
        }
        for name, members in {**_MEMBERS, **SYSTEM_MEMBERS, **controllers}.items()
    ]


def namespaced_roles() -> list[Tree]:
    """Every Role."""
    return [
        {**_head("Role", name, LABELS, namespace), "rules": list(map(rule_tree, role.rules))}
        for (namespace, name), role in NAMESPACED_ROLES.items()
    ]


def namespaced_bindings() -> list[Tree]:
    """Every RoleBinding."""
    return [
        {
            **_head("RoleBinding", role.binding, LABELS, namespace),
            "roleRef": _reference("Role", name),
            "subjects": list(map(_subject, role.members)),
        }
        for (namespace, name), role in NAMESPACED_ROLES.items()
    ]


def _reference(kind: str, name: str) -> Tree:
    return {"apiGroup": GROUP, "kind": kind, "name": name}


def _subject(member: str) -> Tree:
    kind, _, name = member.partition(" ")
    if kind == "ServiceAccount":
        return {"kind": kind, "name": name, "namespace": "kube-system"}
    return {"apiGroup": GROUP, "kind": kind, "name": name}


def _head(kind: str, name: str, labels: dict[str, str], namespace: str = "") -> Tree:
    metadata: Tree = {
        "name": name,
        "labels": dict(labels),
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    }
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata}
