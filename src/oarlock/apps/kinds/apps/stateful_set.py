"""StatefulSets of apps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.common.claims import check_claim_spec
from oarlock.apps.kinds.common.columns import REPLICAS, age, age_of, containers_of, text
from oarlock.apps.kinds.common.first_status import check_collisions, initial_status
from oarlock.apps.kinds.common.templates import (
    check_selected,
    check_selector,
    default_template,
)
from oarlock.apps.kinds.common.trees import at, below, go_value
from oarlock.apps.kinds.common.values import check_not_negative, check_text
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.meta import names
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Forbidden, Invalid, NotSupported, Required
from oarlock.meta.json_trees import Tree

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
    spec = new.get("spec") or {}
    policy, policies = spec.get("podManagementPolicy", ""), ("OrderedReady", "Parallel")
    if policy not in policies:
        yield Invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'")
    yield from _check_strategy(spec.get("updateStrategy") or {}, "spec.updateStrategy")
    for name, value in sorted((spec.get("persistentVolumeClaimRetentionPolicy") or {}).items()):
        if value not in ("Retain", "Delete"):
            yield NotSupported(f"spec.persistentVolumeClaimRetentionPolicy.{name}", value, ("Retain", "Delete"))
    if old is None:
        for i, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
            yield from check_claim_spec(claim.get("spec") or {}, f"spec.volumeClaimTemplates[{i}].spec")
    yield from check_not_negative(spec, "spec", "replicas", "minReadySeconds")
    yield from check_not_negative(spec.get("ordinals") or {}, "spec.ordinals", "start")
    if old is None and spec.get("serviceName"):
        yield from check_text(names.dns1123_label, spec["serviceName"], "spec.serviceName")
    yield from check_selector(spec.get("selector"), "spec.selector", "statefulset")
    yield from check_selected(_with_claims(spec), "StatefulSet", ctx, old)
    if (spec.get("revisionHistoryLimit") or 0) < 0:
        text = "a negative value retains all historical revisions; a value >= 0 is recommended"
        ctx.warn(f"spec.revisionHistoryLimit: {text}")
    if old is not None:
        before = old.get("spec") or {}
        if any(spec.get(key) != before.get(key) for key in (spec.keys() | before.keys()) - _SET_MAY_CHANGE):
            yield Forbidden("spec", _SET_UPDATES)


def _with_claims(spec: Tree) -> Tree:
    """The specification as its pods will have it: with a volume for each claim, before those of the template."""
    claims = [at(template, "metadata.name", "") for template in spec.get("volumeClaimTemplates") or ()]
    pod = at(spec, "template.spec")
    if not claims or pod is None:
        return spec
    made = [{"name": name, "persistentVolumeClaim": {"claimName": name or "x"}} for name in claims]
    volumes = [*made, *(volume for volume in pod.get("volumes") or () if volume.get("name") not in claims)]
    return {**spec, "template": {**spec["template"], "spec": {**pod, "volumes": volumes}}}


def _check_strategy(strategy: Tree, path: str) -> Iterator[FieldError]:
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if not kind:
        yield Required(path)
    elif kind == "OnDelete":
        if rolling is not None:
            shown = go_value("RollingUpdateStatefulSetStrategy", rolling)
            yield Invalid(f"{path}.rollingUpdate", shown, "only allowed for updateStrategy 'RollingUpdate'")
    elif kind != "RollingUpdate":
        shown = go_value("StatefulSetUpdateStrategy", strategy)
        yield Invalid(path, shown, "must be 'RollingUpdate' or 'OnDelete'")
    elif rolling is not None:
        yield from check_not_negative(rolling, f"{path}.rollingUpdate", "partition")


def _check_status(new: Tree, old: Tree, ctx: Context) -> Iterator[FieldError]:
    status = new.get("status") or {}
    yield from check_not_negative(status, "status", *_COUNTS, "observedGeneration", "collisionCount")
    replicas = status.get("replicas") or 0
    for name in _COUNTS[1:]:
        if (status.get(name) or 0) > replicas:
            yield Invalid(f"status.{name}", status.get(name, 0), "cannot be greater than status.replicas")
    if (status.get("availableReplicas") or 0) > (status.get("readyReplicas") or 0):
        why = "cannot be greater than status.readyReplicas"
        yield Invalid("status.availableReplicas", status.get("availableReplicas", 0), why)
    yield from check_collisions(status, old)


_COUNTS: Final = ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")


def _fill_in(tree: Tree) -> None:
    default_template(tree)
    strategy = at(tree, "spec.updateStrategy", {})
    if strategy.get("type") == "RollingUpdate":
        rolling = below(strategy, "rollingUpdate")
        rolling.setdefault("partition", 0)
        rolling.pop("maxUnavailable", None)  # an early feature of Kubernetes, which is off
    if tree.get("spec") is not None:
        tree["spec"].setdefault("serviceName", "")
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
    validate_status=_check_status,
    default=_fill_in,
    complete=initial_status(replicas=0, availableReplicas=0),
    row=_row,
)
