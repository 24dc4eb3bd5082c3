"""Facts about pods and owned objects that several controllers need, read from their trees.

Source: k8s.io/kubernetes ``pkg/api/v1/pod/util.go``, ``pkg/controller/controller_utils.go``, in behaviour.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from oarlock.controllers import ObjectKey
from oarlock.extend import ReadOnlyTree, Selector, SelectorError, Tree, from_label_selector, parse_rfc3339, rfc3339

__all__ = [
    "condition_of",
    "controller_of",
    "controller_reference",
    "created",
    "is_active",
    "is_available",
    "is_controlled_by",
    "is_ready",
    "is_terminating",
    "key_of",
    "labels_of",
    "next_availability_s",
    "phase_of",
    "pod_from_template",
    "ready_since",
    "scaled_value",
    "selector_of",
    "set_condition",
    "short_hash",
    "time_of",
    "without_condition",
]

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""The characters of Kubernetes' generated names, without vowels."""


def time_of(text: str | None) -> float | None:
    """Seconds since the epoch of a time in a tree; None where there is none."""
    return parse_rfc3339(text) if text else None


def created(tree: ReadOnlyTree) -> float:
    """When the object was created."""
    return time_of(tree["metadata"].get("creationTimestamp")) or 0.0


def key_of(tree: ReadOnlyTree) -> ObjectKey:
    return ObjectKey(tree["metadata"].get("namespace") or "", tree["metadata"]["name"])


def labels_of(tree: ReadOnlyTree) -> dict[str, str]:
    return (tree.get("metadata") or {}).get("labels") or {}


def phase_of(pod: ReadOnlyTree) -> str:
    return (pod.get("status") or {}).get("phase") or ""


def condition_of(tree: ReadOnlyTree, type: str) -> Tree | None:
    """A condition of the status."""
    for condition in (tree.get("status") or {}).get("conditions") or ():
        if condition.get("type") == type:
            found: Tree = condition
            return found
    return None


def is_terminating(tree: ReadOnlyTree) -> bool:
    return bool(tree["metadata"].get("deletionTimestamp"))


def is_active(pod: ReadOnlyTree) -> bool:
    """Whether the pod may run: it has not ended, and is not being deleted."""
    return phase_of(pod) not in ("Succeeded", "Failed") and not is_terminating(pod)


def is_ready(pod: ReadOnlyTree) -> bool:
    return (condition_of(pod, "Ready") or {}).get("status") == "True"


def ready_since(pod: ReadOnlyTree) -> float | None:
    """Since when the pod is ready; None if it is not."""
    condition = condition_of(pod, "Ready") or {}
    return time_of(condition.get("lastTransitionTime")) if condition.get("status") == "True" else None


def is_available(pod: ReadOnlyTree, min_ready_s: float, now: float) -> bool:
    """Whether the pod has been ready for as long as it has to be."""
    if not is_ready(pod):
        return False
    since = ready_since(pod)
    return not min_ready_s or (since is not None and since + min_ready_s <= now)


def next_availability_s(pods: Iterable[ReadOnlyTree], min_ready_s: float, now: float) -> float | None:
    """How long until the next of the ready pods is available; None where each is at once."""
    if not min_ready_s:
        return None
    since = [when for pod in pods if (when := ready_since(pod)) is not None]
    return min((when + min_ready_s - now for when in since if when + min_ready_s > now), default=None)


def controller_of(tree: ReadOnlyTree) -> Tree | None:
    """The owner reference of the object's controller."""
    for reference in tree["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            found: Tree = reference
            return found
    return None


def is_controlled_by(tree: ReadOnlyTree, owner: ReadOnlyTree) -> bool:
    reference = controller_of(tree)
    return reference is not None and bool(reference["uid"] == owner["metadata"]["uid"])


def controller_reference(owner: ReadOnlyTree) -> Tree:
    """The reference by which an object has `owner` as its controller."""
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def selector_of(tree: ReadOnlyTree | None) -> Selector | None:
    """A LabelSelector, compiled; None for one that can't be."""
    return _compiled(json.dumps(tree, sort_keys=True))


@lru_cache(maxsize=4096)
def _compiled(text: str) -> Selector | None:
    try:
        return from_label_selector(json.loads(text))
    except SelectorError:
        return None


def set_condition(conditions: Sequence[ReadOnlyTree], condition: Tree, now: float, **times: str) -> list[Any]:
    """Conditions with one replaced; those of equal status keep the time of their transition.

    `times` are further fields with the current time, such as ``lastUpdateTime``.
    """
    before = next((known for known in conditions if known["type"] == condition["type"]), None)
    since = rfc3339(now)
    if before is not None and before["status"] == condition["status"]:
        since = before.get("lastTransitionTime") or since
    made = {**condition, **times, "lastTransitionTime": since}
    return [*without_condition(conditions, condition["type"]), made]


def without_condition(conditions: Sequence[ReadOnlyTree], type: str) -> list[Any]:
    return [known for known in conditions if known["type"] != type]


def scaled_value(value: int | str, of: int, *, up: bool) -> int:
    """A number, or a percentage of another, which is rounded up or down."""
    if isinstance(value, int):
        return value
    share = int(value.removesuffix("%")) * of
    return -(-share // 100) if up else share // 100


def short_hash(value: Any) -> str:
    """Ten characters that depend on a tree, for names: another tree has others."""
    digest = hashlib.blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=10).digest()
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest)


def pod_from_template(template: ReadOnlyTree, owner: ReadOnlyTree) -> Tree:
    """A pod of a controller's template, without its name."""
    given = template.get("metadata") or {}
    metadata: Tree = {
        "namespace": owner["metadata"]["namespace"],
        "labels": dict(given.get("labels") or {}),
        "annotations": dict(given.get("annotations") or {}),
        "ownerReferences": [controller_reference(owner)],
    }
    if given.get("finalizers"):
        metadata["finalizers"] = list(given["finalizers"])
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": dict(template.get("spec") or {})}
