"""What may change in a pod: by an update, by ``/resize`` and by ``/ephemeralcontainers``.

Source: Kubernetes' validation of core/v1, ``ValidatePodUpdate``, ``ValidatePodResize``.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final

from oarlock.apps.kinds.common.trees import at, go_diff, go_pod
from oarlock.apps.kinds.pods.resources import quantity
from oarlock.meta.fielderrors import FieldError, Forbidden, Invalid, Required
from oarlock.meta.json_trees import Tree
from oarlock.meta.quantities import Quantity

_COUNTED = ("cpu", "memory")


def pod_quality(spec: Mapping[str, Any]) -> str:
    """``BestEffort``, ``Burstable`` or ``Guaranteed``. What a pod says as a whole comes before what containers say."""
    whole = spec.get("resources") or {}
    if whole.get("requests") or whole.get("limits"):
        parts = [whole]
    else:
        containers = chain(spec.get("containers") or (), spec.get("initContainers") or ())
        parts = [container.get("resources") or {} for container in containers]
    requests, limits = ([_amounts(part.get(name)) for part in parts] for name in ("requests", "limits"))
    asked, most = _total(requests), _total(limits)
    if not asked and not most:
        return "BestEffort"
    every_limit = all(len(limit) == len(_COUNTED) for limit in limits)
    return "Guaranteed" if every_limit and asked == most else "Burstable"


def _amounts(tree: Any) -> dict[str, Quantity]:
    """The CPU and the memory, where there is some of it."""
    found: dict[str, Quantity] = {}
    for name in _COUNTED:
        amount = quantity(tree[name]) if tree and name in tree else None
        if amount is not None and amount.unscaled > 0:
            found[name] = amount
    return found


def _total(parts: Iterable[Mapping[str, Quantity]]) -> dict[str, Quantity]:
    total: dict[str, Quantity] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total[name] + amount if name in total else amount
    return total


_UPDATES: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_RESIZES: Final = "only cpu and memory resources are mutable"
_KINDS: Final = ("containers", "initContainers")


def check_update(spec: Tree, before: Tree) -> Iterator[FieldError]:
    """The changes of a specification that an update may not make."""
    stop = False
    for kind in _KINDS:
        containers = spec.get(kind) or ()
        if len(containers) != len(before.get(kind) or ()):
            yield Forbidden(f"spec.{kind}", "pod updates may not add or remove containers")
            stop = True
            continue
        for i, container in enumerate(containers):
            if not container.get("image"):
                yield Required(f"spec.{kind}[{i}].image")
            elif container["image"] != container["image"].strip():
                why = "must not have leading or trailing whitespace"
                yield Invalid(f"spec.{kind}[{i}].image", container["image"], why)
    if stop:
        return
    deadline, limit = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    if deadline is not None and not 0 <= deadline <= 2**31 - 1:
        yield Invalid("spec.activeDeadlineSeconds", deadline, "must be between 0 and 2147483647, inclusive")
        return
    if deadline is not None and limit is not None and limit < deadline:
        yield Invalid("spec.activeDeadlineSeconds", deadline, "must be less than or equal to previous value")
        return
    if deadline is None and limit is not None:
        yield Invalid("spec.activeDeadlineSeconds", None, "must not update from a positive integer to nil value")
    yield from _check_additions(spec, before)
    allowed = _munged(spec, before)
    if before.get("schedulingGates"):
        yield from _check_gated(spec, before, allowed)
    if allowed != before:
        changes = go_diff("PodSpec", go_pod(before), go_pod(allowed))
        yield Forbidden("spec", f"{_UPDATES}\n{changes}")


def _check_additions(spec: Tree, before: Tree) -> Iterator[FieldError]:
    """Tolerations may be added, gates may be taken away."""
    now = {_without_seconds(toleration) for toleration in spec.get("tolerations") or ()}
    if any(_without_seconds(toleration) not in now for toleration in before.get("tolerations") or ()):
        why = "existing toleration can not be modified except its tolerationSeconds"
        yield Forbidden("spec.tolerations", why)
    gates = {gate.get("name") for gate in before.get("schedulingGates") or ()}
    for i, gate in enumerate(spec.get("schedulingGates") or ()):
        if gate.get("name") not in gates:
            why = f"only deletion is allowed, but found new scheduling gate '{gate.get('name', '')}'"
            yield Forbidden(f"spec.schedulingGates[{i}].name", why)


def _without_seconds(toleration: Tree) -> frozenset[tuple[str, str]]:
    return frozenset((key, value) for key, value in toleration.items() if key != "tolerationSeconds")


def _munged(spec: Tree, before: Tree) -> Tree:
    """The specification with all that may change as it was."""
    allowed = copy.deepcopy(spec)
    for kind in _KINDS:
        for container, live in zip(allowed.get(kind) or (), before.get(kind) or (), strict=True):
            container["image"] = live.get("image", "")
    for name in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        _keep(allowed, before, name)
    if before.get("terminationGracePeriodSeconds", 0) < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        _keep(allowed, before, "terminationGracePeriodSeconds")
    return allowed


def _check_gated(spec: Tree, before: Tree, allowed: Tree) -> Iterator[FieldError]:
    """Where a pod may run can become narrower as long as a gate holds it."""
    selector, was = spec.get("nodeSelector") or {}, before.get("nodeSelector") or {}
    if any(selector.get(key) != value for key, value in was.items()):
        why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        yield Invalid("spec.nodeSelector", selector, why)
    _keep(allowed, before, "nodeSelector")
    required = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    terms, old_terms = at(spec, f"{required}.nodeSelectorTerms"), at(before, f"{required}.nodeSelectorTerms")
    if spec.get("affinity") == before.get("affinity"):
        return
    path = f"spec.{required}.nodeSelectorTerms"
    rest, old_rest = _without_nodes(spec.get("affinity")), _without_nodes(before.get("affinity"))
    if rest != old_rest:
        return
    _keep(allowed, before, "affinity")
    if not old_terms:
        return
    if len(terms or ()) != len(old_terms):
        yield Invalid(path, terms, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")
        return
    for i, (term, old) in enumerate(zip(terms, old_terms, strict=True)):
        for name in ("matchExpressions", "matchFields"):
            mine, theirs = term.get(name) or [], old.get(name) or []
            if mine[: len(theirs)] != theirs:
                why = f"only additions are allowed to {name} (no mutations or deletions)"
                yield Invalid(f"{path}[{i}]", term, why)


def _without_nodes(affinity: Tree | None) -> Tree:
    """Affinity but for the terms about nodes, and without what says nothing."""
    rest = {key: value for key, value in (affinity or {}).items() if key != "nodeAffinity" and value}
    nodes = {**((affinity or {}).get("nodeAffinity") or {})}
    nodes.pop("requiredDuringSchedulingIgnoredDuringExecution", None)
    nodes.pop("preferredDuringSchedulingIgnoredDuringExecution", None)
    return {**rest, **nodes}


def _keep(tree: Tree, before: Tree, name: str) -> None:
    if name in before:
        tree[name] = before[name]
    else:
        tree.pop(name, None)


def keep_all_but_resources(new: Tree, old: Tree) -> None:
    """What a write to ``/resize`` says of other things than resources doesn't count."""
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    for kind in _KINDS:
        asked = {container.get("name"): container for container in spec.get(kind) or ()}
        if asked.keys() != {container.get("name") for container in before.get(kind) or ()}:
            continue
        spec[kind] = [_resized(live, asked[live.get("name")]) for live in before.get(kind) or ()]
        if not spec[kind]:
            del spec[kind]


def _resized(live: Tree, asked: Tree) -> Tree:
    kept = {**live}
    for name in ("resources", "resizePolicy"):
        _keep(kept, asked, name)
    return kept


def check_resize(new: Tree, old: Tree) -> Iterator[FieldError]:
    """The changes that ``/resize`` may not make: all but cpu and memory, and no other quality of service."""
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    if at(old, "spec.os.name") == "windows":
        yield Forbidden("", "windows pods cannot be resized")
        return
    if pod_quality(spec) != at(old, "status.qosClass", pod_quality(before)):
        yield Invalid("spec", at(old, "status.qosClass"), "Pod QOS Class may not change as a result of resizing")
    found = False
    for kind in ("initContainers", "containers"):
        for i, (container, live) in enumerate(zip(spec.get(kind) or (), before.get(kind) or (), strict=False)):
            path = f"spec.{kind}[{i}].resources"
            for error in _check_removals(container.get("resources") or {}, live.get("resources") or {}, path):
                found = True
                yield error
    if not found and _without_resources(spec) != _without_resources(before):
        yield Forbidden("spec", _RESIZES)


def _check_removals(now: Tree, before: Tree, path: str) -> Iterator[FieldError]:
    for what in ("limits", "requests"):
        gone = {"cpu", "memory"} & (before.get(what) or {}).keys() - (now.get(what) or {}).keys()
        if gone:
            yield Forbidden(f"{path}.{what}", f"resource {what} cannot be removed")


def _without_resources(spec: Tree) -> Any:
    """A specification without the amounts of cpu and memory."""
    rest = {**spec}
    for name in _KINDS:
        rest[name] = [
            {**container, "resources": _rest(container.get("resources") or {})} for container in spec.get(name) or ()
        ]
    if spec.get("resources"):
        rest["resources"] = _rest(spec["resources"])
    return rest


def _rest(resources: Tree) -> Tree:
    kept = {key: value for key, value in resources.items() if key not in ("limits", "requests")}
    for what in ("limits", "requests"):
        others = {key: value for key, value in (resources.get(what) or {}).items() if key not in ("cpu", "memory")}
        if others:
            kept[what] = others
    return kept


def check_ephemeral_update(spec: Tree, before: Tree) -> Iterator[FieldError]:
    """Ephemeral containers may only be added."""
    now = {container.get("name"): container for container in spec.get("ephemeralContainers") or ()}
    for live in before.get("ephemeralContainers") or ():
        name = live.get("name", "")
        if name not in now:
            yield Forbidden("spec.ephemeralContainers", f'existing ephemeral containers "{name}" may not be removed\n')
        elif now[name] != live:
            changes = go_diff("EphemeralContainer", live, now[name])
            why = f'existing ephemeral containers "{name}" may not be changed\n{changes}'
            yield Forbidden("spec.ephemeralContainers", why)
