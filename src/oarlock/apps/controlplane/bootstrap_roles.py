"""The roles and bindings that every control plane has, as data. See also: `bootstrap`, which stores them.

A rule is verbs, groups (``core`` for the one without a name; none for paths) and resources or paths, and maybe names.
Source: Kubernetes' default roles, https://kubernetes.io/docs/reference/access-authn-authz/rbac/.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from oarlock.apps.kinds.rbac import GROUP
from oarlock.schema.definition import ResourceDefinition

__all__ = ["AGGREGATE_TO", "LABELS", "bindings", "cluster_roles", "namespaced_roles", "roles_of"]

Tree = dict[str, Any]


class _Rule(NamedTuple):
    verbs: str
    groups: str
    about: str
    names: str = ""


READ = "get list watch"
WRITE = "create delete deletecollection patch update"
ALL = "create delete deletecollection get list patch update watch"
DECLARED = "oarlock:declared-resources"
AGGREGATE_TO = "rbac.authorization.k8s.io/aggregate-to-{}"
LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_AUTHENTICATION, _AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"
_EXEC = "pods/attach pods/exec pods/portforward pods/proxy"
_SCALED = "replicationcontrollers replicationcontrollers/scale"

_ROLES: dict[str, tuple[_Rule, ...]] = {
    "cluster-admin": (_Rule("*", "*", "*"), _Rule("*", "", "*")),
    "system:discovery": (
        _Rule("get", "", "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/"),
    ),
    "system:basic-user": (
        _Rule("create", _AUTHORIZATION, "selfsubjectaccessreviews selfsubjectrulesreviews"),
        _Rule("create", _AUTHENTICATION, "selfsubjectreviews"),
    ),
    "system:public-info-viewer": (_Rule("get", "", "/healthz /livez /readyz /version /version/"),),
    "system:service-account-issuer-discovery": (
        _Rule(
            "get",
            "",
            "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/",
        ),
    ),
    "system:auth-delegator": (
        _Rule("create", _AUTHENTICATION, "tokenreviews"),
        _Rule("create", _AUTHORIZATION, "subjectaccessreviews"),
    ),
    "system:monitoring": (
        _Rule(
            "get", "", "/flagz /healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/* /statusz"
        ),
        _Rule("get", "core", "nodes/metrics"),
    ),
    "system:aggregate-to-view": (
        _Rule(
            READ,
            "core",
            f"configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods {_SCALED}"
            " serviceaccounts services services/status",
        ),
        _Rule(
            READ,
            "core",
            "bindings limitranges namespaces/status pods/log pods/status replicationcontrollers/status resourcequotas"
            " resourcequotas/status",
        ),
        _Rule(READ, "core", "namespaces"),
        _Rule(READ, "core events.k8s.io", "events"),
        _Rule(READ, "discovery.k8s.io", "endpointslices"),
        _Rule(
            READ,
            "apps",
            "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status"
            " replicasets replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status",
        ),
        _Rule(READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
        _Rule(READ, "batch", "cronjobs cronjobs/status jobs jobs/status"),
        _Rule(
            READ,
            "extensions",
            "daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses ingresses/status"
            " networkpolicies replicasets replicasets/scale replicasets/status replicationcontrollers/scale",
        ),
        _Rule(READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
        _Rule(READ, "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
        _Rule(READ, "resource.k8s.io", "resourceclaims resourceclaims/status resourceclaimtemplates"),
    ),
    "system:aggregate-to-edit": (
        _Rule(READ, "core", f"{_EXEC} secrets services/proxy"),
        _Rule("impersonate", "core", "serviceaccounts"),
        _Rule(WRITE, "core", f"pods {_EXEC}"),
        _Rule("create", "core", "pods/eviction"),
        _Rule(
            WRITE,
            "core",
            f"configmaps persistentvolumeclaims {_SCALED} secrets serviceaccounts services services/proxy",
        ),
        _Rule("create", "core", "serviceaccounts/token"),
        _Rule(WRITE, "core events.k8s.io", "events"),
        _Rule(
            WRITE,
            "apps",
            "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale statefulsets"
            " statefulsets/scale",
        ),
        _Rule(WRITE, "autoscaling", "horizontalpodautoscalers"),
        _Rule(WRITE, "batch", "cronjobs jobs"),
        _Rule(
            WRITE,
            "extensions",
            "daemonsets deployments deployments/rollback deployments/scale ingresses networkpolicies replicasets"
            " replicasets/scale replicationcontrollers/scale",
        ),
        _Rule(WRITE, "policy", "poddisruptionbudgets"),
        _Rule(WRITE, "networking.k8s.io", "ingresses networkpolicies"),
        _Rule(ALL, "coordination.k8s.io", "leases"),
        _Rule(WRITE, "resource.k8s.io", "resourceclaims resourceclaimtemplates"),
    ),
    "system:aggregate-to-admin": (
        _Rule("create", _AUTHORIZATION, "localsubjectaccessreviews"),
        _Rule(ALL, GROUP, "rolebindings roles"),
    ),
}

_AGGREGATED = {"admin": "", "edit": "admin", "view": "edit"}
"""Roles whose rules are those of others; each is part of the next."""

_MEMBERS = {
    "cluster-admin": ("system:masters",),
    "system:discovery": ("system:authenticated",),
    "system:basic-user": ("system:authenticated",),
    "system:public-info-viewer": ("system:authenticated", "system:unauthenticated"),
    "system:service-account-issuer-discovery": ("system:serviceaccounts",),
    "system:monitoring": ("system:monitoring",),
}
"""The groups that have a role in the whole cluster."""

_READER = "extension-apiserver-authentication-reader"


def cluster_roles() -> list[Tree]:
    """Every ClusterRole."""
    made = []
    for name, rules in _ROLES.items():
        labels = dict(LABELS)
        if name.startswith("system:aggregate-to-"):
            labels[AGGREGATE_TO.format(name.rpartition("-")[2])] = "true"
        made.append({**_head("ClusterRole", name, labels), "rules": list(map(_rule, rules))})
    for name, part_of in _AGGREGATED.items():
        labels = {**LABELS, **({AGGREGATE_TO.format(part_of): "true"} if part_of else {})}
        selector = {"matchLabels": {AGGREGATE_TO.format(name): "true"}}
        made.append({**_head("ClusterRole", name, labels), "aggregationRule": {"clusterRoleSelectors": [selector]}})
    return made


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
    return [
        {
            **_head("ClusterRoleBinding", name, LABELS),
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": GROUP, "kind": "Group", "name": group} for group in groups],
        }
        for name, groups in _MEMBERS.items()
    ]


def namespaced_roles() -> list[Tree]:
    """Every Role."""
    about = _rule(_Rule(READ, "core", "configmaps", "extension-apiserver-authentication"))
    return [{**_head("Role", _READER, LABELS, "kube-system"), "rules": [about]}]


def _rule(rule: _Rule) -> Tree:
    tree: Tree = {"verbs": rule.verbs.split()}
    if not rule.groups:
        return {**tree, "nonResourceURLs": rule.about.split()}
    tree["apiGroups"] = ["" if group == "core" else group for group in rule.groups.split()]
    tree["resources"] = rule.about.split()
    if rule.names:
        tree["resourceNames"] = rule.names.split()
    return tree


def _head(kind: str, name: str, labels: dict[str, str], namespace: str = "") -> Tree:
    metadata: Tree = {
        "name": name,
        "labels": dict(labels),
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    }
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata}
