"""Short ways to reach into objects that are plain dicts, and how Go's own types look inside kube-apiserver.

Source of the table: Kubernetes' internal types, ``pkg/apis/*/types.go``.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError
from oarlock.meta.json_trees import Tree

Settle = Callable[[Tree], None]
"""Completes an object in place."""

Update = Callable[[Tree, Tree, Context], None]
"""Completes a changed object in place; the second is the object before."""

StatusCheck = Callable[[Tree, Tree, Context], Iterable[FieldError]]
"""The errors in an object after a write to its status; the second is the object before."""

TreeCheck = Callable[[Tree, Tree | None, Context], Iterable[FieldError]]
"""The errors in an object; the second is the object before."""


def at(tree: Any, path: str, default: Any = None) -> Any:
    """The value at a dotted path; `default` where it is absent or null."""
    for name in path.split("."):
        tree = tree.get(name) if isinstance(tree, dict) else None
    return default if tree is None else tree


def below(tree: Tree, name: str) -> Tree:
    """The object in a field, which is made if it isn't there."""
    found: Tree | None = tree.get(name)
    if found is None:
        found = tree[name] = {}
    return found


_OF_CONTEXT: Final = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers")
_ZEROS: Final[Mapping[str, Any]] = {"s": "", "i": 0, "b": False}


def go_value(kind: str, value: Mapping[str, Any] | None) -> Any:
    """An object of Go's type `kind`; None for a pointer to nothing."""
    if value is None or kind not in SHAPES:
        return _sorted(value)
    return {name: _field(what, value.get(key)) for name, key, what in _fields(kind)}


def go_list(kind: str, values: Any) -> Any:
    """A list of such objects; one that isn't there is null."""
    return None if values is None else [go_value(kind, item) for item in values]


def go_diff(kind: str, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> str:
    """What an update would change in an object, line by line, after the message that forbids it."""
    before, after = (f"{json.dumps(go_value(kind, tree), indent=1, ensure_ascii=False)}\n" for tree in (old, new))
    lines = difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True))
    return "".join([*lines][2:])


def go_pod(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The specification of a pod with what Go keeps in its security context."""
    context = {**(spec.get("securityContext") or {})}
    context.update((name, spec[name]) for name in _OF_CONTEXT if spec.get(name) is not None)
    return {**spec, "securityContext": context}


def _fields(kind: str) -> tuple[tuple[str, str, str], ...]:
    """The fields of a type: Go's name, the name in JSON, and what it is."""
    fields = []
    for part in SHAPES[kind].split():
        names, _, what = part.partition(":")
        name, _, key = names.partition("=")
        fields.append((name, key or f"{name[:1].lower()}{name[1:]}", what))
    return tuple(fields)


def _field(what: str, value: Any) -> Any:
    if what in _ZEROS:
        return _ZEROS[what] if value is None else value
    if what.startswith("[]"):
        return go_list(what[2:], value)
    if what.startswith("?"):
        return go_value(what[1:], value)
    return go_value(what, value or {}) if what else _sorted(value)


def _sorted(value: Any) -> Any:
    """What Go shows as clients write it: the keys of its maps are in order, as are selectors' fields."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value, key=_place)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def _place(key: str) -> tuple[bool, str]:
    return key != "matchLabels", key


_CONTAINER: Final = (
    "Name:s Image:s Command Args WorkingDir:s Ports:[]ContainerPort EnvFrom:[]EnvFromSource Env:[]EnvVar "
    "Resources:ResourceRequirements ResizePolicy:[]ContainerResizePolicy RestartPolicy "
    "RestartPolicyRules:[]ContainerRestartRule VolumeMounts:[]VolumeMount VolumeDevices:[]VolumeDevice "
    "LivenessProbe:?Probe ReadinessProbe:?Probe StartupProbe:?Probe Lifecycle:?Lifecycle TerminationMessagePath:s "
    "TerminationMessagePolicy:s ImagePullPolicy:s SecurityContext:?SecurityContext Stdin:b StdinOnce:b TTY=tty:b"
)
_HANDLER: Final = "Exec:?ExecAction HTTPGet=httpGet:?HTTPGetAction TCPSocket=tcpSocket:?TCPSocketAction"
_DEVICES: Final = "Selectors:[]DeviceSelector AllocationMode:s Count:i"
_REFERENCE: Final = "Name:s Namespace:s"

SHAPES: Final[Mapping[str, str]] = {
    "AppArmorProfile": "Type:s LocalhostProfile",
    "Affinity": "NodeAffinity:?NodeAffinity PodAffinity:?PodAffinity PodAntiAffinity:?PodAffinity",
    "CELDeviceSelector": "Expression:s",
    "CSINodeDriver": "Name:s NodeID=nodeID:s TopologyKeys Allocatable:?VolumeNodeResources",
    "CSIPersistentVolumeSource": (
        "Driver:s VolumeHandle:s ReadOnly:b FSType=fsType:s VolumeAttributes "
        "ControllerPublishSecretRef:?SecretReference NodeStageSecretRef:?SecretReference "
        "NodePublishSecretRef:?SecretReference ControllerExpandSecretRef:?SecretReference "
        "NodeExpandSecretRef:?SecretReference"
    ),
    "Capabilities": "Add Drop",
    "ConfigMapEnvSource": "Name:s Optional",
    "Container": _CONTAINER,
    "ContainerPort": "Name:s HostPort:i ContainerPort:i Protocol:s HostIP=hostIP:s",
    "ContainerResizePolicy": "ResourceName:s RestartPolicy:s",
    "ContainerRestartRule": "Action:s ExitCodes:?ContainerRestartRuleOnExitCodes",
    "ContainerRestartRuleOnExitCodes": "Operator:s Values",
    "DeviceAttribute": (
        "IntValue=int BoolValue=bool StringValue=string VersionValue=version IntValues=ints BoolValues=bools "
        "StringValues=strings VersionValues=versions"
    ),
    "DeviceClaim": "Requests:[]DeviceRequest Constraints:[]DeviceConstraint Config:[]DeviceConfiguration",
    "DeviceConfiguration": "Requests Opaque:?OpaqueDeviceConfiguration",
    "DeviceConstraint": "Requests MatchAttribute DistinctAttribute",
    "DeviceRequest": "Name:s Exactly:?ExactDeviceRequest FirstAvailable:[]DeviceSubRequest",
    "DeviceSelector": "CEL=cel:?CELDeviceSelector",
    "DeviceSubRequest": f"Name:s DeviceClassName:s {_DEVICES} Tolerations:[]DeviceToleration Capacity",
    "DeviceToleration": "Key:s Operator:s Value:s Effect:s TolerationSeconds",
    "EnvFromSource": "Prefix:s ConfigMapRef:?ConfigMapEnvSource SecretRef:?ConfigMapEnvSource",
    "EnvVar": "Name:s Value:s ValueFrom:?EnvVarSource",
    "EnvVarSource": (
        "FieldRef:?ObjectFieldSelector ResourceFieldRef:?ResourceFieldSelector ConfigMapKeyRef:?KeySelector "
        "SecretKeyRef:?KeySelector FileKeyRef:?FileKeySelector"
    ),
    "EphemeralContainer": f"{_CONTAINER} TargetContainerName:s",
    "EventSource": "Component:s Host:s",
    "ExactDeviceRequest": f"DeviceClassName:s {_DEVICES} AdminAccess Tolerations:[]DeviceToleration Capacity",
    "ExecAction": "Command",
    "FileKeySelector": "VolumeName:s Path:s Key:s Optional",
    "GRPCAction": "Port:i Service",
    "HTTPGetAction": "Path:s Port:i Host:s Scheme:s HTTPHeaders=httpHeaders:[]HTTPHeader",
    "HTTPHeader": "Name:s Value:s",
    "HostAlias": "IP=ip:s Hostnames",
    "HostPathVolumeSource": "Path:s Type",
    "KeySelector": "Name:s Key:s Optional",
    "Lifecycle": "PostStart:?LifecycleHandler PreStop:?LifecycleHandler StopSignal",
    "LifecycleHandler": f"{_HANDLER} Sleep:?SleepAction",
    "LocalObjectReference": "Name:s",
    "LocalVolumeSource": "Path:s FSType=fsType",
    "NFSVolumeSource": "Server:s Path:s ReadOnly:b",
    "NodeAddress": "Type:s Address:s",
    "NodeAffinity": (
        "RequiredDuringSchedulingIgnoredDuringExecution:?NodeSelector "
        "PreferredDuringSchedulingIgnoredDuringExecution:[]PreferredSchedulingTerm"
    ),
    "NodeSelector": "NodeSelectorTerms:[]NodeSelectorTerm",
    "NodeSelectorRequirement": "Key:s Operator:s Values",
    "NodeSelectorTerm": "MatchExpressions:[]NodeSelectorRequirement MatchFields:[]NodeSelectorRequirement",
    "ObjectFieldSelector": "APIVersion=apiVersion:s FieldPath:s",
    "ObjectReference": ("Kind:s Namespace:s Name:s UID=uid:s APIVersion=apiVersion:s ResourceVersion:s FieldPath:s"),
    "OpaqueDeviceConfiguration": "Driver:s Parameters",
    "PersistentVolumeClaimSpec": (
        "AccessModes Selector Resources:VolumeResourceRequirements VolumeName:s StorageClassName VolumeMode "
        "DataSource:?TypedLocalObjectReference DataSourceRef:?TypedObjectReference VolumeAttributesClassName"
    ),
    "PersistentVolumeSource": (
        "GCEPersistentDisk=gcePersistentDisk AWSElasticBlockStore=awsElasticBlockStore HostPath:?HostPathVolumeSource "
        "Glusterfs NFS=nfs:?NFSVolumeSource RBD=rbd Quobyte ISCSI=iscsi FlexVolume Cinder CephFS=cephfs FC=fc Flocker "
        "AzureFile VsphereVolume AzureDisk PhotonPersistentDisk PortworxVolume ScaleIO Local:?LocalVolumeSource "
        "StorageOS=storageos CSI=csi:?CSIPersistentVolumeSource"
    ),
    "PodAffinity": (
        "RequiredDuringSchedulingIgnoredDuringExecution:[]PodAffinityTerm "
        "PreferredDuringSchedulingIgnoredDuringExecution:[]WeightedPodAffinityTerm"
    ),
    "PodAffinityTerm": ("LabelSelector Namespaces TopologyKey:s NamespaceSelector MatchLabelKeys MismatchLabelKeys"),
    "PodDNSConfig": "Nameservers Searches Options:[]PodDNSConfigOption",
    "PodDNSConfigOption": "Name:s Value",
    "PodDisruptionBudgetSpec": "MinAvailable Selector MaxUnavailable UnhealthyPodEvictionPolicy",
    "PodFailurePolicy": "Rules:[]PodFailurePolicyRule",
    "PodFailurePolicyOnExitCodes": "ContainerName Operator:s Values",
    "PodFailurePolicyOnPodCondition": "Type:s Status:s",
    "PodFailurePolicyRule": (
        "Action:s OnExitCodes:?PodFailurePolicyOnExitCodes OnPodConditions:[]PodFailurePolicyOnPodCondition"
    ),
    "PodIP": "IP=ip:s",
    "PodOS": "Name:s",
    "PodReadinessGate": "ConditionType:s",
    "PodResourceClaim": "Name:s ResourceClaimName ResourceClaimTemplateName",
    "PodSchedulingGate": "Name:s",
    "PodSecurityContext": (
        "HostNetwork:b HostPID=hostPID:b HostIPC=hostIPC:b ShareProcessNamespace HostUsers "
        "SELinuxOptions=seLinuxOptions:?SELinuxOptions WindowsOptions:?WindowsOptions RunAsUser RunAsGroup "
        "RunAsNonRoot SupplementalGroups SupplementalGroupsPolicy FSGroup=fsGroup "
        "FSGroupChangePolicy=fsGroupChangePolicy Sysctls:[]Sysctl SeccompProfile:?SeccompProfile "
        "AppArmorProfile:?AppArmorProfile SELinuxChangePolicy=seLinuxChangePolicy"
    ),
    "PodSpec": (
        "Volumes:[]Volume InitContainers:[]Container Containers:[]Container EphemeralContainers:[]EphemeralContainer "
        "RestartPolicy:s TerminationGracePeriodSeconds ActiveDeadlineSeconds DNSPolicy=dnsPolicy:s NodeSelector "
        "ServiceAccountName:s AutomountServiceAccountToken NodeName:s SecurityContext:?PodSecurityContext "
        "ImagePullSecrets:[]LocalObjectReference Hostname:s Subdomain:s SetHostnameAsFQDN=setHostnameAsFQDN "
        "Affinity:?Affinity SchedulerName:s Tolerations:[]Toleration HostAliases:[]HostAlias PriorityClassName:s "
        "Priority PreemptionPolicy DNSConfig=dnsConfig:?PodDNSConfig ReadinessGates:[]PodReadinessGate "
        "RuntimeClassName Overhead EnableServiceLinks TopologySpreadConstraints:[]TopologySpreadConstraint "
        "OS=os:?PodOS SchedulingGates:[]PodSchedulingGate ResourceClaims:[]PodResourceClaim "
        "Resources:?ResourceRequirements HostnameOverride SchedulingGroup"
    ),
    "PreferredSchedulingTerm": "Weight:i Preference:NodeSelectorTerm",
    "Probe": (
        f"{_HANDLER} GRPC=grpc:?GRPCAction InitialDelaySeconds:i TimeoutSeconds:i PeriodSeconds:i SuccessThreshold:i "
        "FailureThreshold:i TerminationGracePeriodSeconds"
    ),
    "ResourceClaim": "Name:s Request:s",
    "ResourceClaimSpec": "Devices:DeviceClaim",
    "ResourceClaimTemplateSpec": "Spec:ResourceClaimSpec",
    "ResourceFieldSelector": "ContainerName:s Resource:s Divisor",
    "ResourceRequirements": "Limits Requests Claims:[]ResourceClaim",
    "RollingUpdateStatefulSetStrategy": "Partition MaxUnavailable",
    "SELinuxOptions": "User:s Role:s Type:s Level:s",
    "SeccompProfile": "Type:s LocalhostProfile",
    "SecretReference": _REFERENCE,
    "SecurityContext": (
        "Capabilities:?Capabilities Privileged SELinuxOptions=seLinuxOptions:?SELinuxOptions "
        "WindowsOptions:?WindowsOptions RunAsUser RunAsGroup RunAsNonRoot ReadOnlyRootFilesystem "
        "AllowPrivilegeEscalation ProcMount SeccompProfile:?SeccompProfile AppArmorProfile:?AppArmorProfile"
    ),
    "ServiceCIDRSpec": "CIDRs=cidrs",
    "SleepAction": "Seconds:i",
    "StatefulSetUpdateStrategy": "Type:s RollingUpdate:?RollingUpdateStatefulSetStrategy",
    "SuccessPolicy": "Rules:[]SuccessPolicyRule",
    "SuccessPolicyRule": "SucceededIndexes SucceededCount",
    "Sysctl": "Name:s Value:s",
    "TCPSocketAction": "Port:i Host:s",
    "Taint": "Key:s Value:s Effect:s TimeAdded",
    "Toleration": "Key:s Operator:s Value:s Effect:s TolerationSeconds",
    "TopologySpreadConstraint": (
        "MaxSkew:i TopologyKey:s WhenUnsatisfiable:s LabelSelector MinDomains NodeAffinityPolicy NodeTaintsPolicy "
        "MatchLabelKeys"
    ),
    "TypedLocalObjectReference": "APIGroup=apiGroup Kind:s Name:s",
    "TypedObjectReference": "APIGroup=apiGroup Kind:s Name:s Namespace",
    "Volume": (
        "Name:s HostPath:?HostPathVolumeSource EmptyDir GCEPersistentDisk=gcePersistentDisk "
        "AWSElasticBlockStore=awsElasticBlockStore GitRepo Secret NFS=nfs:?NFSVolumeSource ISCSI=iscsi Glusterfs "
        "PersistentVolumeClaim RBD=rbd Quobyte FlexVolume Cinder CephFS=cephfs Flocker DownwardAPI FC=fc AzureFile "
        "ConfigMap VsphereVolume AzureDisk PhotonPersistentDisk Projected PortworxVolume ScaleIO StorageOS=storageos "
        "CSI=csi Ephemeral Image"
    ),
    "VolumeAttachmentSource": "PersistentVolumeName InlineVolumeSpec",
    "VolumeAttachmentSpec": "Attacher:s Source:VolumeAttachmentSource NodeName:s",
    "VolumeDevice": "Name:s DevicePath:s",
    "VolumeMount": ("Name:s ReadOnly:b RecursiveReadOnly MountPath:s SubPath:s MountPropagation SubPathExpr:s"),
    "VolumeNodeResources": "Count",
    "VolumeResourceRequirements": "Limits Requests",
    "WeightedPodAffinityTerm": "Weight:i PodAffinityTerm:PodAffinityTerm",
    "WindowsOptions": (
        "GMSACredentialSpecName=gmsaCredentialSpecName GMSACredentialSpec=gmsaCredentialSpec RunAsUserName HostProcess"
    ),
}
"""By type, its fields in order, which errors about whole values show.

A field is ``Name``, ``Name=json`` where the name in JSON isn't the same with a small first letter, then ``:`` and what
it is: ``s`` a text, ``i`` a number, ``b`` a truth, a type for a struct that is always there, ``?Type`` for a pointer to
one, ``[]Type`` for a list of structs. Without ``:`` it is anything that may be null: pointers to scalars, lists of
texts, maps, and what is shown as clients write it. A type that isn't here, such as a volume of a pod, is shown as
clients write it.
"""
