"""The kinds of apps: ControllerRevisions, DaemonSets, Deployments, ReplicaSets, StatefulSets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.common.claims import check_claim_spec
from oarlock.apps.kinds.common.columns import (
    NONE,
    POD_COLUMNS,
    REPLICAS,
    age,
    age_of,
    containers_of,
    number,
    pairs,
    selector_text,
    text,
)
from oarlock.apps.kinds.common.first_status import check_collisions, check_replica_counts, empty_status, initial_status
from oarlock.apps.kinds.common.templates import (
    NO_MATCH,
    check_always,
    check_selected,
    check_selector,
    default_template,
    in_order,
    selects,
)
from oarlock.apps.kinds.common.trees import at, below, go_value
from oarlock.apps.kinds.common.values import (
    IMMUTABLE,
    check_at_most_all,
    check_int_or_percent,
    check_label_selector,
    check_not_negative,
    check_text,
    is_none,
    unchanged,
)
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.meta import names
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Forbidden, Invalid, NotSupported, Required
from oarlock.meta.json_trees import Tree


def _validate_controller_revision(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    if new.get("data") is None:
        yield Required("data", "data is mandatory")
    yield from check_not_negative(new, "", "revision")
    if old is not None:
        yield from unchanged(new, old, "", "data")


def _row_controller_revision(tree: Tree, now: float) -> list[Any]:
    owner = next(
        (reference for reference in at(tree, "metadata.ownerReferences", []) if reference.get("controller")), None
    )
    controller = NONE
    if owner is not None:
        group, _, _ = owner.get("apiVersion", "").rpartition("/")
        kind = owner.get("kind", "").lower()
        controller = f"{kind}.{group}/{owner.get('name', '')}" if group else f"{kind}/{owner.get('name', '')}"
    return [controller, tree.get("revision", 0), age_of(tree, now)]


CONTROLLER_REVISION: Final = KindDeclaration(
    "apps",
    "v1",
    "ControllerRevision",
    "controllerrevisions",
    columns=(text("Controller"), number("Revision"), age()),
    validate=_validate_controller_revision,
    row=_row_controller_revision,
)


def _validate_daemon_set(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    spec = new.get("spec") or {}
    selector, template = spec.get("selector"), spec.get("template") or {}
    if old is not None and selector != at(old, "spec.selector"):
        yield Invalid("spec.selector", in_order(selector), IMMUTABLE)
    yield from check_label_selector(selector, "spec.selector")
    pod_labels = at(template, "metadata.labels", {})
    if not list(check_label_selector(selector, "")) and not _selects(selector, pod_labels):
        yield Invalid("spec.template.metadata.labels", go_value("", pod_labels or None), NO_MATCH)
    if selector is not None and not (selector.get("matchLabels") or selector.get("matchExpressions")):
        yield Invalid("spec.selector", selector, "empty selector is invalid for daemonset")
    yield from check_always(template, "DaemonSet", ctx, at(old, "spec.template"))
    yield from check_not_negative(spec, "spec", "minReadySeconds")
    yield from _check_strategy_daemon_set(spec.get("updateStrategy") or {}, "spec.updateStrategy")
    yield from check_not_negative(spec, "spec", "revisionHistoryLimit")


def _selects(selector: Tree | None, pod_labels: Tree) -> bool:
    if selector is not None and not (selector.get("matchLabels") or selector.get("matchExpressions")):
        return True
    return selects(selector, pod_labels)


def _check_strategy_daemon_set(strategy: Tree, path: str) -> Iterator[FieldError]:
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "OnDelete":
        return
    if kind != "RollingUpdate":
        yield NotSupported(f"{path}.type", kind, ("OnDelete", "RollingUpdate"))
    elif rolling is None:
        yield Required(f"{path}.rollingUpdate")
    else:
        unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
        where = f"{path}.rollingUpdate"
        yield from check_int_or_percent(unavailable, f"{where}.maxUnavailable")
        yield from check_int_or_percent(surge, f"{where}.maxSurge")
        yield from check_at_most_all(unavailable, f"{where}.maxUnavailable")
        yield from check_at_most_all(surge, f"{where}.maxSurge")
        if not is_none(unavailable) and not is_none(surge):
            yield Invalid(f"{where}.maxSurge", surge, "may not be set when maxUnavailable is non-zero")
        if is_none(unavailable) and is_none(surge):
            yield Required(f"{where}.maxUnavailable", "cannot be 0 when maxSurge is 0")


def _check_status_daemon_set(new: Tree, old: Tree, ctx: Context) -> Iterator[FieldError]:
    fields = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
    others = ("observedGeneration", "updatedNumberScheduled", "numberAvailable", "numberUnavailable", "collisionCount")
    yield from check_not_negative(new.get("status") or {}, "status", *fields, *others)
    yield from check_collisions(new.get("status") or {}, old)


_GENERATION: Final = "deprecated.daemonset.template.generation"


def _prepare(new: Tree) -> None:
    below(new["metadata"], "annotations")[_GENERATION] = "1"


def _update_daemon_set(new: Tree, old: Tree, ctx: Context) -> None:
    """The generation of the template counts its changes."""
    before = at(old, "metadata.annotations", {}).get(_GENERATION, "0")
    generation = int(before) if before.isascii() and before.isdecimal() and len(before) < 19 else 0
    if at(new, "spec.template") != at(old, "spec.template"):
        generation += 1
    below(new["metadata"], "annotations")[_GENERATION] = str(generation)


def _fill_in_daemon_set(tree: Tree) -> None:
    default_template(tree)
    strategy = at(tree, "spec.updateStrategy", {})
    if strategy.get("type") == "RollingUpdate":
        below(strategy, "rollingUpdate").setdefault("maxUnavailable", 1)
    if strategy.get("rollingUpdate") is not None:
        strategy["rollingUpdate"].setdefault("maxSurge", 0)


def _row_daemon_set(tree: Tree, now: float) -> list[Any]:
    counts = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled")
    numbers = [at(tree, f"status.{name}", 0) for name in (*counts, "numberAvailable")]
    nodes = pairs(at(tree, "spec.template.spec.nodeSelector"))
    return [
        *numbers,
        nodes,
        age_of(tree, now),
        *containers_of(at(tree, "spec.template")),
        selector_text(at(tree, "spec.selector")),
    ]


DAEMON_SET: Final = KindDeclaration(
    "apps",
    "v1",
    "DaemonSet",
    "daemonsets",
    short_names=("ds",),
    categories=("all",),
    status=True,
    generation=True,
    columns=(
        number("Desired"),
        number("Current"),
        number("Ready"),
        number("Up-to-date"),
        number("Available"),
        text("Node Selector"),
        age(),
        *POD_COLUMNS,
    ),
    prepare=_prepare,
    update=_update_daemon_set,
    validate=_validate_daemon_set,
    validate_status=_check_status_daemon_set,
    default=_fill_in_daemon_set,
    complete=initial_status(currentNumberScheduled=0, numberMisscheduled=0, desiredNumberScheduled=0, numberReady=0),
    row=_row_daemon_set,
)


def _validate_deployment(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    spec = new.get("spec") or {}
    yield from check_not_negative(spec, "spec", "replicas")
    yield from check_selector(spec.get("selector"), "spec.selector", "deployment", "invalid label selector")
    yield from check_selected(spec, "ReplicaSet", ctx, old)
    yield from _check_strategy_deployment(spec.get("strategy") or {}, "spec.strategy")
    yield from check_not_negative(spec, "spec", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
    deadline, ready = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds") or 0
    if deadline is not None and deadline <= ready:
        yield Invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")
    if old is not None and spec.get("selector") != at(old, "spec.selector"):
        yield Invalid("spec.selector", in_order(spec.get("selector")), IMMUTABLE)


def _check_strategy_deployment(strategy: Tree, path: str) -> Iterator[FieldError]:
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind not in ("Recreate", "RollingUpdate"):
        yield NotSupported(f"{path}.type", kind, ("Recreate", "RollingUpdate"))
    elif kind == "Recreate":
        if rolling:
            yield Forbidden(f"{path}.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'")
    elif rolling is None:
        yield Required(f"{path}.rollingUpdate", "this should be defaulted and never be nil")
    else:
        unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
        yield from check_int_or_percent(unavailable, f"{path}.rollingUpdate.maxUnavailable")
        yield from check_int_or_percent(surge, f"{path}.rollingUpdate.maxSurge")
        if is_none(unavailable) and is_none(surge):
            yield Invalid(f"{path}.rollingUpdate.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")
        yield from check_at_most_all(unavailable, f"{path}.rollingUpdate.maxUnavailable")


def _check_status_deployment(new: Tree, old: Tree, ctx: Context) -> Iterator[FieldError]:
    status = new.get("status") or {}
    yield from check_not_negative(status, "status", "observedGeneration", *_COUNTS_DEPLOYMENT, "collisionCount")
    replicas, updated, ready, available = (status.get(name) or 0 for name in _COUNTS_DEPLOYMENT[:4])
    for name, value in (("updatedReplicas", updated), ("readyReplicas", ready), ("availableReplicas", available)):
        if value > replicas:
            yield Invalid(f"status.{name}", value, "cannot be greater than status.replicas")
    if available > ready:
        yield Invalid("status.availableReplicas", available, "cannot be greater than readyReplicas")

    yield from check_not_negative(status, "status", "terminatingReplicas")
    yield from check_collisions(status, old)


def _update_deployment(new: Tree, old: Tree, ctx: Context) -> None:
    """A change of the annotations is one of the deployment: its ReplicaSets get them."""
    metadata, before = new["metadata"], old["metadata"]
    if ctx.target.subresource != "status" and (metadata.get("annotations") or {}) != (before.get("annotations") or {}):
        metadata["generation"] = before.get("generation", 0) + 1


_COUNTS_DEPLOYMENT: Final = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas")


def _fill_in_deployment(tree: Tree) -> None:
    default_template(tree)
    strategy = at(tree, "spec.strategy", {})
    if strategy.get("type") == "RollingUpdate":
        rolling = below(strategy, "rollingUpdate")
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")


def _row_deployment(tree: Tree, now: float) -> list[Any]:
    ready = f"{at(tree, 'status.readyReplicas', 0)}/{at(tree, 'spec.replicas', 0)}"
    numbers = [at(tree, f"status.{name}", 0) for name in ("updatedReplicas", "availableReplicas")]
    return [
        ready,
        *numbers,
        age_of(tree, now),
        *containers_of(at(tree, "spec.template")),
        selector_text(at(tree, "spec.selector")),
    ]


DEPLOYMENT: Final = KindDeclaration(
    "apps",
    "v1",
    "Deployment",
    "deployments",
    short_names=("deploy",),
    categories=("all",),
    status=True,
    generation=True,
    scale=REPLICAS,
    columns=(
        text("Ready", "Number of the pod with ready state"),
        number("Up-to-date"),
        number("Available"),
        age(),
        *POD_COLUMNS,
    ),
    status_metadata=("annotations", "finalizers", "ownerReferences"),
    validate=_validate_deployment,
    validate_status=_check_status_deployment,
    default=_fill_in_deployment,
    update=_update_deployment,
    complete=empty_status,
    row=_row_deployment,
)


def _validate_replica_set(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    spec = new.get("spec") or {}
    yield from check_not_negative(spec, "spec", "replicas", "minReadySeconds")
    yield from check_selector(spec.get("selector"), "spec.selector", "deployment", "invalid label selector")
    yield from check_selected(spec, "ReplicaSet", ctx, old)
    if old is not None and spec.get("selector") != at(old, "spec.selector"):
        yield Invalid("spec.selector", in_order(spec.get("selector")), IMMUTABLE)


def _row_replica_set(tree: Tree, now: float) -> list[Any]:
    numbers = [at(tree, path, 0) for path in ("spec.replicas", "status.replicas", "status.readyReplicas")]
    return [
        *numbers,
        age_of(tree, now),
        *containers_of(at(tree, "spec.template")),
        selector_text(at(tree, "spec.selector")),
    ]


REPLICA_SET: Final = KindDeclaration(
    "apps",
    "v1",
    "ReplicaSet",
    "replicasets",
    short_names=("rs",),
    categories=("all",),
    status=True,
    generation=True,
    scale=REPLICAS,
    selectable=(".status.replicas",),
    columns=(number("Desired"), number("Current"), number("Ready"), age(), *POD_COLUMNS),
    validate=_validate_replica_set,
    validate_status=check_replica_counts,
    default=default_template,
    complete=initial_status(replicas=0),
    row=_row_replica_set,
)

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


def _validate_stateful_set(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    spec = new.get("spec") or {}
    policy, policies = spec.get("podManagementPolicy", ""), ("OrderedReady", "Parallel")
    if policy not in policies:
        yield Invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'")
    yield from _check_strategy_stateful_set(spec.get("updateStrategy") or {}, "spec.updateStrategy")
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


def _check_strategy_stateful_set(strategy: Tree, path: str) -> Iterator[FieldError]:
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


def _check_status_stateful_set(new: Tree, old: Tree, ctx: Context) -> Iterator[FieldError]:
    status = new.get("status") or {}
    yield from check_not_negative(status, "status", *_COUNTS_STATEFUL_SET, "observedGeneration", "collisionCount")
    replicas = status.get("replicas") or 0
    for name in _COUNTS_STATEFUL_SET[1:]:
        if (status.get(name) or 0) > replicas:
            yield Invalid(f"status.{name}", status.get(name, 0), "cannot be greater than status.replicas")
    if (status.get("availableReplicas") or 0) > (status.get("readyReplicas") or 0):
        why = "cannot be greater than status.readyReplicas"
        yield Invalid("status.availableReplicas", status.get("availableReplicas", 0), why)
    yield from check_collisions(status, old)


_COUNTS_STATEFUL_SET: Final = ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")


def _fill_in_stateful_set(tree: Tree) -> None:
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


def _row_stateful_set(tree: Tree, now: float) -> list[Any]:
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
    validate=_validate_stateful_set,
    validate_status=_check_status_stateful_set,
    default=_fill_in_stateful_set,
    complete=initial_status(replicas=0, availableReplicas=0),
    row=_row_stateful_set,
)

KINDS: Final = (
    CONTROLLER_REVISION,
    DAEMON_SET,
    DEPLOYMENT,
    REPLICA_SET,
    STATEFUL_SET,
)
