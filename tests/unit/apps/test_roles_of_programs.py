"""The roles of Kubernetes' own programs: enough for what they were seen to ask for, and nothing for anybody else."""

from __future__ import annotations

import pytest

from oarlock.apps.controlplane.bootstrap.bootstrap_roles import (
    bindings,
    cluster_roles,
    namespaced_bindings,
    namespaced_roles,
)
from oarlock.meta.context import Target, User
from oarlock.policy.authz.role_based import RoleBasedPolicy
from oarlock.policy.authz.roles import read_binding, read_role

MANAGER = User("system:kube-controller-manager", groups=("system:authenticated",))
SCHEDULER = User("system:kube-scheduler", groups=("system:authenticated",))
PROXY = User("system:kube-proxy", groups=("system:authenticated",))
NODE = User("system:node:n", groups=("system:nodes", "system:authenticated"))


def controller(name: str) -> User:
    groups = ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")
    return User(f"system:serviceaccount:kube-system:{name}", groups=groups)


@pytest.fixture(scope="module")
def policy() -> RoleBasedPolicy:
    made = RoleBasedPolicy()
    for role in (*cluster_roles(), *namespaced_roles()):
        made.put_role(read_role(role["metadata"].get("namespace", ""), role))
    for binding in (*bindings(), *namespaced_bindings()):
        made.put_binding(read_binding(binding["metadata"].get("namespace", ""), binding))
    return made


def asked(text: str) -> Target:
    """``verb group/resource[/subresource] [namespace] [name]``; the group without a name is ``core``."""
    verb, of, *more = text.split()
    group, _, resource = of.partition("/")
    resource, _, below = resource.partition("/")
    namespace, name = [*more, "", ""][:2]
    group = "" if group == "core" else group
    return Target(verb, group, "v1", resource, below, "" if namespace == "-" else namespace, name)


SEEN = [
    (MANAGER, "watch core/configmaps kube-system extension-apiserver-authentication"),
    (MANAGER, "create coordination.k8s.io/leases kube-system"),
    (MANAGER, "update coordination.k8s.io/leases kube-system kube-controller-manager"),
    (MANAGER, "create core/events kube-system"),
    (MANAGER, "get core/namespaces - kube-system"),
    (MANAGER, "create core/serviceaccounts kube-system"),
    (MANAGER, "create core/serviceaccounts/token kube-system job-controller"),
    (MANAGER, "watch flunders.example.com/flunders"),
    (SCHEDULER, "get core/configmaps kube-system extension-apiserver-authentication"),
    (SCHEDULER, "watch core/pods"),
    (SCHEDULER, "watch resource.k8s.io/resourceslices"),
    (SCHEDULER, "watch storage.k8s.io/csistoragecapacities"),
    (SCHEDULER, "update coordination.k8s.io/leases kube-system kube-scheduler"),
    (SCHEDULER, "patch core/pods/status x p"),
    (SCHEDULER, "create core/pods/binding x p"),
    (SCHEDULER, "create events.k8s.io/events x"),
    (SCHEDULER, "update core/persistentvolumeclaims x c"),
    (PROXY, "watch discovery.k8s.io/endpointslices"),
    (controller("namespace-controller"), "deletecollection core/pods x"),
    (controller("namespace-controller"), "update core/namespaces/finalize - x"),
    (controller("generic-garbage-collector"), "delete flunders.example.com/flunders x a"),
    (controller("root-ca-cert-publisher"), "create core/configmaps x"),
    (controller("clusterrole-aggregation-controller"), "patch rbac.authorization.k8s.io/clusterroles - admin"),
    (controller("service-cidrs-controller"), "patch networking.k8s.io/servicecidrs/status - kubernetes"),
    (controller("horizontal-pod-autoscaler"), "update apps/deployments/scale x d"),
    (controller("legacy-service-account-token-cleaner"), "delete core/secrets x s"),
    (controller("deployment-controller"), "create apps/replicasets x"),
    (controller("job-controller"), "patch core/pods x p"),
    (controller("resourcequota-controller"), "update core/resourcequotas/status x q"),
]
NOT_THEIRS = [
    (MANAGER, "update coordination.k8s.io/leases other kube-scheduler"),
    (MANAGER, "delete apps/deployments x d"),
    (SCHEDULER, "list core/secrets"),
    (SCHEDULER, "get core/configmaps kube-system other"),
    (PROXY, "list core/pods"),
    (NODE, "get core/pods x p"),
    (controller("job-controller"), "get core/secrets x s"),
    (controller("legacy-service-account-token-cleaner"), "get core/configmaps kube-system other"),
    (User("system:serviceaccount:x:job-controller"), "patch core/pods x p"),
    (User("job-controller"), "patch core/pods x p"),
]


@pytest.mark.parametrize(("user", "request_text"), SEEN)
def test_a_program_may_do_what_it_was_seen_to_do(policy: RoleBasedPolicy, user: User, request_text: str) -> None:
    assert policy.decide(user, asked(request_text)).allowed


@pytest.mark.parametrize(("user", "request_text"), NOT_THEIRS)
def test_and_nothing_else(policy: RoleBasedPolicy, user: User, request_text: str) -> None:
    assert not policy.decide(user, asked(request_text)).allowed


def test_every_binding_is_of_a_role_that_exists_and_every_role_of_a_controller_is_bound() -> None:
    roles = {one["metadata"]["name"] for one in cluster_roles()}
    bound = {one["metadata"]["name"]: one for one in bindings()}
    assert {one["roleRef"]["name"] for one in bound.values()} <= roles
    assert {name for name in roles if name.startswith("system:controller:")} <= set(bound)
    places = {(one["metadata"]["namespace"], one["metadata"]["name"]) for one in namespaced_roles()}
    assert {(one["metadata"]["namespace"], one["roleRef"]["name"]) for one in namespaced_bindings()} == places
    assert bound["system:node"]["subjects"] == []
