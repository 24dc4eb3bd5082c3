"""How Go's own types look inside kube-apiserver: their fields in order, which errors about whole values show.

A table only. A field is ``Name``, ``Name=json`` where the name in JSON isn't the same with a small first letter, then
``:`` and what it is: ``s`` a text, ``i`` a number, ``b`` a truth, a type for a struct that is always there, ``?Type``
for a pointer to one, ``[]Type`` for a list of structs. Without ``:`` it is anything that may be null: pointers to
scalars, lists of texts, maps, and what is shown as clients write it.
Source: Kubernetes' internal types, ``pkg/apis/*/types.go``. See also: `trees`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

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
"""By type. A type that isn't here, such as a volume of a pod, is shown as clients write it."""
