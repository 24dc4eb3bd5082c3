"""PersistentVolumeClaims."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.common.cells import UNSET, access_modes, age_of
from oarlock.apps.kinds.common.claims import check_claim_spec
from oarlock.apps.kinds.common.columns import age, text
from oarlock.apps.kinds.common.first_status import initial_phase
from oarlock.apps.kinds.common.rules import IMMUTABLE
from oarlock.apps.kinds.common.trees import at
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.apps.kinds.pods.resources import quantity
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Forbidden, Invalid
from oarlock.meta.json_trees import Tree
from oarlock.meta.quantities import Quantity

__all__ = ["PERSISTENT_VOLUME_CLAIM"]

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
        was["volumeName"] = now["volumeName"] = None
    if before.get("storageClassName") is None and not before.get("volumeName"):
        was["storageClassName"] = now["storageClassName"] = None
    if status.get("phase") == "Bound":
        for tree in (now, was):
            tree["resources"] = _without_storage(tree.get("resources") or {})
            tree["volumeAttributesClassName"] = None
    if now != was:
        yield Forbidden("spec", _CLAIM_UPDATES)
    size, old_size = (quantity(at(one, "resources.requests.storage")) for one in (spec, before))
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


def _without_storage(resources: Tree) -> Tree:
    requests = {key: value for key, value in (resources.get("requests") or {}).items() if key != "storage"}
    return {**resources, "requests": requests}


def _check_status(new: Tree, old: Tree, ctx: Context) -> Iterator[FieldError]:
    status = new.get("status") or {}
    for field in ("capacity", "allocatedResources"):
        for name, value in sorted((status.get(field) or {}).items()):
            amount = quantity(value)
            if amount is not None and amount < Quantity():
                where = f"status.{field}[{name}]"
                yield Invalid(where, amount.scaled(0), "must be a valid resource quantity")


def _fill_in(tree: Tree) -> None:
    spec = tree.get("spec")
    if spec is None:
        return
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and reference is None:
        spec["dataSourceRef"] = {**source}
    elif reference is not None and source is None and not reference.get("namespace"):
        spec["dataSource"] = {**reference}


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
    default=_fill_in,
    validate=_validate,
    validate_status=_check_status,
)
