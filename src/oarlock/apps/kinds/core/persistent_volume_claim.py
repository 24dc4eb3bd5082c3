"""PersistentVolumeClaims."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.common.claims import check_claim_spec
from oarlock.apps.kinds.common.columns import UNSET, access_modes, age, age_of, text
from oarlock.apps.kinds.common.first_status import initial_phase
from oarlock.apps.kinds.common.trees import at, go_diff
from oarlock.apps.kinds.common.values import IMMUTABLE, check_qualified_name
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.apps.kinds.pods.resources import quantity
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Forbidden, Invalid, NotSupported
from oarlock.meta.json_trees import Tree
from oarlock.meta.quantities import Quantity

_CLAIM_UPDATES: Final = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    spec = new.get("spec") or {}
    yield from check_claim_spec(spec, "spec")
    for what in ("limits", "requests"):
        amount = quantity(at(spec, f"resources.{what}", {}).get("storage"))
        if amount is not None and not amount.is_whole():
            text = f'fractional byte value "{amount}" is invalid, must be an integer'
            ctx.warn(f"spec.resources.{what}[storage]: {text}")
    if old is not None:
        yield from _check_update(spec, old.get("spec") or {}, at(new, "status", {}), at(old, "status", {}))


def _check_update(spec: Tree, before: Tree, status: Tree, old_status: Tree) -> Iterator[FieldError]:
    """A claim that has its volume may grow and change its attributes; one without may still choose."""
    now, was = {**spec}, {**before}
    if not before.get("volumeName"):
        _keep(was, spec, "volumeName")
        if before.get("storageClassName") is None and not spec.get("volumeName"):
            now.pop("storageClassName", None)
    if status.get("phase") == "Bound":
        now["resources"] = _with_storage(spec.get("resources") or {}, before)
        if spec.get("volumeAttributesClassName") is not None:
            _keep(now, before, "volumeAttributesClassName")
    if now != was:
        changes = go_diff("PersistentVolumeClaimSpec", was, now)
        yield Forbidden("spec", f"{_CLAIM_UPDATES}\n{changes}")
    size, old_size = (quantity(at(claim_spec, "resources.requests.storage")) for claim_spec in (spec, before))
    has = quantity(at(old_status, "capacity.storage")) or Quantity()
    if size is not None and old_size is not None and size < old_size and size <= has:
        yield Forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")
    if spec.get("volumeMode") != before.get("volumeMode"):
        yield Invalid("volumeMode", spec.get("volumeMode"), IMMUTABLE)
    name = spec.get("volumeAttributesClassName")
    has_one = old_status.get("currentVolumeAttributesClassName") is not None
    if has_one and not name and name != before.get("volumeAttributesClassName"):
        what = "nil" if name is None else "empty string"
        why = f"update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil"
        yield Forbidden("spec.volumeAttributesClassName", why)


def _keep(tree: Tree, before: Tree, name: str) -> None:
    if before.get(name) is None:
        tree.pop(name, None)
    else:
        tree[name] = before[name]


def _with_storage(resources: Tree, before: Tree) -> Tree:
    """What a claim asks for with the storage that it asked for before."""
    asked, storage = resources.get("requests"), at(before, "resources.requests.storage")
    return resources if asked is None or storage is None else {**resources, "requests": {**asked, "storage": storage}}


_RESIZES: Final = (
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
)


def _check_status(new: Tree, old: Tree, ctx: Context) -> Iterator[FieldError]:
    status = new.get("status") or {}
    yield from _check_amounts(status.get("capacity"), "status.capacity")
    for name, state in sorted((status.get("allocatedResourceStatuses") or {}).items()):
        yield from check_qualified_name(name, "status.allocatedResourceStatuses")
        if state not in _RESIZES:
            yield NotSupported("status.allocatedResourceStatuses", name, _RESIZES)
    yield from _check_amounts(status.get("allocatedResources"), "status.allocatedResources")


def _check_amounts(amounts: Tree | None, path: str) -> Iterator[FieldError]:
    for name, value in sorted((amounts or {}).items()):
        amount = quantity(value)
        if amount is not None and amount < Quantity():
            yield Invalid(f"{path}[{name}]", amount.scaled(0), "must be a valid resource quantity")


def _begin(new: Tree) -> None:
    """What a claim is filled from stands in two fields; one of them knows claims and snapshots only."""
    spec = new.get("spec")
    if spec is None:
        return
    if at(spec, "dataSourceRef.namespace"):
        del spec["dataSourceRef"]
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and (source.get("kind"), source.get("apiGroup") or "") not in _SOURCES:
        spec.pop("dataSource")
    elif source is not None and reference is None:
        spec["dataSourceRef"] = {**source}
    elif reference is not None and source is None:
        spec["dataSource"] = {**reference}


_SOURCES: Final = (("PersistentVolumeClaim", ""), ("VolumeSnapshot", "snapshot.storage.k8s.io"))


def _update(new: Tree, old: Tree, ctx: Context) -> None:
    if at(old, "spec.dataSource") is None and at(old, "spec.dataSourceRef") is None:
        _begin(new)


def _row(tree: Tree, now: float) -> list[Any]:
    phase = at(tree, "status.phase", "")
    bound = bool(at(tree, "spec.volumeName"))
    return [
        "Terminating" if at(tree, "metadata.deletionTimestamp") else phase,
        at(tree, "spec.volumeName", ""),
        str(at(tree, "status.capacity.storage", "")) if bound else "",
        access_modes(at(tree, "status.accessModes", [])) if bound else "",
        at(tree, "spec.storageClassName", ""),
        at(tree, "spec.volumeAttributesClassName", UNSET),
        age_of(tree, now),
        at(tree, "spec.volumeMode", UNSET),
    ]


PERSISTENT_VOLUME_CLAIM: Final = KindDeclaration(
    "",
    "v1",
    "PersistentVolumeClaim",
    "persistentvolumeclaims",
    short_names=("pvc",),
    status=True,
    delete_returns="object",
    columns=(
        text("Status"),
        text("Volume"),
        text("Capacity"),
        text("Access Modes"),
        text("StorageClass"),
        text("VolumeAttributesClass"),
        age(),
        text("VolumeMode", wide=True),
    ),
    complete=initial_phase("Pending"),
    row=_row,
    prepare=_begin,
    update=_update,
    validate=_validate,
    validate_status=_check_status,
)
