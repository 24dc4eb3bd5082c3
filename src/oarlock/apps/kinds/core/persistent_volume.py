"""PersistentVolumes."""

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

__all__ = ["PERSISTENT_VOLUME"]


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    spec = new.get("spec") or {}
    if not spec.get("accessModes"):
        yield Required("spec.accessModes")
    if not at(spec, "capacity"):
        yield Required("spec.capacity")
    if not spec.keys() - _NO_SOURCES:
        yield Required("spec", "must specify a volume type")
    if old is not None:
        before = old.get("spec") or {}
        if any(spec.get(key) != before.get(key) for key in (spec.keys() | before.keys()) - _NO_SOURCES):
            yield Forbidden("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation")


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
    validate=_validate,
    complete=initial_phase("Pending"),
    row=_row,
)
