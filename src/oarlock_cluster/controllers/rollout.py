"""How many pods each ReplicaSet of a Deployment is to have: surge, unavailability, proportions, history.

Source: k8s.io/kubernetes ``pkg/controller/deployment``, in behaviour.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from oarlock.extend import ReadOnlyTree, Tree
from oarlock_cluster.shapes import created, is_terminating, labels_of, scaled_value, short_hash

__all__ = [
    "HASH_LABEL",
    "REVISION",
    "Rollout",
    "annotations_for",
    "replicas_annotations",
    "revision_of",
    "same_template",
    "total",
]

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAX = "deployment.kubernetes.io/max-replicas"
LONGEST_HISTORY = 2000

_NOT_COPIED = frozenset(
    (
        "kubectl.kubernetes.io/last-applied-configuration",
        "deprecated.deployment.rollback.to",
        REVISION,
        HISTORY,
        DESIRED,
        MAX,
    )
)


def _annotations(tree: ReadOnlyTree) -> dict[str, str]:
    return tree["metadata"].get("annotations") or {}


def _number(tree: ReadOnlyTree, annotation: str) -> int | None:
    text = _annotations(tree).get(annotation, "")
    return int(text) if text.isdigit() else None


def revision_of(replica_set: ReadOnlyTree) -> int:
    return _number(replica_set, REVISION) or 0


def same_template(one: ReadOnlyTree, other: ReadOnlyTree) -> bool:
    """Whether templates are equal but for the label that a Deployment adds."""
    return one.get("spec") == other.get("spec") and _template_metadata(one) == _template_metadata(other)


def _template_metadata(template: ReadOnlyTree) -> Tree:
    metadata = {name: value for name, value in (template.get("metadata") or {}).items() if value}
    labels = {label: value for label, value in labels_of(template).items() if label != HASH_LABEL}
    return {**metadata, "labels": labels}


def total(sets: Iterable[ReadOnlyTree], field: str) -> int:
    """The sum of a number of the sets' statuses."""
    return sum((replica_set.get("status") or {}).get(field, 0) for replica_set in sets)


def _fenceposts(deployment: ReadOnlyTree) -> tuple[int, int]:
    """How many pods there may be too many, and how many too few."""
    strategy, replicas = deployment["spec"].get("strategy") or {}, deployment["spec"].get("replicas", 1)
    if strategy.get("type") == "Recreate":
        return 0, 0
    rolling = strategy.get("rollingUpdate") or {}
    surge = scaled_value(rolling.get("maxSurge", 0), replicas, up=True)
    unavailable = scaled_value(rolling.get("maxUnavailable", 0), replicas, up=False)
    if not surge and not unavailable:
        unavailable = 1
    return surge, min(unavailable, replicas)


def replicas_annotations(deployment: ReadOnlyTree) -> dict[str, str]:
    """What a set keeps of the size of its Deployment, so that scaling can be told from rolling out."""
    replicas = deployment["spec"].get("replicas", 1)
    return {DESIRED: str(replicas), MAX: str(replicas + _fenceposts(deployment)[0])}


def annotations_for(deployment: ReadOnlyTree, replica_set: ReadOnlyTree, revision: int) -> dict[str, str]:
    """The annotations that the set of the template doesn't have yet."""
    known = _annotations(replica_set)
    changed = {
        name: value
        for name, value in _annotations(deployment).items()
        if name not in _NOT_COPIED and known.get(name) != value
    }
    before = revision_of(replica_set)
    if before < revision:
        changed[REVISION] = str(revision)
        if REVISION in known:
            changed[HISTORY] = _history(known.get(HISTORY, ""), str(before))
    return changed


def _history(before: str, revision: str) -> str:
    revisions = [*before.split(","), revision] if before else [revision]
    while len(revisions) > 1 and len(",".join(revisions)) > LONGEST_HISTORY:
        revisions.pop(0)
    return ",".join(revisions)


@dataclass(frozen=True)
class Rollout:
    """The ReplicaSets of a Deployment: the `new` one has its template, the `old` ones are in the order of creation."""

    deployment: ReadOnlyTree
    new: ReadOnlyTree | None
    old: Sequence[ReadOnlyTree]
    replicas: int
    max_surge: int
    max_unavailable: int

    @classmethod
    def of(cls, deployment: ReadOnlyTree, sets: Sequence[ReadOnlyTree]) -> Rollout:
        ordered = sorted(sets, key=lambda replica_set: (created(replica_set), replica_set["metadata"]["name"]))
        template = deployment["spec"]["template"]
        new = next(
            (replica_set for replica_set in ordered if same_template(template, replica_set["spec"]["template"])), None
        )
        surge, unavailable = _fenceposts(deployment)
        old = [replica_set for replica_set in ordered if replica_set is not new]
        return cls(deployment, new, old, deployment["spec"].get("replicas", 1), surge, unavailable)

    @property
    def every(self) -> list[ReadOnlyTree]:
        return [*self.old, self.new] if self.new is not None else [*self.old]

    @property
    def active(self) -> list[ReadOnlyTree]:
        """Those that shall have pods."""
        return [replica_set for replica_set in self.every if replica_set["spec"]["replicas"]]

    def next_revision(self) -> int:
        return max(map(revision_of, self.old), default=0) + 1

    def new_name(self) -> str:
        """The name that a set of the template gets."""
        collisions = (self.deployment.get("status") or {}).get("collisionCount", 0)
        suffix = short_hash([self.deployment["spec"]["template"], collisions])
        return f"{self.deployment['metadata']['name'][: 252 - len(suffix)]}-{suffix}"

    def complete(self, status: ReadOnlyTree) -> bool:
        """Whether a status says that all pods are new and available."""
        counts = {status.get(name, 0) for name in ("updatedReplicas", "replicas", "availableReplicas")}
        current = status.get("observedGeneration", 0) >= self.deployment["metadata"].get("generation", 0)
        return counts == {self.replicas} and bool(current)

    def failure(self) -> Tree | None:
        """The condition of a set that can't make its pods, the new one's first."""
        for replica_set in ([self.new] if self.new is not None else []) + [*self.old]:
            for condition in (replica_set.get("status") or {}).get("conditions") or ():
                if condition["type"] == "ReplicaFailure":
                    return dict(condition)
        return None

    def was_scaled(self) -> bool:
        """Whether the Deployment's size isn't that for which its sets were made."""
        return any(_number(replica_set, DESIRED) not in (None, self.replicas) for replica_set in self.active)

    def new_size(self, size: int) -> int:
        """How many pods the new set may have, which has `size`."""
        if size > self.replicas:
            return self.replicas
        room = self.replicas + self.max_surge - sum(replica_set["spec"]["replicas"] for replica_set in self.every)
        return size + max(0, min(int(room), self.replicas - size))

    def scaled_down(self) -> dict[str, int]:
        """The sizes of the old sets that can have fewer pods: first those that aren't available, then others."""
        assert self.new is not None
        old = [replica_set for replica_set in self.old if replica_set["spec"]["replicas"]]
        sizes = {replica_set["metadata"]["name"]: replica_set["spec"]["replicas"] for replica_set in old}
        minimum = self.replicas - self.max_unavailable
        new_missing = self.new["spec"]["replicas"] - total([self.new], "availableReplicas")
        spare = sum(replica_set["spec"]["replicas"] for replica_set in self.every) - minimum - new_missing
        if spare <= 0 or not old:
            return {}
        left = spare
        for replica_set in old:
            name, missing = (
                replica_set["metadata"]["name"],
                replica_set["spec"]["replicas"] - total([replica_set], "availableReplicas"),
            )
            taken = max(0, min(left, missing))
            sizes[name] -= taken
            left -= taken
        left = total(self.every, "availableReplicas") - minimum
        for name in sizes:
            taken = max(0, min(left, sizes[name]))
            sizes[name] -= taken
            left -= taken
        return {
            name: size
            for replica_set in old
            if (size := sizes[name := replica_set["metadata"]["name"]]) != replica_set["spec"]["replicas"]
        }

    def proportional(self) -> dict[str, int]:
        """The sizes of the sets for another size of the Deployment: each keeps its share."""
        active = self.active
        if len(active) <= 1:
            single = active[0] if active else self.new or (self.old[-1] if self.old else None)
            return {} if single is None else self._sized({single["metadata"]["name"]: self.replicas})
        if self.new is not None and self._saturated(self.new):
            return {replica_set["metadata"]["name"]: 0 for replica_set in active if replica_set is not self.new}
        if (self.deployment["spec"].get("strategy") or {}).get("type") == "Recreate":
            return {}
        allowed = self.replicas + self.max_surge if self.replicas else 0
        to_add = allowed - sum(replica_set["spec"]["replicas"] for replica_set in active)
        # Of sets of equal size the newer ones grow first, and the older ones shrink first.
        active.sort(key=created, reverse=to_add > 0)
        active.sort(key=lambda replica_set: -replica_set["spec"]["replicas"])
        added, sizes = 0, {}
        for replica_set in active:
            size = replica_set["spec"]["replicas"]
            share = self._share(replica_set) if to_add and added != to_add else 0
            share = min(share, to_add - added) if to_add > 0 else max(share, to_add - added) if to_add else 0
            sizes[replica_set["metadata"]["name"]] = size + share
            added += share
        largest = active[0]["metadata"]["name"]
        sizes[largest] = max(0, sizes[largest] + to_add - added)
        return self._sized(sizes)

    def _share(self, replica_set: ReadOnlyTree) -> int:
        size = replica_set["spec"]["replicas"]
        if not self.replicas:
            return -int(size)
        before: int = _number(replica_set, MAX) or (self.deployment.get("status") or {}).get("replicas", 0)
        if not before:
            return 0
        return math.floor(int(size) * (self.replicas + self.max_surge) / before + 0.5) - int(size)

    def _sized(self, sizes: dict[str, int]) -> dict[str, int]:
        """Without the sets that have their size, and say for which size of the Deployment."""
        annotations = replicas_annotations(self.deployment)
        known = {replica_set["metadata"]["name"]: replica_set for replica_set in self.every}
        return {
            name: size
            for name, size in sizes.items()
            if known[name]["spec"]["replicas"] != size or not annotations.items() <= _annotations(known[name]).items()
        }

    def _saturated(self, replica_set: ReadOnlyTree) -> bool:
        numbers: set[Any] = {replica_set["spec"]["replicas"], _number(replica_set, DESIRED)}
        return numbers | {total([replica_set], "availableReplicas")} == {self.replicas}

    def superfluous(self) -> list[str]:
        """The names of old sets without pods that are more than the history keeps."""
        limit = self.deployment["spec"].get("revisionHistoryLimit")
        if limit is None or limit == 2**31 - 1:
            return []
        alive = sorted(
            (replica_set for replica_set in self.old if not is_terminating(replica_set)),
            key=lambda replica_set: (revision_of(replica_set), created(replica_set)),
        )
        return [
            replica_set["metadata"]["name"]
            for replica_set in alive[: max(0, len(alive) - limit)]
            if _is_idle(replica_set)
        ]


def _is_idle(replica_set: ReadOnlyTree) -> bool:
    status = replica_set.get("status") or {}
    seen = replica_set["metadata"].get("generation", 0) <= status.get("observedGeneration", 0)
    return bool(seen) and not status.get("replicas") and not replica_set["spec"]["replicas"]
