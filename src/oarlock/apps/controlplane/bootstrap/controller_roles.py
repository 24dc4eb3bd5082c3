"""The roles of the controllers of Kubernetes' controller manager, as data: each acts as a service account of its name.

A control plane's own controllers need none; these are for kube-controller-manager beside it
(``--use-service-account-credentials``). See also: `bootstrap_roles`, which binds them.
Source: Kubernetes' default roles, https://kubernetes.io/docs/reference/access-authn-authz/rbac/.
"""

from __future__ import annotations

from collections.abc import Mapping

from oarlock.apps.controlplane.bootstrap.system_roles import EVENTS, READ, DefaultRule

CONTROLLER_PREFIX = "system:controller:"
_ADMISSION, _CERTIFICATES, _DEVICES = "admissionregistration.k8s.io", "certificates.k8s.io", "resource.k8s.io"
_NETWORK, _STORAGE, _WORKLOADS = "networking.k8s.io", "storage.k8s.io", "apps extensions"
_FOLLOW = "list watch"
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
