"""The roles and bindings of Kubernetes' own programs (scheduler, controller manager, nodes, proxies), as data.

Each controller of the controller manager acts as a service account of its name. A control plane's own controllers need
no roles; these are for kube-controller-manager beside it (``--use-service-account-credentials``).
See also: `bootstrap_roles`, which puts them beside those of people.
Source: Kubernetes' default roles, https://kubernetes.io/docs/reference/access-authn-authz/rbac/.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

READ = "get list watch"
WRITE = "create delete deletecollection patch update"
ALL = "create delete deletecollection get list patch update watch"


class DefaultRule(NamedTuple):
    """Verbs, groups (``core`` for the one without a name; none for paths) and resources or paths, and maybe names."""

    verbs: str
    groups: str
    about: str
    names: str = ""


EVENTS = DefaultRule("create patch update", "core events.k8s.io", "events")
"""Whoever tells what it does by Events has this."""


def rule_tree(rule: DefaultRule) -> dict[str, Any]:
    """The rule as it is stored in a role."""
    tree: dict[str, Any] = {"verbs": rule.verbs.split()}
    if not rule.groups:
        return {**tree, "nonResourceURLs": rule.about.split()}
    tree["apiGroups"] = ["" if group == "core" else group for group in rule.groups.split()]
    tree["resources"] = rule.about.split()
    if rule.names:
        tree["resourceNames"] = rule.names.split()
    return tree


AUTHENTICATION, AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"
_CERTIFICATES, _STORAGE, _DEVICES = "certificates.k8s.io", "storage.k8s.io", "resource.k8s.io"
_TOKEN_REVIEWS = DefaultRule("create", AUTHENTICATION, "tokenreviews")
_ACCESS_REVIEWS = DefaultRule("create", AUTHORIZATION, "subjectaccessreviews")
_FOLLOW = "list watch"


def _lease(name: str, verbs: str = "get update") -> tuple[DefaultRule, ...]:
    """What leader election needs."""
    of = "coordination.k8s.io"
    return (DefaultRule("create", of, "leases"), DefaultRule(verbs, of, "leases", name))


def _signer(name: str) -> tuple[DefaultRule, ...]:
    return (DefaultRule("approve", _CERTIFICATES, "signers", f"kubernetes.io/{name}"),)


def _requester(kind: str) -> tuple[DefaultRule, ...]:
    return (DefaultRule("create", _CERTIFICATES, f"certificatesigningrequests/{kind}"),)


SYSTEM_ROLES: Mapping[str, tuple[DefaultRule, ...]] = {
    "system:certificates.k8s.io:certificatesigningrequests:nodeclient": _requester("nodeclient"),
    "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient": _requester("selfnodeclient"),
    "system:certificates.k8s.io:kube-apiserver-client-approver": _signer("kube-apiserver-client"),
    "system:certificates.k8s.io:kube-apiserver-client-kubelet-approver": _signer("kube-apiserver-client-kubelet"),
    "system:certificates.k8s.io:kubelet-serving-approver": _signer("kubelet-serving"),
    "system:certificates.k8s.io:legacy-unknown-approver": _signer("legacy-unknown"),
    "system:heapster": (
        DefaultRule(READ, "core", "events namespaces nodes pods"),
        DefaultRule(READ, "extensions", "deployments"),
    ),
    "system:kube-aggregator": (DefaultRule(READ, "core", "endpoints services"),),
    "system:kube-controller-manager": (
        EVENTS,
        *_lease("kube-controller-manager"),
        DefaultRule("create", "core", "secrets serviceaccounts"),
        DefaultRule("delete", "core", "secrets"),
        DefaultRule("get", "core", "configmaps namespaces secrets serviceaccounts"),
        DefaultRule("update", "core", "secrets serviceaccounts"),
        _TOKEN_REVIEWS,
        _ACCESS_REVIEWS,
        DefaultRule(_FOLLOW, "*", "*"),
        DefaultRule("create", "core", "serviceaccounts/token"),
    ),
    "system:kube-dns": (DefaultRule(_FOLLOW, "core", "endpoints services"),),
    "system:kube-scheduler": (
        EVENTS,
        *_lease("kube-scheduler", "get list update watch"),
        DefaultRule(ALL, "coordination.k8s.io", "leasecandidates"),
        DefaultRule(READ, "core", "nodes"),
        DefaultRule(f"delete {READ}", "core", "pods"),
        DefaultRule("create", "core", "bindings pods/binding"),
        DefaultRule("patch update", "core", "pods/status"),
        DefaultRule(READ, "core", "replicationcontrollers services"),
        DefaultRule(READ, "apps extensions", "replicasets"),
        DefaultRule(READ, "apps", "statefulsets"),
        DefaultRule(READ, "policy", "poddisruptionbudgets"),
        DefaultRule(READ, "core", "persistentvolumeclaims persistentvolumes"),
        _TOKEN_REVIEWS,
        _ACCESS_REVIEWS,
        DefaultRule(READ, _STORAGE, "csidrivers csinodes csistoragecapacities volumeattachments"),
        DefaultRule(READ, "core", "namespaces"),
        DefaultRule(READ, _DEVICES, "deviceclasses resourceslices"),
        DefaultRule(f"{READ} patch update", _DEVICES, "resourceclaims resourceclaims/status"),
        DefaultRule("create delete", _DEVICES, "resourceclaims"),
        DefaultRule("patch update", _DEVICES, "resourceclaims/binding"),
        DefaultRule("update", "core", "pods/finalizers"),
    ),
    "system:kubelet-api-admin": (
        DefaultRule(READ, "core", "nodes"),
        DefaultRule("proxy", "core", "nodes"),
        DefaultRule(
            "*", "core", "nodes/configz nodes/healthz nodes/log nodes/metrics nodes/pods nodes/proxy nodes/stats"
        ),
    ),
    "system:node": (
        _TOKEN_REVIEWS,
        DefaultRule("create", AUTHORIZATION, "localsubjectaccessreviews subjectaccessreviews"),
        DefaultRule(READ, "core", "services"),
        DefaultRule(f"create {READ} patch update", "core", "nodes"),
        DefaultRule("patch update", "core", "nodes/status"),
        EVENTS,
        DefaultRule(f"create delete {READ}", "core", "pods"),
        DefaultRule("patch update", "core", "pods/status"),
        DefaultRule("create", "core", "pods/eviction"),
        DefaultRule(READ, "core", "configmaps secrets"),
        DefaultRule("get", "core", "endpoints persistentvolumeclaims persistentvolumes"),
        DefaultRule(f"create {READ}", _CERTIFICATES, "certificatesigningrequests"),
        DefaultRule("create delete get patch update", "coordination.k8s.io", "leases"),
        DefaultRule("get", _STORAGE, "volumeattachments"),
        DefaultRule("create", "core", "serviceaccounts/token"),
        DefaultRule("get patch update", "core", "persistentvolumeclaims/status"),
        DefaultRule(READ, _STORAGE, "csidrivers"),
        DefaultRule("create delete get patch update", _STORAGE, "csinodes"),
        DefaultRule(READ, "node.k8s.io", "runtimeclasses"),
        DefaultRule("get", _DEVICES, "resourceclaims"),
        DefaultRule("deletecollection", _DEVICES, "resourceslices"),
        DefaultRule("get", "core", "serviceaccounts"),
    ),
    "system:node-bootstrapper": (DefaultRule(f"create {READ}", _CERTIFICATES, "certificatesigningrequests"),),
    "system:node-problem-detector": (
        DefaultRule("get", "core", "nodes"),
        DefaultRule("patch", "core", "nodes/status"),
        EVENTS,
    ),
    "system:node-proxier": (
        DefaultRule(_FOLLOW, "core", "endpoints services"),
        DefaultRule(READ, "core", "nodes"),
        EVENTS,
        DefaultRule(_FOLLOW, "networking.k8s.io", "servicecidrs"),
        DefaultRule(_FOLLOW, "discovery.k8s.io", "endpointslices"),
    ),
    "system:persistent-volume-provisioner": (
        DefaultRule(f"create delete {READ}", "core", "persistentvolumes"),
        DefaultRule(f"{READ} update", "core", "persistentvolumeclaims"),
        DefaultRule(READ, _STORAGE, "storageclasses"),
        DefaultRule("watch", "core", "events"),
        EVENTS,
    ),
    "system:volume-scheduler": (
        DefaultRule(f"{READ} patch update", "core", "persistentvolumeclaims persistentvolumes"),
        DefaultRule(READ, _STORAGE, "storageclasses"),
    ),
}

SYSTEM_MEMBERS: Mapping[str, tuple[str, ...]] = {
    "system:kube-controller-manager": ("User system:kube-controller-manager",),
    "system:kube-dns": ("ServiceAccount kube-dns",),
    "system:kube-scheduler": ("User system:kube-scheduler",),
    "system:node": (),
    "system:node-proxier": ("User system:kube-proxy",),
    "system:volume-scheduler": ("User system:kube-scheduler",),
}
"""Who has a role in the whole cluster; service accounts are those of ``kube-system``.

Nobody has ``system:node`` by default: an authorizer that knows the nodes decides what they may do.
"""


class NamespacedRole(NamedTuple):
    """The rules of a role in a namespace, the name of its binding, and who has it."""

    rules: tuple[DefaultRule, ...]
    binding: str
    members: tuple[str, ...]


_LOCKING = (DefaultRule(f"create {READ} update", "coordination.k8s.io", "leasecandidates leases"),)

NAMESPACED_ROLES: Mapping[tuple[str, str], NamespacedRole] = {
    ("kube-system", "extension-apiserver-authentication-reader"): NamespacedRole(
        (DefaultRule(READ, "core", "configmaps", "extension-apiserver-authentication"),),
        "system::extension-apiserver-authentication-reader",
        ("User system:kube-controller-manager", "User system:kube-scheduler"),
    ),
    ("kube-system", "system::leader-locking-kube-controller-manager"): NamespacedRole(
        _LOCKING,
        "system::leader-locking-kube-controller-manager",
        (
            "User system:kube-controller-manager",
            "ServiceAccount kube-controller-manager",
            "ServiceAccount leader-election-controller",
        ),
    ),
    ("kube-system", "system::leader-locking-kube-scheduler"): NamespacedRole(
        _LOCKING,
        "system::leader-locking-kube-scheduler",
        ("User system:kube-scheduler", "ServiceAccount kube-scheduler"),
    ),
    ("kube-system", "system:controller:bootstrap-signer"): NamespacedRole(
        (DefaultRule(READ, "core", "secrets"),),
        "system:controller:bootstrap-signer",
        ("ServiceAccount bootstrap-signer",),
    ),
    ("kube-system", "system:controller:cloud-provider"): NamespacedRole(
        (DefaultRule(f"create {READ}", "core", "configmaps"),),
        "system:controller:cloud-provider",
        ("ServiceAccount cloud-provider",),
    ),
    ("kube-system", "system:controller:token-cleaner"): NamespacedRole(
        (DefaultRule(f"delete {READ}", "core", "secrets"), EVENTS),
        "system:controller:token-cleaner",
        ("ServiceAccount token-cleaner",),
    ),
    ("kube-public", "system:controller:bootstrap-signer"): NamespacedRole(
        (
            DefaultRule(READ, "core", "configmaps"),
            DefaultRule("update", "core", "configmaps", "cluster-info"),
            EVENTS,
        ),
        "system:controller:bootstrap-signer",
        ("ServiceAccount bootstrap-signer",),
    ),
}
"""By namespace and name."""

CONTROLLER_PREFIX = "system:controller:"
_ADMISSION, _NETWORK, _WORKLOADS = "admissionregistration.k8s.io", "networking.k8s.io", "apps extensions"
_HELD = f"{READ} update"
_PODS = DefaultRule(f"create delete {_FOLLOW} patch", "core", "pods")
_REVISIONS = DefaultRule(f"create delete {READ} patch update", "apps", "controllerrevisions")
_SLICES = DefaultRule(f"create delete {READ} update", "discovery.k8s.io", "endpointslices")
_SIGNERS = (
    "kubernetes.io/kube-apiserver-client kubernetes.io/kube-apiserver-client-kubelet kubernetes.io/kubelet-serving"
    " kubernetes.io/legacy-unknown"
)

CONTROLLER_ROLES: Mapping[str, tuple[DefaultRule, ...]] = {
    "attachdetach-controller": (
        DefaultRule(_FOLLOW, "core", "persistentvolumeclaims persistentvolumes pods"),
        DefaultRule(READ, "core", "nodes"),
        DefaultRule("patch update", "core", "nodes/status"),
        EVENTS,
        DefaultRule(f"create delete {READ}", _STORAGE, "volumeattachments"),
        DefaultRule(READ, _STORAGE, "csidrivers csinodes"),
    ),
    "certificate-controller": (
        DefaultRule(f"delete {READ}", _CERTIFICATES, "certificatesigningrequests"),
        DefaultRule("update", _CERTIFICATES, "certificatesigningrequests/approval certificatesigningrequests/status"),
        DefaultRule("approve", _CERTIFICATES, "signers", "kubernetes.io/kube-apiserver-client-kubelet"),
        DefaultRule("sign", _CERTIFICATES, "signers", _SIGNERS),
        DefaultRule("create", "authorization.k8s.io", "subjectaccessreviews"),
        EVENTS,
    ),
    "clusterrole-aggregation-controller": (
        DefaultRule(f"escalate {READ} patch update", "rbac.authorization.k8s.io", "clusterroles"),
    ),
    "cronjob-controller": (
        DefaultRule(_HELD, "batch", "cronjobs"),
        DefaultRule(f"create delete {READ} patch update", "batch", "jobs"),
        DefaultRule("update", "batch", "cronjobs/finalizers cronjobs/status"),
        DefaultRule(f"delete {_FOLLOW}", "core", "pods"),
        EVENTS,
    ),
    "daemon-set-controller": (
        DefaultRule(READ, _WORKLOADS, "daemonsets"),
        DefaultRule("update", _WORKLOADS, "daemonsets/finalizers daemonsets/status"),
        DefaultRule(_FOLLOW, "core", "nodes"),
        _PODS,
        DefaultRule("create", "core", "pods/binding"),
        _REVISIONS,
        EVENTS,
    ),
    "deployment-controller": (
        DefaultRule(_HELD, _WORKLOADS, "deployments"),
        DefaultRule("update", _WORKLOADS, "deployments/finalizers deployments/status"),
        DefaultRule(f"create delete {READ} patch update", _WORKLOADS, "replicasets"),
        DefaultRule(_HELD, "core", "pods"),
        EVENTS,
    ),
    "device-taint-eviction-controller": (
        DefaultRule(f"delete {READ}", "core", "pods"),
        DefaultRule("patch update", "core", "pods/status"),
        DefaultRule(READ, _DEVICES, "deviceclasses resourceclaims resourceslices"),
        EVENTS,
    ),
    "disruption-controller": (
        DefaultRule(READ, _WORKLOADS, "deployments replicasets"),
        DefaultRule(READ, "core", "replicationcontrollers"),
        DefaultRule(READ, "policy", "poddisruptionbudgets"),
        DefaultRule(READ, "apps", "statefulsets"),
        DefaultRule("update", "policy", "poddisruptionbudgets/status"),
        DefaultRule("patch update", "core", "pods/status"),
        DefaultRule("get", "*", "*/scale"),
        EVENTS,
    ),
    "endpoint-controller": (
        DefaultRule(READ, "core", "pods services"),
        DefaultRule(f"create delete {READ} update", "core", "endpoints"),
        DefaultRule("create", "core", "endpoints/restricted"),
        EVENTS,
    ),
    "endpointslice-controller": (
        DefaultRule(READ, "core", "nodes pods services"),
        DefaultRule("update", "core", "services/finalizers"),
        _SLICES,
        EVENTS,
    ),
    "endpointslicemirroring-controller": (
        DefaultRule(READ, "core", "endpoints services"),
        DefaultRule("update", "core", "endpoints/finalizers services/finalizers"),
        _SLICES,
        EVENTS,
    ),
    "ephemeral-volume-controller": (
        DefaultRule(READ, "core", "pods"),
        DefaultRule("update", "core", "pods/finalizers"),
        DefaultRule(f"create {READ}", "core", "persistentvolumeclaims"),
        EVENTS,
    ),
    "expand-controller": (
        DefaultRule(f"{READ} patch update", "core", "persistentvolumes"),
        DefaultRule("patch update", "core", "persistentvolumeclaims/status"),
        DefaultRule(READ, "core", "persistentvolumeclaims"),
        EVENTS,
    ),
    "generic-garbage-collector": (DefaultRule(f"delete {READ} patch update", "*", "*"), EVENTS),
    "horizontal-pod-autoscaler": (
        DefaultRule(READ, "autoscaling", "horizontalpodautoscalers"),
        DefaultRule("update", "autoscaling", "horizontalpodautoscalers/status"),
        DefaultRule("get update", "*", "*/scale"),
        DefaultRule(_FOLLOW, "core metrics.k8s.io", "pods"),
        DefaultRule(READ, "custom.metrics.k8s.io external.metrics.k8s.io", "*"),
        EVENTS,
    ),
    "job-controller": (
        DefaultRule(f"{READ} patch update", "batch", "jobs"),
        DefaultRule("update", "batch", "jobs/finalizers jobs/status"),
        _PODS,
        EVENTS,
    ),
    "legacy-service-account-token-cleaner": (
        DefaultRule("get", "core", "configmaps", "kube-apiserver-legacy-service-account-token-tracking"),
        DefaultRule("delete patch", "core", "secrets"),
    ),
    "namespace-controller": (
        DefaultRule(f"delete {READ}", "core", "namespaces"),
        DefaultRule("update", "core", "namespaces/finalize namespaces/status"),
        DefaultRule(f"delete deletecollection {READ}", "*", "*"),
    ),
    "node-controller": (
        DefaultRule(f"delete {READ} patch update", "core", "nodes"),
        DefaultRule("patch update", "core", "nodes/status pods/status"),
        DefaultRule(f"delete {READ}", "core", "pods"),
        EVENTS,
    ),
    "persistent-volume-binder": (
        DefaultRule(f"create delete {READ} update", "core", "persistentvolumes"),
        DefaultRule("update", "core", "persistentvolumeclaims/status persistentvolumes/status"),
        DefaultRule(_HELD, "core", "persistentvolumeclaims"),
        DefaultRule(f"create delete {READ}", "core", "pods"),
        DefaultRule(READ, _STORAGE, "storageclasses"),
        DefaultRule(_FOLLOW, "core", "nodes"),
        EVENTS,
        DefaultRule("watch", "core", "events"),
    ),
    "pod-garbage-collector": (
        DefaultRule(f"delete {_FOLLOW}", "core", "pods"),
        DefaultRule(READ, "core", "nodes"),
        DefaultRule("patch", "core", "pods/status"),
    ),
    "pv-protection-controller": (DefaultRule(_HELD, "core", "persistentvolumes"), EVENTS),
    "pvc-protection-controller": (
        DefaultRule(_HELD, "core", "persistentvolumeclaims"),
        DefaultRule("update", "core", "persistentvolumeclaims/status"),
        DefaultRule(READ, "core", "pods"),
        EVENTS,
    ),
    "replicaset-controller": (
        DefaultRule(_HELD, _WORKLOADS, "replicasets"),
        DefaultRule("update", _WORKLOADS, "replicasets/finalizers replicasets/status"),
        _PODS,
        EVENTS,
    ),
    "replication-controller": (
        DefaultRule(_HELD, "core", "replicationcontrollers"),
        DefaultRule("update", "core", "replicationcontrollers/finalizers replicationcontrollers/status"),
        _PODS,
        EVENTS,
    ),
    "resource-claim-controller": (
        DefaultRule(READ, "core", "pods"),
        DefaultRule("update", "core", "pods/finalizers"),
        DefaultRule(f"create delete {READ}", _DEVICES, "resourceclaims"),
        DefaultRule("patch update", _DEVICES, "resourceclaims resourceclaims/binding resourceclaims/status"),
        DefaultRule("patch update", "core", "pods/status"),
        EVENTS,
    ),
    "resourcequota-controller": (
        DefaultRule(_FOLLOW, "*", "*"),
        DefaultRule("update", "core", "resourcequotas/status"),
        EVENTS,
    ),
    "root-ca-cert-publisher": (DefaultRule("create update", "core", "configmaps"), EVENTS),
    "route-controller": (
        DefaultRule(_FOLLOW, "core", "nodes"),
        DefaultRule("patch", "core", "nodes/status"),
        EVENTS,
    ),
    "selinux-warning-controller": (
        EVENTS,
        DefaultRule(READ, "core", "persistentvolumeclaims persistentvolumes pods"),
        DefaultRule(READ, _STORAGE, "csidrivers"),
    ),
    "service-account-controller": (DefaultRule("create", "core", "serviceaccounts"), EVENTS),
    "service-cidrs-controller": (
        DefaultRule(f"{READ} patch update", _NETWORK, "servicecidrs"),
        DefaultRule("patch update", _NETWORK, "servicecidrs/finalizers servicecidrs/status"),
        DefaultRule(READ, _NETWORK, "ipaddresses"),
        EVENTS,
    ),
    "service-controller": (
        DefaultRule(READ, "core", "services"),
        DefaultRule("patch update", "core", "services/status"),
        DefaultRule(_FOLLOW, "core", "nodes"),
        EVENTS,
    ),
    "statefulset-controller": (
        DefaultRule(READ, "apps", "statefulsets"),
        DefaultRule("update", "apps", "statefulsets/finalizers statefulsets/status"),
        DefaultRule(f"create delete {READ} patch update", "core", "pods"),
        _REVISIONS,
        DefaultRule(f"create delete {READ} update", "core", "persistentvolumeclaims"),
        DefaultRule("update", "core", "pods/finalizers"),
        EVENTS,
    ),
    "storage-version-migrator-controller": (
        DefaultRule(f"create {_FOLLOW} patch", "*", "*"),
        DefaultRule("update", "storagemigration.k8s.io", "storageversionmigrations/status"),
    ),
    "ttl-after-finished-controller": (DefaultRule(f"delete {READ}", "batch", "jobs"), EVENTS),
    "ttl-controller": (DefaultRule(f"{_FOLLOW} patch update", "core", "nodes"), EVENTS),
    "validatingadmissionpolicy-status-controller": (
        DefaultRule(READ, _ADMISSION, "validatingadmissionpolicies"),
        DefaultRule("get patch update", _ADMISSION, "validatingadmissionpolicies/status"),
        EVENTS,
    ),
    "volumeattributesclass-protection-controller": (
        DefaultRule(READ, "core", "persistentvolumeclaims persistentvolumes"),
        DefaultRule(_HELD, _STORAGE, "volumeattributesclasses"),
        EVENTS,
    ),
}
"""By the name of the service account, in ``kube-system``. The role's name is that with `CONTROLLER_PREFIX`."""
