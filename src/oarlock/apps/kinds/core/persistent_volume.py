"""PersistentVolumes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.common.claims import VOLUME_MODES, check_access_modes, check_claim_spec, check_positive
from oarlock.apps.kinds.common.columns import UNSET, access_modes, age, age_of, text
from oarlock.apps.kinds.common.first_status import initial_phase
from oarlock.apps.kinds.common.trees import at, below, go_diff, go_value
from oarlock.apps.kinds.common.values import IMMUTABLE, check_no_backsteps, check_required_name, check_text
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.apps.kinds.pods.defaults import GONE_VOLUMES, SHOWN_VOLUMES
from oarlock.apps.kinds.pods.placement import check_node_selector
from oarlock.apps.kinds.pods.resources import quantity
from oarlock.apps.kinds.pods.volumes import check_csi_driver_name, check_volume_source
from oarlock.meta import names, times
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Forbidden, Invalid, NotSupported, Required
from oarlock.meta.json_trees import Tree
from oarlock.meta.quantities import Quantity

_NO_SOURCES: Final = frozenset(
    (
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    )
)
"""The fields of a volume that don't say what it is made of."""


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    spec = new.get("spec") or {}
    modes, capacity, policy = spec.get("accessModes"), spec.get("capacity"), spec.get("persistentVolumeReclaimPolicy")
    if not modes:
        yield Required("spec.accessModes")
    yield from check_access_modes(modes or (), "spec.accessModes")
    if not capacity:
        yield Required("spec.capacity")
    if (capacity or {}).keys() != {"storage"}:
        yield NotSupported("spec.capacity", go_value("", capacity), ("storage",))
    for name, value in sorted((capacity or {}).items()):
        amount = quantity(value)
        if amount is not None and amount < Quantity():
            yield Invalid(f"spec.capacity[{name}]", amount.scaled(0), "must be a valid resource quantity")
        yield from check_positive(value, f"spec.capacity[{name}]")
    if policy and policy not in ("Delete", "Recycle", "Retain"):
        yield NotSupported("spec.persistentVolumeReclaimPolicy", policy, ("Delete", "Recycle", "Retain"))
    yield from _check_sources(spec, policy)
    if spec.get("storageClassName"):
        yield from check_text(names.dns1123_subdomain, spec["storageClassName"], "spec.storageClassName")
    mode = spec.get("volumeMode")
    if mode is not None and mode not in VOLUME_MODES:
        yield NotSupported("spec.volumeMode", mode, VOLUME_MODES)
    yield from _check_attributes(spec)
    if old is not None:
        yield from _check_update(spec, old.get("spec") or {})
    for name, why in GONE_VOLUMES.items():
        if spec.get(name) is not None:
            ctx.warn(f"spec.{SHOWN_VOLUMES.get(name, name)}: {why}")
    if policy == "Recycle":
        instead = "Instead, the recommended approach is to use dynamic provisioning."
        ctx.warn(f"spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. {instead}")


def _check_sources(spec: Tree, policy: str | None) -> Iterator[FieldError]:
    affinity = spec.get("nodeAffinity")
    if affinity is not None:
        if affinity.get("required") is None:
            yield Required("spec.nodeAffinity.required", "must specify required node constraints")
        else:
            yield from check_node_selector(affinity["required"], "spec.nodeAffinity.required")
    sources = {key: value for key, value in spec.items() if key not in _NO_SOURCES and key not in ("local", "csi")}
    others = [name for name in ("local", "csi") if spec.get(name) is not None]
    if sources or not others:
        yield from check_volume_source(sources, "spec", check_claim_spec)
    for name in others if sources else others[1:]:
        yield Forbidden(f"spec.{name}", "may not specify more than 1 volume type")
    if others[:1] == ["local"] and not sources:
        place = spec["local"].get("path") or ""
        if not place:
            yield Required("spec.local.path")
        yield from check_no_backsteps(place, "spec.local.path")
        if at(affinity, "required") is None:
            yield Required("spec.nodeAffinity", "Local volume requires node affinity")
    elif others and not sources:
        yield from _check_csi(spec["csi"], "spec.csi")
    if policy == "Recycle" and set(at(spec, "hostPath.path", "")) == {"/"}:
        yield Forbidden("spec.persistentVolumeReclaimPolicy", "may not be 'recycle' for a hostPath mount of '/'")


def _check_csi(source: Tree, path: str) -> Iterator[FieldError]:
    yield from check_csi_driver_name(source.get("driver") or "", f"{path}.driver")
    if not source.get("volumeHandle"):
        yield Required(f"{path}.volumeHandle")
    for field in ("controllerPublish", "controllerExpand", "nodePublish", "nodeExpand"):
        secret: Tree | None = source.get(f"{field}SecretRef")
        if secret is not None:
            for part in ("name", "namespace"):
                where = f"{path}.{field}SecretRef.{part}"
                yield from check_required_name(names.dns1123_subdomain, secret.get(part), where)


def _check_attributes(spec: Tree) -> Iterator[FieldError]:
    name = spec.get("volumeAttributesClassName")
    if name is None:
        return
    if not name:
        yield Required("spec.volumeAttributesClassName", "an empty string is disallowed")
    else:
        yield from check_text(names.dns1123_subdomain, name, "spec.volumeAttributesClassName")
    if spec.get("csi") is None:
        yield Required("spec.csi", "has to be specified when using volumeAttributesClassName")


def _check_update(spec: Tree, before: Tree) -> Iterator[FieldError]:
    now = {key: value for key, value in spec.items() if key not in _NO_SOURCES}
    was = {key: value for key, value in before.items() if key not in _NO_SOURCES}
    if "csi" in now and "csi" in was and "controllerExpandSecretRef" not in was["csi"]:
        now["csi"] = {key: value for key, value in now["csi"].items() if key != "controllerExpandSecretRef"}
    if now != was:
        changes = go_diff("PersistentVolumeSource", was, now)
        why = f"spec.persistentvolumesource is immutable after creation\n{changes}"
        yield Forbidden("spec.persistentvolumesource", why)
    if spec.get("volumeMode") != before.get("volumeMode"):
        yield Invalid("volumeMode", spec.get("volumeMode"), IMMUTABLE)
    if before.get("nodeAffinity") is not None and spec.get("nodeAffinity") != before["nodeAffinity"]:
        yield Invalid("nodeAffinity", spec.get("nodeAffinity"), IMMUTABLE)
    if before.get("volumeAttributesClassName") is not None and spec.get("volumeAttributesClassName") is None:
        yield Forbidden("spec.volumeAttributesClassName", "update from non-nil value to nil is forbidden")


def _begin(new: Tree) -> None:
    """A volume is where it is since it was made."""
    below(new, "status")["lastPhaseTransitionTime"] = new["metadata"]["creationTimestamp"]


def _update(new: Tree, old: Tree, ctx: Context) -> None:
    status, before = below(new, "status"), old.get("status") or {}
    status.setdefault("phase", "Pending")
    same = status.get("lastPhaseTransitionTime") in (None, before.get("lastPhaseTransitionTime"))
    if same and status["phase"] != before.get("phase"):
        status["lastPhaseTransitionTime"] = times.rfc3339(ctx.clock.now())


def _row(tree: Tree, now: float) -> list[Any]:
    claim = at(tree, "spec.claimRef")
    phase = at(tree, "status.phase", "")
    return [
        str(at(tree, "spec.capacity.storage", "0")),
        access_modes(at(tree, "spec.accessModes", [])),
        at(tree, "spec.persistentVolumeReclaimPolicy", ""),
        "Terminating" if at(tree, "metadata.deletionTimestamp") else phase,
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        at(tree, "spec.storageClassName", ""),
        at(tree, "spec.volumeAttributesClassName", UNSET),
        at(tree, "status.reason", ""),
        age_of(tree, now),
        at(tree, "spec.volumeMode", UNSET),
    ]


PERSISTENT_VOLUME: Final = KindDeclaration(
    "",
    "v1",
    "PersistentVolume",
    "persistentvolumes",
    short_names=("pv",),
    namespaced=False,
    status=True,
    delete_returns="object",
    columns=(
        text("Capacity"),
        text("Access Modes"),
        text("Reclaim Policy"),
        text("Status"),
        text("Claim"),
        text("StorageClass"),
        text("VolumeAttributesClass"),
        text("Reason"),
        age(),
        text("VolumeMode", wide=True),
    ),
    complete=initial_phase("Pending"),
    row=_row,
    prepare=_begin,
    update=_update,
    validate=_validate,
)
