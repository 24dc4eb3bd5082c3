"""The volumes of pods: exactly one source each, and what each kind of source needs.

Source: Kubernetes' validation of core/v1, ``validateVolumeSource``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from oarlock.apps.kinds.common.trees import at
from oarlock.apps.kinds.common.values import (
    check_mode,
    check_no_backsteps,
    check_range,
    check_required_name,
    check_text,
)
from oarlock.apps.kinds.pods.resources import quantity
from oarlock.apps.kinds.pods.sources import check_downward_file, check_keys, check_local_path
from oarlock.meta import names
from oarlock.meta.fielderrors import Duplicate, FieldError, Forbidden, Invalid, NotFoundValue, NotSupported, Required
from oarlock.meta.json_trees import Tree
from oarlock.meta.quantities import Quantity

CheckClaim = Callable[[Tree, str], Iterator[FieldError]]
"""The rules of the specification of a claim, which the template in an ephemeral volume has too."""

_ORDER: Final = (
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
)
"""The sources in the order in which they are looked at: the first counts, others are too many."""

_REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    "awsElasticBlockStore": ("volumeID",),
    "azureFile": ("secretName", "shareName"),
    "cephfs": ("monitors",),
    "cinder": ("volumeID",),
    "configMap": ("name",),
    "flexVolume": ("driver",),
    "gcePersistentDisk": ("pdName",),
    "gitRepo": ("repository",),
    "glusterfs": ("endpoints", "path"),
    "hostPath": ("path",),
    "image": ("reference",),
    "persistentVolumeClaim": ("claimName",),
    "photonPersistentDisk": ("pdID",),
    "portworxVolume": ("volumeID",),
    "rbd": ("monitors", "image"),
    "scaleIO": ("gateway", "system", "volumeName"),
    "secret": ("secretName",),
    "vsphereVolume": ("volumePath",),
}
"""The fields that a source mustn't leave empty."""

_WHERE: Final = {"gcePersistentDisk": "persistentDisk"}
_HOST_TYPES: Final = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_IQN: Final = re.compile(
    r"iqn\.\d{4}-\d{2}\.[A-Za-z0-9.-]+:[^,;*&$|\s]+$|eui.[A-Za-z0-9]{16}$|naa.[A-Za-z0-9]{32}$", re.ASCII
)
_SIGNED: Final = ("iqn", "eui", "naa")
_PROJECTED: Final = (
    "secret",
    "configMap",
    "downwardAPI",
    "serviceAccountToken",
    "clusterTrustBundle",
    "podCertificate",
)
_SHARED_PATH: Final = "conflicting duplicate paths"


def check_volumes(volumes: Sequence[Tree], path: str, pod: str, check_claim: CheckClaim) -> Iterator[FieldError]:
    """The volumes of a pod called `pod`, which is empty for a template."""
    known: set[str] = set()
    for i, volume in enumerate(volumes):
        name, where = volume.get("name") or "", f"{path}[{i}]"
        yield from check_volume_source(volume, where, check_claim)
        if not name:
            yield Required(f"{where}.name")
        elif complaints := names.dns1123_label(name):
            yield from (Invalid(f"{where}.name", name, complaint) for complaint in complaints)
        elif name in known:
            yield Duplicate(f"{where}.name", name)
        known.add(name)
        if pod and name and volume.get("ephemeral") is not None:
            for complaint in names.dns1123_subdomain(f"{pod}-{name}"):
                yield Invalid(f"{where}.name", name, f'PVC name "{pod}-{name}": {complaint}')


def check_volume_source(volume: Tree, path: str, check_claim: CheckClaim) -> Iterator[FieldError]:
    """The one source of a volume."""
    given = [name for name in _ORDER if volume.get(name) is not None]
    if not given:
        yield Required(path, "must specify a volume type")
    for name in given[1:]:
        yield Forbidden(f"{path}.{name}", "may not specify more than 1 volume type")
    for name in given[:1]:
        source, where = volume[name], f"{path}.{_WHERE.get(name, name)}"
        for field in _REQUIRED.get(name, ()):
            if not source.get(field):
                yield Required(f"{where}.{field}")
        if name == "ephemeral":
            yield from _check_ephemeral(source, where, check_claim)
        elif name in _RULES:
            yield from _RULES[name](source, where)


def _check_empty_dir(source: Tree, path: str) -> Iterator[FieldError]:
    limit = quantity(source.get("sizeLimit"))
    if limit is not None and limit < Quantity():
        yield Forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _check_host_path(source: Tree, path: str) -> Iterator[FieldError]:
    yield from check_no_backsteps(source.get("path") or "", f"{path}.path")
    kind = source.get("type")
    if kind is not None and kind not in _HOST_TYPES:
        yield NotSupported(f"{path}.type", kind, _HOST_TYPES)


def _check_nfs(source: Tree, path: str) -> Iterator[FieldError]:
    place = source.get("path") or ""
    if not source.get("server"):
        yield Required(f"{path}.server")
    if not place:
        yield Required(f"{path}.path")
    if not place.startswith("/"):
        yield Invalid(f"{path}.path", place, "must be an absolute path")


def _check_secret(source: Tree, path: str) -> Iterator[FieldError]:
    yield from check_mode(source.get("defaultMode"), f"{path}.defaultMode")
    yield from check_keys(source.get("items") or (), f"{path}.items")


def _check_downward(source: Tree, path: str) -> Iterator[FieldError]:
    yield from check_mode(source.get("defaultMode"), f"{path}.defaultMode")
    for file in source.get("items") or ():
        yield from check_downward_file(file, path)


def _check_iqn(name: str, path: str) -> Iterator[FieldError]:
    if not name.startswith(_SIGNED):
        yield Invalid(path, name, "must be valid format starting with iqn, eui, or naa")
    elif not _IQN.match(name):
        yield Invalid(path, name, "must be valid format")


def _check_iscsi(source: Tree, path: str) -> Iterator[FieldError]:
    if not source.get("targetPortal"):
        yield Required(f"{path}.targetPortal")
    if not source.get("iqn"):
        yield Required(f"{path}.iqn")
    else:
        yield from _check_iqn(source["iqn"], f"{path}.iqn")
    yield from check_range(source.get("lun"), 0, 255, f"{path}.lun")
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and source.get("secretRef") is None:
        yield Required(f"{path}.secretRef")
    if source.get("initiatorName") is not None:
        yield from _check_iqn(source["initiatorName"], f"{path}.initiatorname")


def _check_fc(source: Tree, path: str) -> Iterator[FieldError]:
    worldwide, ids = source.get("targetWWNs"), source.get("wwids")
    if not worldwide and not ids:
        yield Required(f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both")
    if worldwide and ids:
        yield Invalid(f"{path}.targetWWNs", worldwide, "targetWWNs and wwids can not be specified simultaneously")
    if worldwide and source.get("lun") is None:
        yield Required(f"{path}.lun", "lun is required if targetWWNs is specified")
    elif worldwide:
        yield from check_range(source["lun"], 0, 255, f"{path}.lun")


def _check_azure_disk(source: Tree, path: str) -> Iterator[FieldError]:
    disk, caching, kind = source.get("diskURI") or "", source.get("cachingMode"), source.get("kind")
    for field in ("diskName", "diskURI"):
        if not source.get(field):
            yield Required(f"{path}.{field}")
    if caching is not None and caching not in ("None", "ReadOnly", "ReadWrite"):
        yield NotSupported(f"{path}.cachingMode", caching, ("None", "ReadOnly", "ReadWrite"))
    if kind is not None and kind not in ("Dedicated", "Managed", "Shared"):
        yield NotSupported(f"{path}.kind", kind, ("Dedicated", "Managed", "Shared"))
    if kind == "Managed" and not disk.startswith("/subscriptions/"):
        place = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
        yield NotSupported(f"{path}.diskURI", disk, (place,))
    elif kind not in (None, "Managed") and not disk.startswith("https://"):
        place = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
        yield NotSupported(f"{path}.diskURI", disk, (place,))


def check_csi_driver_name(name: str, path: str) -> Iterator[FieldError]:
    """The name of a CSI driver."""
    if not name:
        yield Required(path)
        return
    if len(name) > 63:
        yield Invalid(path, name, "may not be more than 63 bytes")
    for complaint in names.dns1123_subdomain(name.lower()):
        yield Invalid(path, name, complaint)


def _check_csi(source: Tree, path: str) -> Iterator[FieldError]:
    yield from check_csi_driver_name(source.get("driver") or "", f"{path}.driver")
    secret = source.get("nodePublishSecretRef")
    if secret is not None:
        yield from check_required_name(names.dns1123_subdomain, secret.get("name"), f"{path}.nodePublishSecretRef.name")


def _check_flocker(source: Tree, path: str) -> Iterator[FieldError]:
    name, uid = source.get("datasetName") or "", source.get("datasetUUID")
    if not name and not uid:
        yield Required(path, "one of datasetName and datasetUUID is required")
    if name and uid:
        yield Invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously")
    if "/" in name:
        yield Invalid(f"{path}.datasetName", name, "must not contain '/'")


def _check_git(source: Tree, path: str) -> Iterator[FieldError]:
    yield from check_local_path(source.get("directory") or "", f"{path}.directory")


def _check_quobyte(source: Tree, path: str) -> Iterator[FieldError]:
    registry, pairs = source.get("registry") or "", "must be a host:port pair or multiple pairs separated by commas"
    if not registry:
        yield Required(f"{path}.registry", pairs)
    elif len(source.get("tenant") or "") >= 65:
        yield Required(f"{path}.tenant", "must be a UUID and may not exceed a length of 64 characters")
    else:
        for pair in registry.split(","):
            if not re.fullmatch(r"(\[[^\[\]]*\]|[^:\[\]]*):[^:\[\]]*", pair):
                yield Invalid(f"{path}.registry", registry, pairs)
    if not source.get("volume"):
        yield Required(f"{path}.volume")


def _check_storage_os(source: Tree, path: str) -> Iterator[FieldError]:
    yield from check_required_name(names.dns1123_label, source.get("volumeName"), f"{path}.volumeName")
    if source.get("volumeNamespace"):
        yield from check_text(names.dns1123_label, source["volumeNamespace"], f"{path}.volumeNamespace")
    if source.get("secretRef") is not None and not source["secretRef"].get("name"):
        yield Required(f"{path}.secretRef.name")


def _check_image(source: Tree, path: str) -> Iterator[FieldError]:
    policy = source.get("pullPolicy")
    if policy and policy not in ("Always", "IfNotPresent", "Never"):
        yield NotSupported(f"{path}.pullPolicy", policy, ("Always", "IfNotPresent", "Never"))


def _check_ephemeral(source: Tree, path: str, check_claim: CheckClaim) -> Iterator[FieldError]:
    template, where = source.get("volumeClaimTemplate"), f"{path}.volumeClaimTemplate"
    if template is None:
        yield Required(where)
        return
    for field in sorted((template.get("metadata") or {}).keys() - {"annotations", "labels"}):
        yield Forbidden(f"{where}.metadata.{field}", "cannot be set")
    yield from check_claim(template.get("spec") or {}, f"{where}.spec")


def _check_projected(source: Tree, path: str) -> Iterator[FieldError]:
    yield from check_mode(source.get("defaultMode"), f"{path}.defaultMode")
    paths: set[str] = set()
    for i, projected in enumerate(source.get("sources") or ()):
        where = f"{path}.sources[{i}]"
        given = [kind for kind in _PROJECTED if projected.get(kind) is not None]
        for kind in given:
            yield from _check_projection(kind, projected[kind], path, f"{where}.{kind}")
            for place, named in _places(kind, projected[kind]):
                if place in paths:
                    yield Invalid(path, named, _SHARED_PATH)
                paths.add(place)
        if len(given) > 1:
            yield Forbidden(where, "may not specify more than 1 volume type per source")


def _check_projection(kind: str, source: Tree, path: str, where: str) -> Iterator[FieldError]:
    if kind in ("secret", "configMap"):
        if not source.get("name"):
            yield Required(f"{where}.name")
        yield from check_keys(source.get("items") or (), f"{where}.items")
    elif kind == "downwardAPI":
        for file in source.get("items") or ():
            yield from check_downward_file(file, where)
    elif kind == "serviceAccountToken":
        seconds = source.get("expirationSeconds") or 0
        if seconds < 600:
            yield Invalid(f"{where}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
        if seconds > 2**32:
            yield Invalid(f"{where}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
        if not source.get("path"):
            yield Required(f"{path}.path")
        else:
            yield from check_local_path(source["path"], f"{path}.path")
    elif kind == "clusterTrustBundle":
        yield from _check_bundle(source, where)


def _check_bundle(source: Tree, where: str) -> Iterator[FieldError]:
    name, signer = source.get("name"), source.get("signerName")
    if name is not None and signer is not None:
        yield Invalid(where, source, "only one of name and signerName may be used")
    elif name is not None:
        if not name:
            yield Required(f"{where}.name", "must be a valid object name")
        if source.get("labelSelector") is not None:
            why = "labelSelector must be unset if name is specified"
            yield Invalid(f"{where}.labelSelector", source["labelSelector"], why)
    elif signer is None:
        yield Required(where, "either name or signerName must be specified")
    elif not signer:
        yield Required(f"{where}.signerName", "must be a valid signer name")
    if not source.get("path"):
        yield Required(f"{where}.path")
    yield from check_local_path(source.get("path") or "", f"{where}.path")


def _places(kind: str, source: Tree) -> Iterator[tuple[str, Any]]:
    """The files of a projected source, each with what an error names."""
    if kind in ("secret", "configMap", "downwardAPI"):
        for item in source.get("items") or ():
            if item.get("path"):
                yield item["path"], item["path"] if kind == "downwardAPI" else source.get("name") or ""
    elif kind == "clusterTrustBundle":
        yield source.get("path") or "", source.get("path") or ""
    elif kind == "podCertificate":
        for field in ("credentialBundlePath", "keyPath", "certificateChainPath"):
            if source.get(field):
                yield source[field], source[field]


_RULES: Final[Mapping[str, Callable[[Tree, str], Iterator[FieldError]]]] = {
    "azureDisk": _check_azure_disk,
    "configMap": _check_secret,
    "csi": _check_csi,
    "downwardAPI": _check_downward,
    "emptyDir": _check_empty_dir,
    "fc": _check_fc,
    "flocker": _check_flocker,
    "gitRepo": _check_git,
    "hostPath": _check_host_path,
    "image": _check_image,
    "iscsi": _check_iscsi,
    "nfs": _check_nfs,
    "projected": _check_projected,
    "quobyte": _check_quobyte,
    "secret": _check_secret,
    "storageos": _check_storage_os,
}


def check_mounts_and_devices(container: Tree, volumes: Mapping[str, Tree], path: str) -> Iterator[FieldError]:
    """Where a container has the volumes of its pod, as directories and as devices."""
    mounts, devices = container.get("volumeMounts") or (), container.get("volumeDevices") or ()
    yield from _check_mounts(container, mounts, devices, volumes, f"{path}.volumeMounts")
    yield from _check_devices(mounts, devices, volumes, f"{path}.volumeDevices")


def _check_mounts(
    container: Tree, mounts: Sequence[Tree], devices: Sequence[Tree], volumes: Mapping[str, Tree], path: str
) -> Iterator[FieldError]:
    places: set[str] = set()
    device_names, device_paths = ({device.get(field) for device in devices} for field in ("name", "devicePath"))
    for i, mount in enumerate(mounts):
        name, place, where = mount.get("name") or "", mount.get("mountPath") or "", f"{path}[{i}]"
        if not name:
            yield Required(f"{where}.name")
        if name not in volumes:
            yield NotFoundValue(f"{where}.name", name)
        if not place:
            yield Required(f"{where}.mountPath")
        if place in places:
            yield Invalid(f"{where}.mountPath", place, "must be unique")
        places.add(place)
        if name in device_names:
            yield Invalid(f"{where}.name", name, "must not already exist in volumeDevices")
        if place in device_paths:
            yield Invalid(f"{where}.mountPath", place, "must not already exist as a path in volumeDevices")
        yield from _check_sub_paths(mount, where, path)
        yield from _check_propagation(mount, container, path)


def _check_sub_paths(mount: Tree, where: str, path: str) -> Iterator[FieldError]:
    fixed, expression = mount.get("subPath") or "", mount.get("subPathExpr") or ""
    for field, text in (("subPath", fixed), ("subPathExpr", expression)):
        if field == "subPathExpr" and text and fixed:
            yield Invalid(f"{where}.subPathExpr", text, "subPathExpr and subPath are mutually exclusive")
        if text.startswith("/"):
            yield Invalid(f"{path}.{field}", text, "must be a relative path")
        yield from check_no_backsteps(text, f"{path}.{field}")


def _check_propagation(mount: Tree, container: Tree, path: str) -> Iterator[FieldError]:
    mode, recursive = mount.get("mountPropagation"), mount.get("recursiveReadOnly")
    modes, choices = ("Bidirectional", "HostToContainer", "None"), ("Disabled", "Enabled", "IfPossible")
    if mode is not None and mode not in modes:
        yield NotSupported(f"{path}.mountPropagation", mode, modes)
    if mode == "Bidirectional" and not at(container, "securityContext.privileged"):
        why = "Bidirectional mount propagation is available only to privileged containers"
        yield Forbidden(f"{path}.mountPropagation", why)
    if recursive in choices[1:]:
        if not mount.get("readOnly"):
            yield Forbidden(f"{path}.recursiveReadOnly", "may only be specified when readOnly is true")
        if mode not in (None, "None"):
            why = "may only be specified when mountPropagation is None or not specified"
            yield Forbidden(f"{path}.recursiveReadOnly", why)
    elif recursive is not None and recursive not in choices:
        yield NotSupported(f"{path}.recursiveReadOnly", recursive, choices)


def _check_devices(
    mounts: Sequence[Tree], devices: Sequence[Tree], volumes: Mapping[str, Tree], path: str
) -> Iterator[FieldError]:
    known: set[str] = set()
    places: set[str] = set()
    mount_names, mount_paths = ({mount.get(field) for mount in mounts} for field in ("name", "mountPath"))
    for i, device in enumerate(devices):
        name, place, where = device.get("name") or "", device.get("devicePath") or "", f"{path}[{i}]"
        volume = volumes.get(name)
        if not name:
            yield Required(f"{where}.name")
        if name in known:
            yield Invalid(f"{where}.name", name, "must be unique")
        if volume is None:
            yield NotFoundValue(f"{where}.name", name)
        elif not volume.keys() & {"persistentVolumeClaim", "ephemeral"}:
            why = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            yield Invalid(f"{where}.name", name, why)
        if not place:
            yield Required(f"{where}.devicePath")
        if place in places:
            yield Invalid(f"{where}.devicePath", place, "must be unique")
        if ".." in place.split("/"):
            yield Invalid(f"{where}.devicePath", place, "can not contain backsteps ('..')")
        else:
            places.add(place)
        if name in mount_names:
            yield Invalid(f"{where}.name", name, "must not already exist in volumeMounts")
        if place in mount_paths:
            yield Invalid(f"{where}.devicePath", place, "must not already exist as a path in volumeMounts")
        known.add(name)
