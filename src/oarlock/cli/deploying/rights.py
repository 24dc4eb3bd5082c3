"""What a server may do in its cluster, and what users of the cluster may do with its resources. See also: `plan`."""

from __future__ import annotations

from oarlock.cli.deploying.plan import Plan
from oarlock.meta.json_trees import Tree

__all__ = ["rights"]

RBAC = "rbac.authorization.k8s.io"
ROLES = ("view", "edit", "admin")
AGGREGATE = f"{RBAC}/aggregate-to-"


def rights(plan: Plan) -> list[Tree]:
    """The ServiceAccount, its bindings, and the roles of users."""
    account = {"kind": "ServiceAccount", "name": plan.name, "namespace": plan.namespace}
    named = f"{plan.namespace}:{plan.name}"
    return [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": plan.name, "namespace": plan.namespace, "labels": plan.labels},
        },
        # It asks the cluster whose a token is, and who may do what.
        _object(plan, "ClusterRoleBinding", f"{named}:auth-delegator")
        | {"roleRef": _role("ClusterRole", "system:auth-delegator"), "subjects": [account]},
        # It reads whom the cluster's front proxy is known by.
        _object(plan, "RoleBinding", f"{named}:auth-reader", "kube-system")
        | {"roleRef": _role("Role", "extension-apiserver-authentication-reader"), "subjects": [account]},
        *(_renewal(plan, account) if plan.options.certificates == "renewed" else ()),
        *(_needed(plan, account) if plan.needs else ()),
        *_users(plan),
    ]


def _needed(plan: Plan, account: Tree) -> list[Tree]:
    """What its code does with objects of the cluster."""
    name = f"{plan.namespace}:{plan.name}:cluster"
    rules = [
        {"apiGroups": list(need.api_groups), "resources": list(need.resources), "verbs": list(need.verbs)}
        for need in plan.needs
    ]
    return [
        _object(plan, "ClusterRole", name) | {"rules": rules},
        _object(plan, "ClusterRoleBinding", name) | {"roleRef": _role("ClusterRole", name), "subjects": [account]},
    ]


def _renewal(plan: Plan, account: Tree) -> list[Tree]:
    """It keeps its certificate in one Secret, and writes its authority into its own APIServices."""
    name = f"{plan.namespace}:{plan.name}:certificate"
    registrations = [registration.name for registration in plan.registrations]
    about_services = {"apiGroups": ["apiregistration.k8s.io"], "resources": ["apiservices"]}
    about_secrets = {"apiGroups": [""], "resources": ["secrets"]}
    return [
        _object(plan, "ClusterRole", name)
        | {"rules": [{**about_services, "resourceNames": registrations, "verbs": ["get", "patch"]}]},
        _object(plan, "ClusterRoleBinding", name) | {"roleRef": _role("ClusterRole", name), "subjects": [account]},
        _object(plan, "Role", plan.secret, plan.namespace)
        | {
            "rules": [
                {**about_secrets, "verbs": ["create"]},  # a rule for creating can't have names
                {**about_secrets, "resourceNames": [plan.secret], "verbs": ["get", "update"]},
            ]
        },
        _object(plan, "RoleBinding", plan.secret, plan.namespace)
        | {"roleRef": _role("Role", plan.secret), "subjects": [account]},
    ]


def _users(plan: Plan) -> list[Tree]:
    """The parts of the cluster's own roles view, edit and admin, for resources that say what these may do."""
    made = []
    for role in ROLES:
        rules = [
            {
                "apiGroups": [definition.group],
                "resources": [definition.names.plural],
                "verbs": list(getattr(definition.rbac, role)),
            }
            for definition in plan.definitions
            if definition.rbac is not None and getattr(definition.rbac, role)
        ]
        if rules:
            tree = _object(plan, "ClusterRole", f"{plan.namespace}:{plan.name}:{role}")
            tree["metadata"]["labels"] = {**plan.labels, f"{AGGREGATE}{role}": "true"}
            made.append({**tree, "rules": rules})
    return made


def _object(plan: Plan, kind: str, name: str, namespace: str = "") -> Tree:
    metadata: Tree = {"name": name, "labels": plan.labels}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata}


def _role(kind: str, name: str) -> Tree:
    return {"apiGroup": RBAC, "kind": kind, "name": name}
