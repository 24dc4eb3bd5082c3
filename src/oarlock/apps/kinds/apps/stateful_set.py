"""StatefulSets of apps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.common.cells import age_of, containers_of
from oarlock.apps.kinds.common.columns import REPLICAS, age, text
from oarlock.apps.kinds.common.first_status import initial_status
from oarlock.apps.kinds.common.rules import non_negative
from oarlock.apps.kinds.common.templates import check_selector_and_template, default_template
from oarlock.apps.kinds.common.trees import Tree, at, below
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Forbidden

__all__ = ["STATEFUL_SET"]


_SET_UPDATES: Final = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


_SET_MAY_CHANGE: Final = frozenset(
    (
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    )
)


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    yield from non_negative(new, "spec.replicas", "spec.minReadySeconds")
    yield from check_selector_and_template(new, old, fixed=False)
    if old is not None:
        now, before = new.get("spec") or {}, old.get("spec") or {}
        if any(now.get(key) != before.get(key) for key in (now.keys() | before.keys()) - _SET_MAY_CHANGE):
            yield Forbidden("spec", _SET_UPDATES)


def _fill_in(tree: Tree) -> None:
    default_template(tree)
    strategy = at(tree, "spec.updateStrategy", {})
    if strategy.get("type") == "RollingUpdate":
        below(strategy, "rollingUpdate").setdefault("partition", 0)
    for claim in at(tree, "spec.volumeClaimTemplates", ()):
        claim.setdefault("apiVersion", "v1")
        claim.setdefault("kind", "PersistentVolumeClaim")
        below(claim, "status").setdefault("phase", "Pending")


def _row(tree: Tree, now: float) -> list[Any]:
    ready = f"{at(tree, 'status.readyReplicas', 0)}/{at(tree, 'spec.replicas', 0)}"
    return [ready, age_of(tree, now), *containers_of(at(tree, "spec.template"))]


STATEFUL_SET: Final = KindDeclaration(
    "apps",
    "v1",
    "StatefulSet",
    "statefulsets",
    short_names=("sts",),
    categories=("all",),
    status=True,
    generation=True,
    scale=REPLICAS,
    columns=(text("Ready"), age(), text("Containers", wide=True), text("Images", wide=True)),
    validate=_validate,
    default=_fill_in,
    complete=initial_status(replicas=0, availableReplicas=0),
    row=_row,
)
