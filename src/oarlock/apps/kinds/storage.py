"""The kinds of storage.k8s.io: CSI drivers, nodes and capacities, classes of storage and volumes, attachments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.common.columns import NONE, UNSET, age, age_of, flag, number, text, values_at
from oarlock.apps.kinds.common.first_status import initial_status
from oarlock.apps.kinds.common.trees import at, go_value
from oarlock.apps.kinds.common.values import (
    IMMUTABLE,
    NON_NEGATIVE,
    check_label_selector,
    check_parameters,
    check_qualified_name,
    check_text,
    unchanged,
)
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.apps.kinds.pods.resources import quantity
from oarlock.apps.kinds.pods.volumes import check_csi_driver_name
from oarlock.meta import names
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import Duplicate, FieldError, Forbidden, Invalid, NotSupported, Required
from oarlock.meta.json_trees import Tree
from oarlock.meta.quantities import Quantity


def _validate_csi_driver(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    spec = new.get("spec") or {}
    for mode in spec.get("volumeLifecycleModes") or ():
        if mode not in ("Persistent", "Ephemeral"):
            yield NotSupported("spec.volumeLifecycleModes", mode, ("Persistent", "Ephemeral"))
    policy, policies = spec.get("fsGroupPolicy"), ("File", "None", "ReadWriteOnceWithFSType")
    if policy is not None and policy not in policies:
        yield NotSupported("spec.fsGroupPolicy", policy, policies)
    audiences: set[str] = set()
    for i, request in enumerate(spec.get("tokenRequests") or ()):
        yield from _check_request(request, audiences, f"spec.tokenRequests[{i}]")
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < 10:
        why = "must be greater than or equal to 10 seconds"
        yield Invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, why)
    if spec.get("serviceAccountTokenInSecrets") is not None and not spec.get("tokenRequests"):
        why = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        yield Invalid("spec.serviceAccountTokenInSecrets", spec["serviceAccountTokenInSecrets"], why)
    if old is not None:
        before = old.get("spec") or {}
        if spec.get("attachRequired") != before.get("attachRequired"):
            yield Invalid("spec.attachedRequired", spec.get("attachRequired"), IMMUTABLE)
        yield from unchanged(spec, before, "spec", "volumeLifecycleModes")
    if spec.get("tokenRequests") and spec.get("serviceAccountTokenInSecrets") is None:
        instead = (
            "if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes"
        )
        ctx.warn(f"spec.serviceAccountTokenInSecrets is unset; {instead}")


def _check_request(request: Tree, audiences: set[str], path: str) -> Iterator[FieldError]:
    audience, seconds = request.get("audience") or "", request.get("expirationSeconds")
    if audience in audiences:
        yield Duplicate(f"{path}.audience", audience)
    audiences.add(audience)
    if seconds is None:
        return
    if seconds < 600:
        yield Invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
    if seconds > 2**32:
        yield Invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")


def _update(new: Tree, old: Tree, ctx: Context) -> None:
    """A driver has no generation before it changes."""
    if new.get("spec") != old.get("spec"):
        new["metadata"]["generation"] = at(old, "metadata.generation", 0) + 1


def _row_csi_driver(tree: Tree, now: float) -> list[Any]:
    flags = [at(tree, f"spec.{name}", False) for name in ("attachRequired", "podInfoOnMount", "storageCapacity")]
    audiences = ",".join(request.get("audience", "") for request in at(tree, "spec.tokenRequests", [])) or UNSET
    modes = ",".join(at(tree, "spec.volumeLifecycleModes", [])) or NONE
    return [*flags, audiences, at(tree, "spec.requiresRepublish", False), modes, age_of(tree, now)]


CSI_DRIVER: Final = KindDeclaration(
    "storage.k8s.io",
    "v1",
    "CSIDriver",
    "csidrivers",
    namespaced=False,
    columns=(
        flag("AttachRequired"),
        flag("PodInfoOnMount"),
        flag("StorageCapacity"),
        text("TokenRequests"),
        flag("RequiresRepublish"),
        text("Modes"),
        age(),
    ),
    row=_row_csi_driver,
    update=_update,
    validate=_validate_csi_driver,
)


def _validate_csi_node(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    known: set[str] = set()
    for i, driver in enumerate(at(new, "spec.drivers", ())):
        name, node, path = driver.get("name") or "", driver.get("nodeID") or "", f"spec.drivers[{i}]"
        yield from check_csi_driver_name(name, f"{path}.name")
        if not node:
            yield Required(f"{path}.nodeID")
        elif len(node) > 256:
            yield Invalid(f"{path}.nodeID", node, "must be 256 characters or less")
        count = at(driver, "allocatable.count")
        if count is not None and count < 0:
            yield Invalid(f"{path}.allocatable.count", count, NON_NEGATIVE)
        keys: set[str] = set()
        for key in driver.get("topologyKeys") or ():
            if key in keys:
                yield Duplicate(path, key)
            keys.add(key)
            yield from check_qualified_name(key, path)
        if name and name in known:
            yield Duplicate(f"{path}.name", name)
        known.add(name)
    before = {driver.get("name"): driver for driver in at(old, "spec.drivers", ())}
    for driver in at(new, "spec.drivers", ()):
        was = before.get(driver.get("name"))
        if was is not None and any(driver.get(name) != was.get(name) for name in ("nodeID", "topologyKeys")):
            yield Invalid("spec.drivers", go_value("CSINodeDriver", driver), IMMUTABLE)


CSI_NODE: Final = KindDeclaration(
    "storage.k8s.io",
    "v1",
    "CSINode",
    "csinodes",
    namespaced=False,
    columns=(number("Drivers"), age()),
    row=lambda tree, now: [len(at(tree, "spec.drivers", [])), age_of(tree, now)],
    validate=_validate_csi_node,
)


def _validate_csi_storage_capacity(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    yield from check_text(names.dns1123_subdomain, new.get("storageClassName") or "", "storageClassName")
    yield from check_label_selector(new.get("nodeTopology"), "nodeTopology")
    amount = quantity(new.get("capacity"))
    if amount is not None and amount < Quantity():
        yield Invalid("capacity", str(new["capacity"]), NON_NEGATIVE)
    if old is not None:
        yield from unchanged(new, old, "", "nodeTopology", "storageClassName")


CSI_STORAGE_CAPACITY: Final = KindDeclaration(
    "storage.k8s.io",
    "v1",
    "CSIStorageCapacity",
    "csistoragecapacities",
    columns=(text("StorageClass"), text("Capacity")),
    row=lambda tree, now: [
        tree.get("storageClassName", ""),
        str(tree.get("capacity", "")),
    ],
    validate=_validate_csi_storage_capacity,
)

_FIELDS: Final = ("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode")


def _validate_storage_class(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    if old is not None:
        yield from unchanged(new, old, "", *_FIELDS)
        return
    provisioner, policy, mode = (new.get(name) or "" for name in ("provisioner", "reclaimPolicy", "volumeBindingMode"))
    if not provisioner:
        yield Required("provisioner")
    else:
        for complaint in names.qualified_name(provisioner.lower()):
            yield Invalid("provisioner", provisioner, complaint)
    yield from check_parameters(new.get("parameters"), "parameters")
    if policy and policy not in ("Delete", "Retain"):
        yield NotSupported("reclaimPolicy", policy, ("Delete", "Retain"))
    if not mode:
        yield Required("volumeBindingMode")
    elif mode not in ("Immediate", "WaitForFirstConsumer"):
        yield NotSupported("volumeBindingMode", mode, ("Immediate", "WaitForFirstConsumer"))
    known: set[object] = set()
    for i, term in enumerate(new.get("allowedTopologies") or ()):
        yield from _check_term(term, f"allowedTopologies[{i}]", known)


def _check_term(term: Tree, path: str, known: set[object]) -> Iterator[FieldError]:
    expressions, keys = term.get("matchLabelExpressions") or [], set()
    for i, expression in enumerate(expressions):
        where, key, values = f"{path}.matchLabelExpressions[{i}]", expression.get("key") or "", expression.get("values")
        if not values:
            yield Required(f"{where}.values")
        if len(set(values or ())) != len(values or ()):
            yield Duplicate(f"{where}.values", "")
        yield from check_qualified_name(key, f"{where}.key")
        if key in keys:
            yield Duplicate(f"{where}.key", key)
        keys.add(key)
    same = frozenset((expression.get("key"), frozenset(expression.get("values") or ())) for expression in expressions)
    if same in known or not expressions:
        yield Duplicate(f"{path}.matchLabelExpressions", "")
    known.add(same)


def _row_storage_class(tree: Tree, now: float) -> list[Any]:
    texts = [tree.get("provisioner", ""), tree.get("reclaimPolicy", ""), tree.get("volumeBindingMode", "")]
    return [*texts, bool(tree.get("allowVolumeExpansion")), age_of(tree, now)]


STORAGE_CLASS: Final = KindDeclaration(
    "storage.k8s.io",
    "v1",
    "StorageClass",
    "storageclasses",
    short_names=("sc",),
    namespaced=False,
    delete_returns="object",
    columns=(
        text("Provisioner"),
        text("ReclaimPolicy"),
        text("VolumeBindingMode"),
        flag("AllowVolumeExpansion"),
        age(),
    ),
    row=_row_storage_class,
    validate=_validate_storage_class,
)


def _validate_volume_attachment(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    spec = new.get("spec") or {}
    attacher, source = spec.get("attacher") or "", spec.get("source") or {}
    if old is not None:
        yield from unchanged(new, old, "", "spec", kind="VolumeAttachmentSpec")
        return
    yield from check_csi_driver_name(attacher, "spec.attacher")
    inline, name = source.get("inlineVolumeSpec"), source.get("persistentVolumeName")
    if inline is None and name is None:
        why = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
        yield Required("spec.source", why)
    elif inline is not None and name is not None:
        yield Forbidden("spec.source", "must specify exactly one of inlineVolumeSpec and persistentVolumeName")
    elif name is not None:
        if not name:
            yield Required("spec.source.persistentVolumeName", "must specify non empty persistentVolumeName")
        yield from check_text(names.dns1123_subdomain, name, "spec.source.persistentVolumeName")
    yield from check_text(names.dns1123_subdomain, spec.get("nodeName") or "", "spec.nodeName")


VOLUME_ATTACHMENT: Final = KindDeclaration(
    "storage.k8s.io",
    "v1",
    "VolumeAttachment",
    "volumeattachments",
    namespaced=False,
    status=True,
    status_metadata=(),
    delete_returns="object",
    columns=(text("Attacher"), text("PV"), text("Node"), flag("Attached"), age()),
    row=lambda tree, now: [
        *(at(tree, path, "") for path in ("spec.attacher", "spec.source.persistentVolumeName", "spec.nodeName")),
        bool(at(tree, "status.attached")),
        age_of(tree, now),
    ],
    validate=_validate_volume_attachment,
    complete=initial_status(attached=False),
)


def _validate_volume_attributes_class(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    yield from check_csi_driver_name(new.get("driverName") or "", "driverName")
    if not new.get("parameters"):
        yield Required("parameters", "must contain at least one key/value pair")
    yield from check_parameters(new.get("parameters"), "parameters")
    if old is not None:
        for name in ("driverName", "parameters"):
            if new.get(name) != old.get(name):
                yield Forbidden(name, f"updates to {name} are forbidden.")


VOLUME_ATTRIBUTES_CLASS: Final = KindDeclaration(
    "storage.k8s.io",
    "v1",
    "VolumeAttributesClass",
    "volumeattributesclasses",
    short_names=("vac",),
    namespaced=False,
    columns=(text("DriverName"), age()),
    row=values_at("driverName"),
    validate=_validate_volume_attributes_class,
)

KINDS: Final = (
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    STORAGE_CLASS,
    VOLUME_ATTACHMENT,
    VOLUME_ATTRIBUTES_CLASS,
)
