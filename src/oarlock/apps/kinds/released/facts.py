"""What the data of a release doesn't say about its types: defaults, and which fields are free, kept or null.

Tables only. Source: the defaults of Kubernetes. See also: `release`, which reads types; ``kinds.declaration``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from oarlock.meta.kinds import BUILT_IN_GROUPS

_API: Final = "io.k8s.api."


def type_name(group: str, version: str, kind: str) -> str:
    """What the data calls a type: ``io.k8s.api.apps.v1.Deployment``."""
    return f"{BUILT_IN_GROUPS[group].package}.{version}.{kind}"


FREE_TYPES: Final = frozenset({"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON"})
"""Types that may be any JSON value."""

KEPT_EMPTY: Final = frozenset(
    {
        (f"{_API}core.v1.PersistentVolumeClaimSpec", "storageClassName"),
        (f"{_API}core.v1.PersistentVolumeClaimSpec", "volumeAttributesClassName"),
        (f"{_API}core.v1.PersistentVolumeSpec", "volumeAttributesClassName"),
        (f"{_API}networking.v1.IngressSpec", "ingressClassName"),
        (f"{_API}storage.v1.VolumeAttachmentSource", "persistentVolumeName"),
        (f"{_API}core.v1.PodSpec", "runtimeClassName"),
        (f"{_API}core.v1.PodSpec", "hostnameOverride"),
        (f"{_API}discovery.v1.Endpoint", "nodeName"),
        (f"{_API}discovery.v1.Endpoint", "hostname"),
        (f"{_API}autoscaling.v2.HPAScalingRules", "policies"),
        (f"{_API}core.v1.GRPCAction", "service"),
        (f"{_API}core.v1.HostPathVolumeSource", "type"),
        (f"{_API}discovery.v1.EndpointPort", "name"),
    }
)
"""Fields whose empty text says something else than no text."""

_NULLS: Final[dict[str, tuple[str, ...]]] = {
    "apps.v1.DaemonSetCondition": ("lastTransitionTime",),
    "apps.v1.DeploymentCondition": ("lastTransitionTime", "lastUpdateTime"),
    "apps.v1.ReplicaSetCondition": ("lastTransitionTime",),
    "apps.v1.StatefulSetCondition": ("lastTransitionTime",),
    "autoscaling.v2.HorizontalPodAutoscalerCondition": ("lastTransitionTime",),
    "autoscaling.v2.HorizontalPodAutoscalerStatus": ("currentMetrics",),
    "batch.v1.JobCondition": ("lastProbeTime", "lastTransitionTime"),
    "batch.v1.PodFailurePolicy": ("rules",),
    "batch.v1.PodFailurePolicyOnExitCodesRequirement": ("values",),
    "batch.v1.SuccessPolicy": ("rules",),
    "core.v1.CephFSPersistentVolumeSource": ("monitors",),
    "core.v1.CephFSVolumeSource": ("monitors",),
    "core.v1.ContainerStateRunning": ("startedAt",),
    "core.v1.ContainerStateTerminated": ("startedAt", "finishedAt"),
    "core.v1.NodeCondition": ("lastHeartbeatTime", "lastTransitionTime"),
    "core.v1.NodeSelector": ("nodeSelectorTerms",),
    "core.v1.PersistentVolumeClaimCondition": ("lastProbeTime", "lastTransitionTime"),
    "core.v1.PodCondition": ("lastProbeTime", "lastTransitionTime"),
    "core.v1.ProjectedVolumeSource": ("sources",),
    "core.v1.RBDPersistentVolumeSource": ("monitors",),
    "core.v1.RBDVolumeSource": ("monitors",),
    "core.v1.ReplicationControllerCondition": ("lastTransitionTime",),
    "core.v1.TopologySelectorLabelRequirement": ("values",),
    "core.v1.TypedLocalObjectReference": ("apiGroup",),
    "core.v1.TypedObjectReference": ("apiGroup",),
    "discovery.v1.Endpoint": ("addresses",),
    "discovery.v1.EndpointSlice": ("endpoints", "ports"),
    "networking.v1.HTTPIngressRuleValue": ("paths",),
    "resource.v1.DeviceClaim": ("requests",),
    "storage.v1.CSINodeDriver": ("topologyKeys",),
    "storage.v1.CSINodeSpec": ("drivers",),
    "storage.v1.VolumeError": ("time",),
}

SHOWN_NULL: Final[Mapping[str, tuple[str, ...]]] = {
    **{_API + name: fields for name, fields in _NULLS.items()},
    "io.k8s.apimachinery.pkg.apis.meta.v1.Condition": ("lastTransitionTime",),
}
"""Fields that Go writes as null where there is nothing: times that are no pointers, lists that aren't left out."""

_ZEROS: Final[dict[str, tuple[str, ...]]] = {
    "apps.v1.DaemonSetSpec": ("minReadySeconds",),
    "apps.v1.DaemonSetStatus": ("numberAvailable", "numberUnavailable", "observedGeneration", "updatedNumberScheduled"),
    "apps.v1.DeploymentSpec": ("minReadySeconds", "paused"),
    "apps.v1.DeploymentStatus": (
        "availableReplicas",
        "observedGeneration",
        "readyReplicas",
        "replicas",
        "unavailableReplicas",
        "updatedReplicas",
    ),
    "apps.v1.ReplicaSetSpec": ("minReadySeconds",),
    "apps.v1.ReplicaSetStatus": ("availableReplicas", "fullyLabeledReplicas", "observedGeneration", "readyReplicas"),
    "apps.v1.StatefulSetSpec": ("minReadySeconds",),
    "apps.v1.StatefulSetStatus": ("currentReplicas", "observedGeneration", "readyReplicas", "updatedReplicas"),
    "autoscaling.v2.HorizontalPodAutoscalerStatus": ("currentReplicas",),
    "batch.v1.JobStatus": ("active", "failed", "succeeded"),
    "core.v1.Container": ("stdin", "stdinOnce", "tty"),
    "core.v1.ContainerPort": ("hostPort",),
    "core.v1.ContainerStateTerminated": ("signal",),
    "core.v1.EphemeralContainer": ("stdin", "stdinOnce", "tty"),
    "core.v1.NodeSpec": ("unschedulable",),
    "core.v1.PersistentVolumeClaimVolumeSource": ("readOnly",),
    "core.v1.PodSpec": ("hostIPC", "hostNetwork", "hostPID"),
    "core.v1.PodStatus": ("observedGeneration",),
    "core.v1.Probe": (
        "failureThreshold",
        "initialDelaySeconds",
        "periodSeconds",
        "successThreshold",
        "timeoutSeconds",
    ),
    "core.v1.ReplicationControllerSpec": ("minReadySeconds",),
    "core.v1.ReplicationControllerStatus": (
        "availableReplicas",
        "fullyLabeledReplicas",
        "observedGeneration",
        "readyReplicas",
    ),
    "core.v1.ServicePort": ("nodePort",),
    "core.v1.ServiceSpec": ("healthCheckNodePort", "publishNotReadyAddresses"),
    "core.v1.VolumeMount": ("readOnly",),
    "policy.v1.PodDisruptionBudgetStatus": ("observedGeneration",),
    "scheduling.v1.PriorityClass": ("globalDefault",),
}

OMITTED_ZEROS: Final[Mapping[str, tuple[str, ...]]] = {_API + name: fields for name, fields in _ZEROS.items()}
"""Numbers and truth values that are the same when they are zero as when they aren't there: no pointers in Go."""

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
    "apps.v1.DaemonSetSpec": {"revisionHistoryLimit": 10, "template": {}, "updateStrategy": {}},
    "apps.v1.DaemonSetUpdateStrategy": {"type": "RollingUpdate"},
    "apps.v1.DeploymentSpec": {
        "replicas": 1,
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
        "strategy": {},
        "template": {},
    },
    "apps.v1.DeploymentStrategy": {"type": "RollingUpdate"},
    "apps.v1.ReplicaSetSpec": {"replicas": 1, "template": {}},
    "apps.v1.StatefulSetSpec": {
        "replicas": 1,
        "revisionHistoryLimit": 10,
        "podManagementPolicy": "OrderedReady",
        "template": {},
        "updateStrategy": {},
        "persistentVolumeClaimRetentionPolicy": {},
    },
    "apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
    "apps.v1.StatefulSetUpdateStrategy": {"type": "RollingUpdate"},
    "autoscaling.v1.HorizontalPodAutoscalerSpec": {"minReplicas": 1},
    "autoscaling.v2.HorizontalPodAutoscalerSpec": {"minReplicas": 1},
    "batch.v1.JobSpec": {"template": {}},
    "batch.v1.JobTemplateSpec": {"metadata": {}, "spec": {}},
    "batch.v1.CronJobSpec": {
        "concurrencyPolicy": "Allow",
        "jobTemplate": {},
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
    "core.v1.ContainerStatus": {
        "image": "",
        "imageID": "",
        "lastState": {},
        "ready": False,
        "restartCount": 0,
        "state": {},
    },
    "core.v1.DownwardAPIVolumeSource": _MODE,
    "core.v1.EndpointPort": {"protocol": "TCP"},
    "core.v1.EphemeralContainer": _CONTAINER,
    "core.v1.GRPCAction": {"service": ""},
    "core.v1.HTTPGetAction": {"path": "/", "scheme": "HTTP"},
    "core.v1.HTTPHeader": {"value": ""},
    "core.v1.HostPathVolumeSource": {"type": ""},
    "core.v1.ISCSIPersistentVolumeSource": {"iscsiInterface": "default", "lun": 0},
    "core.v1.ISCSIVolumeSource": {"iscsiInterface": "default", "lun": 0},
    "core.v1.ObjectFieldSelector": {"apiVersion": "v1"},
    "core.v1.PersistentVolumeClaimSpec": {"volumeMode": "Filesystem"},
    "core.v1.PersistentVolumeSpec": {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"},
    "core.v1.PodTemplate": {"template": {}},
    "core.v1.PodTemplateSpec": {"metadata": {}, "spec": {}},
    "core.v1.PodSpec": {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
    },
    "core.v1.PreferredSchedulingTerm": {"preference": {}},
    "core.v1.Probe": _PROBE,
    "core.v1.ProjectedVolumeSource": _MODE,
    "core.v1.RBDPersistentVolumeSource": _RBD,
    "core.v1.RBDVolumeSource": _RBD,
    "core.v1.ReplicationControllerSpec": {"replicas": 1},
    "core.v1.ScaleIOPersistentVolumeSource": _SCALE_IO,
    "core.v1.ScaleIOVolumeSource": _SCALE_IO,
    "core.v1.SecretVolumeSource": _MODE,
    "core.v1.SleepAction": {"seconds": 0},
    "core.v1.Sysctl": {"value": ""},
    "core.v1.ServiceAccountTokenProjection": {"expirationSeconds": 3600},
    "core.v1.ServicePort": {"protocol": "TCP"},
    "core.v1.ServiceSpec": {"type": "ClusterIP", "sessionAffinity": "None"},
    "resource.v1.Counter": {"value": "0"},
    "resource.v1.DeviceCapacity": {"value": "0"},
    "resource.v1.ResourceClaimSpec": {"devices": {}},
    "resource.v1.ResourceClaimTemplateSpec": {"metadata": {}, "spec": {}},
    "resource.v1.ResourcePool": {"generation": 0},
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
