"""DaemonSet: a pod on each node that it is for. `desired` says what is to be done; `DaemonSets` does it.

Source: k8s.io/kubernetes ``pkg/controller/daemon``, in behaviour.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from oarlock import errors
from oarlock.controllers import ObjectKey, Result, Watched
from oarlock.extend import ReadOnlyTree, Tree
from oarlock_cluster.controllers.acting import AGAIN
from oarlock_cluster.controllers.revisions import REVISION_LABEL, REVISIONS, RevisionedController
from oarlock_cluster.scheduling.matching import node_selected, untolerated_taint
from oarlock_cluster.shapes import (
    created,
    is_available,
    is_ready,
    is_terminating,
    key_of,
    labels_of,
    next_availability_s,
    phase_of,
    pod_from_template,
    scaled_value,
)

__all__ = ["DaemonSetPlan", "DaemonSets", "desired", "node_of", "should_run"]

GENERATION = "deprecated.daemonset.template.generation"
GENERATION_LABEL = "pod-template-generation"
LONGEST_BACKOFF_S = 900.0
REFUSED_S = 1.0
"""When what the server refused is tried again."""
_ENDED = ("Failed", "Succeeded")
_PRESSURES = ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")


@dataclass
class DaemonSetPlan:
    """Names of nodes that are to get a pod, pods to delete, and those of them that have ended."""

    create: list[str] = field(default_factory=list)
    delete: list[Tree] = field(default_factory=list)
    ended: list[Tree] = field(default_factory=list)


def node_of(pod: ReadOnlyTree) -> str:
    """The node that a pod is on or is meant for; empty if it is for none."""
    spec = pod["spec"]
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for requirement in term.get("matchFields") or ():
            if requirement["key"] == "metadata.name" and len(requirement.get("values") or ()) == 1:
                return str(requirement["values"][0])
    return ""


def tolerations_of(spec: ReadOnlyTree) -> list[Tree]:
    """The tolerations of a pod of a DaemonSet: its own, and those of what nodes say of themselves."""
    pressures = [*_PRESSURES, "network-unavailable"] if spec.get("hostNetwork") else _PRESSURES
    added = [("not-ready", "NoExecute"), ("unreachable", "NoExecute"), *((key, "NoSchedule") for key in pressures)]
    keys = [{"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect} for key, effect in added]
    own = [toleration for toleration in spec.get("tolerations") or () if toleration not in keys]
    return [*own, *keys]


def should_run(daemon_set: ReadOnlyTree, node: ReadOnlyTree) -> tuple[bool, bool]:
    """Whether a pod is to be on the node, and whether one that is there may stay."""
    spec, name = daemon_set["spec"]["template"].get("spec") or {}, node["metadata"]["name"]
    if spec.get("nodeName", name) != name or not node_selected(spec, labels_of(node), name):
        return False, False
    taints, tolerations = (node.get("spec") or {}).get("taints") or (), tolerations_of(spec)
    stays = untolerated_taint(taints, tolerations, ("NoExecute",)) is None
    return stays and untolerated_taint(taints, tolerations, ("NoSchedule",)) is None, stays


def _age(pod: ReadOnlyTree) -> tuple[Any, ...]:
    return (not pod["spec"].get("nodeName"), created(pod), pod["metadata"]["name"])


def _fenceposts(daemon_set: ReadOnlyTree, wanted: int) -> tuple[int, int]:
    """How many nodes may have a pod too many, and how many may have none."""
    rolling = (daemon_set["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
    surge = scaled_value(rolling.get("maxSurge", 0), wanted, up=True)
    unavailable = scaled_value(rolling.get("maxUnavailable", 1), wanted, up=True)
    return (0, max(unavailable, 1)) if not surge else (surge, unavailable)


@dataclass
class _Daemons:
    """A DaemonSet, its nodes and its pods by their node."""

    daemon_set: ReadOnlyTree
    nodes: Sequence[ReadOnlyTree]
    pods: Mapping[str, Sequence[Tree]]
    hash: str
    now: float

    def __post_init__(self) -> None:
        rolling = (self.daemon_set["spec"].get("updateStrategy") or {}).get("type") != "OnDelete"
        self.run = {node["metadata"]["name"]: should_run(self.daemon_set, node) for node in self.nodes}
        self.wanted = [name for name, (run, _) in self.run.items() if run]
        self.surge, self.unavailable = _fenceposts(self.daemon_set, len(self.wanted)) if rolling else (0, 0)

    def updated(self, pod: ReadOnlyTree) -> bool:
        labels = labels_of(pod)
        generation = (self.daemon_set["metadata"].get("annotations") or {}).get(GENERATION)
        same = generation is not None and labels.get(GENERATION_LABEL) == generation
        return same or labels.get(REVISION_LABEL) == self.hash

    def available(self, pod: ReadOnlyTree) -> bool:
        return is_available(pod, self.daemon_set["spec"].get("minReadySeconds", 0), self.now)

    def manage(self, plan: DaemonSetPlan) -> None:
        """Each node has a pod that is to have one, and no other has."""
        for name, (run, stays) in self.run.items():
            pods = self.pods.get(name, ())
            going = [pod for pod in pods if not is_terminating(pod)]
            if run and not pods:
                plan.create.append(name)
            elif stays:
                plan.ended += [pod for pod in going if phase_of(pod) in _ENDED]
                running = sorted((pod for pod in going if phase_of(pod) not in _ENDED), key=_age)
                plan.delete += self._too_many(running)
                if self.surge and run and not running:
                    plan.create.append(name)
            else:
                plan.delete += going
        lost = [pod for name in self.pods.keys() - self.run.keys() for pod in self.pods[name]]
        plan.delete += [pod for pod in lost if not pod["spec"].get("nodeName") and not is_terminating(pod)]

    def _too_many(self, running: Sequence[Tree]) -> list[Tree]:
        if not self.surge:
            return list(running[1:])
        old, new = ([pod for pod in running if self.updated(pod) == new] for new in (False, True))
        over = bool(old and new) and (not is_ready(old[0]) or self.available(new[0]))
        return [*old[1:], *new[1:], *(old[:1] if over else ())]

    def roll(self, plan: DaemonSetPlan) -> None:
        """Replace old pods, as many as may be."""
        unavailable = surging = available = 0
        free: list[tuple[str, Tree]] = []
        candidates: list[tuple[str, Tree]] = []
        for name in sorted(self.pods):
            going = [pod for pod in self.pods[name] if not is_terminating(pod)]
            old, new = ([pod for pod in going if self.updated(pod) == new] for new in (False, True))
            available += any(map(self.available, (old or new)[:1]))
            if len(old) > 1 or len(new) > 1 or bool(old) == bool(new):
                unavailable += 1
                surging += bool(old)
                continue
            if new:
                unavailable += not self.available(new[0])
            elif not self.available(old[0]):
                unavailable += 1
                free.append((name, old[0]))
            else:
                candidates.append((name, old[0]))
        if not self.surge:
            chosen = free + candidates[: max(0, self.unavailable - unavailable)]
            plan.delete += [pod for _, pod in chosen]
            return
        wanted = set(self.wanted)
        plan.delete += [pod for name, pod in free if name not in wanted]
        # Where none is wanted any more, one that is available goes once there are enough elsewhere.
        leaving = [pod for name, pod in candidates if name not in wanted]
        plan.delete += leaving[: max(0, available - len(wanted))]
        free, candidates = ([each for each in group if each[0] in wanted] for group in (free, candidates))
        plan.create += [name for name, _ in free + candidates[: max(0, self.surge - surging)]]

    def status(self) -> Tree:
        first = {name: min(self.pods[name], key=_age) for name in self.run if self.pods.get(name)}
        current = [first[name] for name in self.wanted if name in first]
        available = sum(map(self.available, current))
        counts = {
            "updatedNumberScheduled": sum(map(self.updated, current)),
            "numberAvailable": available,
            "numberUnavailable": len(self.wanted) - available,
        }
        status = {
            "currentNumberScheduled": len(current),
            "desiredNumberScheduled": len(self.wanted),
            "numberMisscheduled": len(first) - len(current),
            "numberReady": sum(map(is_ready, current)),
            "observedGeneration": self.daemon_set["metadata"].get("generation", 0),
            **{name: count for name, count in counts.items() if count},
        }
        collisions = (self.daemon_set.get("status") or {}).get("collisionCount")
        return {**status, "collisionCount": collisions} if collisions else status


def desired(
    daemon_set: ReadOnlyTree, nodes: Sequence[ReadOnlyTree], pods: Sequence[Tree], hash: str, now: float
) -> tuple[DaemonSetPlan, Tree]:
    """What is to be done, and the status. `hash` is that of the template, which pods have as a label."""
    by_node: dict[str, list[Tree]] = defaultdict(list)
    for pod in pods:
        if not (is_terminating(pod) and phase_of(pod) in _ENDED):
            by_node[node_of(pod)].append(pod)
    daemons, plan = _Daemons(daemon_set, nodes, by_node, hash, now), DaemonSetPlan()
    daemons.manage(plan)
    if not (plan.create or plan.delete or plan.ended) and (daemons.surge or daemons.unavailable):
        daemons.roll(plan)
    return plan, daemons.status()


def _matters(old: Any, new: Any) -> bool:
    """Whether a change of a node may matter. Of one that is gone the pods are collected first."""
    if old is None or new is None:
        return new is not None
    return bool(labels_of(old) != labels_of(new) or old["spec"].get("taints") != new["spec"].get("taints"))


class DaemonSets(
    RevisionedController[dict[str, Any]],
    of="apps/v1/DaemonSet",
    name="daemonset-controller",
    concurrency=2,
    watches=[
        Watched("v1/Pod", to="_of_pod"),
        Watched("v1/Node", to="_every", when=_matters),
        Watched(REVISIONS, to=lambda revision: ()),
    ],
):
    """Brings pods in line with DaemonSets."""

    def __init__(self) -> None:
        super().__init__()
        self._failures: dict[tuple[ObjectKey, str], tuple[int, float]] = {}
        """How often a pod has failed on a node, and when the last was replaced."""

    def _of_pod(self, pod: ReadOnlyTree) -> Iterable[tuple[str, str]]:
        return self._concerns("v1/Pod", pod, "DaemonSet")

    def _every(self, node: ReadOnlyTree) -> Iterable[tuple[str, str]]:
        return [(daemon_set["metadata"]["namespace"], daemon_set["metadata"]["name"]) for daemon_set in self.informer]

    async def reconcile(self, key: ObjectKey) -> Result | None:
        daemon_set = self.informer.get(key.name, key.namespace)
        if daemon_set is None:
            self._forget(key)
            return None
        if is_terminating(daemon_set) or not self._shows(key):
            return None
        generation = (daemon_set["metadata"].get("annotations") or {}).get(GENERATION, "")
        revisions = await self._revisions(daemon_set)
        revision = await self._current_revision(daemon_set, revisions)
        if revision is None:
            return AGAIN
        pods, now = await self._claim("v1/Pod", daemon_set), self._now()
        hash = labels_of(revision)[REVISION_LABEL]
        plan, status = desired(daemon_set, list(self.informers["v1/Node"]), pods, hash, now)
        wait_s = await self._act(daemon_set, plan, hash, generation)
        await self._write_status(daemon_set, status)
        old = [each for each in revisions if each["metadata"]["name"] != revision["metadata"]["name"]]
        live = {labels_of(pod).get(REVISION_LABEL) for pod in pods}
        await self._forget_revisions(daemon_set, old, live, all_count=True)
        if wait_s is None:
            wait_s = next_availability_s(pods, daemon_set["spec"].get("minReadySeconds", 0), now)
        return None if wait_s is None else Result(wait_s)

    async def _act(self, daemon_set: Tree, plan: DaemonSetPlan, hash: str, generation: str) -> float | None:
        """Do what is planned. Returns when to look again, if something has to wait."""
        waits: list[float] = []
        for pod in plan.ended:
            wait_s = self._replace(daemon_set, pod)
            waits += [wait_s] if wait_s else []
            plan.delete += [] if wait_s else [pod]
        try:
            await self._take_pods(daemon_set, plan.delete)
            made = [new_pod(daemon_set, name, hash, generation) for name in plan.create]
            await self._make_pods(daemon_set, made)
        except errors.StatusError:
            waits.append(REFUSED_S)
        return min(waits, default=None)

    def _replace(self, daemon_set: Tree, pod: ReadOnlyTree) -> float:
        """Say that a pod has ended. Returns how long its replacement has to wait."""
        metadata = pod["metadata"]
        where = f"{metadata['namespace']}/{metadata['name']} on node {node_of(pod)}"
        if phase_of(pod) == "Succeeded":
            text = f"Found succeeded daemon pod {where}, will try to delete it"
            self.events.normal(daemon_set, "SucceededDaemonPod", text, action="")
            return 0.0
        key = (key_of(daemon_set), node_of(pod))
        count, last = self._failures.get(key, (0, float("-inf")))
        now = self.clock.monotonic()
        pause = min(LONGEST_BACKOFF_S, 2.0 ** (count - 1)) if count else 0.0
        if now - last < pause:
            return last + pause - now
        self._failures[key] = (1 if now - last > 2 * LONGEST_BACKOFF_S else count + 1, now)
        text = f"Found failed daemon pod {where}, will try to kill it"
        self.events.warning(daemon_set, "FailedDaemonPod", text, action="")
        return 0.0


def new_pod(daemon_set: ReadOnlyTree, node: str, hash: str, generation: str) -> Tree:
    """A pod that only one node can have."""
    pod = pod_from_template(daemon_set["spec"]["template"], daemon_set)
    pod["metadata"]["generateName"] = f"{daemon_set['metadata']['name']}-"
    pod["metadata"]["labels"] |= {REVISION_LABEL: hash, **({GENERATION_LABEL: generation} if generation else {})}
    spec = pod["spec"]
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    affinity = dict(spec.get("affinity") or {})
    by_node = dict(affinity.get("nodeAffinity") or {})
    required: Tree = by_node.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms: list[Tree] = [{**term, "matchFields": fields} for term in required.get("nodeSelectorTerms") or [{}]]
    by_node["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    spec |= {"affinity": {**affinity, "nodeAffinity": by_node}, "tolerations": tolerations_of(spec)}
    return pod
