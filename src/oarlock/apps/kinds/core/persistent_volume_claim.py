"""PersistentVolumeClaims."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.common.cells import UNSET, access_modes, age_of
from oarlock.apps.kinds.common.columns import age, text
from oarlock.apps.kinds.common.first_status import initial_phase
from oarlock.apps.kinds.common.trees import Tree, at
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Forbidden, Required

__all__ = ["PERSISTENT_VOLUME_CLAIM"]

_CLAIM_UPDATES: Final = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    spec = new.get("spec") or {}
    if not spec.get("accessModes"):
        yield Required("spec.accessModes", "at least 1 access mode is required")
    if at(spec, "resources.requests.storage") is None:
        yield Required("spec.resources[storage]")
    if old is not None:
        before = old.get("spec") or {}
        may_change = {"resources", "volumeAttributesClassName"} if before.get("volumeName") else {"volumeName"}
        if any(spec.get(key) != before.get(key) for key in (spec.keys() | before.keys()) - may_change):
            yield Forbidden("spec", _CLAIM_UPDATES)


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
    validate=_validate,
    complete=initial_phase("Pending"),
    row=_row,
)
