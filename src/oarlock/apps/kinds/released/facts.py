"""What the data of a release doesn't say about its types: defaults, and which fields are free, kept or required.

Tables only. Source: the defaults of Kubernetes. See also: `release`, which reads types; ``kinds.declaration``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from oarlock.meta.built_in import BUILT_IN_GROUPS

__all__ = ["FREE_TYPES", "KEPT_EMPTY", "NOT_REQUIRED", "TYPE_DEFAULTS", "type_name"]

_API: Final = "io.k8s.api."


def type_name(group: str, version: str, kind: str) -> str:
    """What the data calls a type: ``io.k8s.api.apps.v1.Deployment``."""
    return f"{BUILT_IN_GROUPS[group].package}.{version}.{kind}"


FREE_TYPES: Final = frozenset({"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON"})
"""Types that may be any JSON value."""

KEPT_EMPTY: Final = frozenset(
    {
        (f"{_API}core.v1.PersistentVolumeClaimSpec", "storageClassName"),
        (f"{_API}core.v1.GRPCAction", "service"),
        (f"{_API}core.v1.HostPathVolumeSource", "type"),
        (f"{_API}discovery.v1.EndpointPort", "name"),
    }
)
"""Fields whose empty text says something else than no text."""

NOT_REQUIRED: Final = frozenset(
    {
        (f"{_API}core.v1.PodSpec", "containers"),
        (f"{_API}core.v1.Container", "name"),
        (f"{_API}core.v1.EphemeralContainer", "name"),
        (f"{_API}apps.v1.DeploymentSpec", "selector"),
        (f"{_API}apps.v1.DaemonSetSpec", "selector"),
        (f"{_API}apps.v1.ReplicaSetSpec", "selector"),
        (f"{_API}apps.v1.StatefulSetSpec", "selector"),
        (f"{_API}apps.v1.StatefulSetSpec", "serviceName"),
    }
)
"""Required fields whose absence is told by code, among other errors and in Kubernetes' order."""

_PROBE: Final = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_CONTAINER: Final = {
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_RBD: Final = {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"}
_SCALE_IO: Final = {"storageMode": "ThinProvisioned", "fsType": "xfs"}
_MODE: Final = {"defaultMode": 0o644}

_DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "apps.v1.DaemonSetSpec": {"revisionHistoryLimit": 10, "updateStrategy": {}},
    "apps.v1.DaemonSetUpdateStrategy": {"type": "RollingUpdate"},
    "apps.v1.DeploymentSpec": {
        "replicas": 1,
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
        "strategy": {},
    },
    "apps.v1.DeploymentStrategy": {"type": "RollingUpdate"},
    "apps.v1.ReplicaSetSpec": {"replicas": 1},
    "apps.v1.StatefulSetSpec": {
        "replicas": 1,
        "revisionHistoryLimit": 10,
        "podManagementPolicy": "OrderedReady",
        "updateStrategy": {},
        "persistentVolumeClaimRetentionPolicy": {},
    },
    "apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
    "apps.v1.StatefulSetUpdateStrategy": {"type": "RollingUpdate"},
    "autoscaling.v1.HorizontalPodAutoscalerSpec": {"minReplicas": 1},
    "autoscaling.v2.HorizontalPodAutoscalerSpec": {"minReplicas": 1},
    "batch.v1.CronJobSpec": {
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    },
    "core.v1.AzureDiskVolumeSource": {
        "cachingMode": "ReadWrite",
        "fsType": "ext4",
        "readOnly": False,
        "kind": "Shared",
    },
    "core.v1.ConfigMapVolumeSource": _MODE,
    "core.v1.Container": _CONTAINER,
    "core.v1.ContainerPort": {"protocol": "TCP"},
    "core.v1.DownwardAPIVolumeSource": _MODE,
    "core.v1.EndpointPort": {"protocol": "TCP"},
    "core.v1.EphemeralContainer": _CONTAINER,
    "core.v1.GRPCAction": {"service": ""},
    "core.v1.HTTPGetAction": {"path": "/", "scheme": "HTTP"},
    "core.v1.HostPathVolumeSource": {"type": ""},
    "core.v1.ISCSIPersistentVolumeSource": {"iscsiInterface": "default"},
    "core.v1.ISCSIVolumeSource": {"iscsiInterface": "default"},
    "core.v1.ObjectFieldSelector": {"apiVersion": "v1"},
    "core.v1.PersistentVolumeClaimSpec": {"volumeMode": "Filesystem"},
    "core.v1.PersistentVolumeSpec": {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"},
    "core.v1.PodSpec": {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
    },
    "core.v1.Probe": _PROBE,
    "core.v1.ProjectedVolumeSource": _MODE,
    "core.v1.RBDPersistentVolumeSource": _RBD,
    "core.v1.RBDVolumeSource": _RBD,
    "core.v1.ReplicationControllerSpec": {"replicas": 1},
    "core.v1.ScaleIOPersistentVolumeSource": _SCALE_IO,
    "core.v1.ScaleIOVolumeSource": _SCALE_IO,
    "core.v1.SecretVolumeSource": _MODE,
    "core.v1.ServiceAccountTokenProjection": {"expirationSeconds": 3600},
    "core.v1.ServicePort": {"protocol": "TCP"},
    "core.v1.ServiceSpec": {"type": "ClusterIP", "sessionAffinity": "None"},
    "discovery.v1.EndpointPort": {"name": "", "protocol": "TCP"},
    "networking.v1.IngressClassParametersReference": {"scope": "Cluster"},
    "networking.v1.NetworkPolicyPort": {"protocol": "TCP"},
    "scheduling.v1.PriorityClass": {"preemptionPolicy": "PreemptLowerPriority"},
    "storage.v1.CSIDriverSpec": {
        "attachRequired": True,
        "podInfoOnMount": False,
        "volumeLifecycleModes": ["Persistent"],
        "storageCapacity": False,
        "fsGroupPolicy": "ReadWriteOnceWithFSType",
        "requiresRepublish": False,
        "seLinuxMount": False,
    },
    "storage.v1.StorageClass": {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
}

TYPE_DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {_API + name: fields for name, fields in _DEFAULTS.items()}
"""The defaults of types, wherever they are used. Those that depend on something are in the kinds' declarations."""
