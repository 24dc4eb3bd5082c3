"""VolumeRestrictions, VolumeBinding and VolumeZone as filters: where a pod's claims can be used.

Source: kube-scheduler 1.36 ``volumebinding``, ``volumezone`` and ``volumerestrictions``, in behaviour.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from oarlock.extend import Tree, from_label_selector
from oarlock_cluster.scheduling.filters import FilterRefusal, NodeTest, PodRejected
from oarlock_cluster.scheduling.matching import term_matches
from oarlock_cluster.scheduling.resources import amounts
from oarlock_cluster.scheduling.state import ClusterState, NodeState, PodState

__all__ = [
    "best_volume",
    "claims_to_bind",
    "misfit",
    "restrictions_filter",
    "volume_binding_filter",
    "volume_for",
    "volume_zone_filter",
]

_IN_USE = FilterRefusal(
    (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by "
        "another pod",
    )
)
_ELSEWHERE = FilterRefusal(("node(s) didn't match PersistentVolume's node affinity",), final=True)
_NOTHING_TO_BIND = FilterRefusal(("node(s) didn't find available persistent volumes to bind",), final=True)
_NO_VOLUME = FilterRefusal(("node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",), final=True)
_WRONG_ZONE = FilterRefusal(("node(s) had no available volume zone",), final=True)
_ZONES = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
NO_PROVISIONER = "kubernetes.io/no-provisioner"


def restrictions_filter(pod: PodState, state: ClusterState) -> NodeTest | None:
    """VolumeRestrictions: a claim that is ReadWriteOncePod is one pod's."""
    claims = {name: state.claims.get((pod.namespace, name)) or {} for name in pod.claims}
    alone = {
        name
        for name, claim in claims.items()
        if "ReadWriteOncePod" in ((claim.get("spec") or {}).get("accessModes") or ())
    }
    if not alone:
        return None
    for node in state.nodes.values():
        for other in node.pods.values():
            if other.uid != pod.uid and other.namespace == pod.namespace and alone.intersection(other.claims):
                return lambda node: _IN_USE
    return None


def _claims(pod: PodState, state: ClusterState) -> list[Tree]:
    found = []
    for name in pod.claims:
        claim = state.claims.get((pod.namespace, name))
        if claim is None:
            raise PodRejected(f'persistentvolumeclaim "{name}" not found')
        if (claim.get("status") or {}).get("phase") == "Lost":
            volume = claim["spec"].get("volumeName", "")
            raise PodRejected(f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"')
        if claim["metadata"].get("deletionTimestamp"):
            raise PodRejected(f'persistentvolumeclaim "{name}" is being deleted')
        found.append(claim)
    return found


def _bound(claim: Tree) -> bool:
    annotations = claim["metadata"].get("annotations") or {}
    return bool(claim["spec"].get("volumeName")) and "pv.kubernetes.io/bind-completed" in annotations


def _class_of(claim: Tree, state: ClusterState) -> Tree:
    return state.classes.get(claim["spec"].get("storageClassName") or "") or {}


def claims_to_bind(pod: PodState, state: ClusterState) -> list[Tree]:
    """The claims that wait for the node of their first consumer."""
    return [claim for claim in _claims(pod, state) if not _bound(claim)]


def volume_binding_filter(pod: PodState, state: ClusterState) -> NodeTest | None:
    """VolumeBinding: bound volumes can be used from the node, and the other claims can be bound there."""
    if not pod.claims:
        return None
    claims = _claims(pod, state)
    unbound = [claim for claim in claims if not _bound(claim)]
    if any(_class_of(claim, state).get("volumeBindingMode") != "WaitForFirstConsumer" for claim in unbound):
        raise PodRejected("pod has unbound immediate PersistentVolumeClaims")
    volumes = [state.volumes.get(claim["spec"]["volumeName"]) for claim in claims if _bound(claim)]

    def test(node: NodeState) -> FilterRefusal | None:
        for volume in volumes:
            if volume is None:
                return _NO_VOLUME
            if not _reachable(volume, node):
                return _ELSEWHERE
        return None if all(_can_bind(claim, node, state) for claim in unbound) else _NOTHING_TO_BIND

    return test


def _reachable(volume: Tree, node: NodeState) -> bool:
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    if not required:
        return True
    return any(term_matches(term, node.labels, node.name) for term in required.get("nodeSelectorTerms") or ())


def _can_bind(claim: Tree, node: NodeState, state: ClusterState) -> bool:
    selected = (claim["metadata"].get("annotations") or {}).get("volume.kubernetes.io/selected-node")
    if selected and selected in state.nodes:
        return bool(selected == node.name)
    if volume_for(claim, node, state) is not None:
        return True
    storage_class = _class_of(claim, state)
    if storage_class.get("provisioner", NO_PROVISIONER) == NO_PROVISIONER:
        return False
    topologies = storage_class.get("allowedTopologies") or ()
    return not topologies or any(
        all(node.labels.get(each["key"]) in each.get("values", ()) for each in term.get("matchLabelExpressions") or ())
        for term in topologies
    )


def volume_for(claim: Tree, node: NodeState, state: ClusterState) -> Tree | None:
    """The smallest volume that is free for a claim and can be used from the node, if there is one."""
    return best_volume(claim, (each for each in state.volumes.values() if _reachable(each, node)))


def best_volume(claim: Tree, volumes: Iterable[Tree]) -> Tree | None:
    """The smallest volume that is free for a claim, or the one that was made for it."""
    found = [each for each in volumes if _fits(each, claim)]
    return min(found, key=lambda each: (not each["spec"].get("claimRef"), _size(each)), default=None)


def _size(volume: Tree) -> int:
    return amounts(volume["spec"].get("capacity")).get("storage", 0)


def _fits(volume: Tree, claim: Tree) -> bool:
    """Whether a volume is free for a claim, large enough, of its class and mode."""
    spec: Any = volume["spec"]
    wanted: Any = claim["spec"]
    owner = spec.get("claimRef")
    if owner:
        metadata = claim["metadata"]
        same = all(owner.get(name) == metadata.get(name) for name in ("namespace", "name"))
        return same and owner.get("uid") in (None, "", metadata.get("uid"))
    return (
        (volume.get("status") or {}).get("phase") == "Available"
        and not misfit(volume, claim)
        and from_label_selector(wanted.get("selector") or {}).matches(volume["metadata"].get("labels") or {})
    )


def misfit(volume: Tree, claim: Tree) -> str:
    """Why a volume isn't what a claim asks for; empty if it is."""
    spec, wanted = volume["spec"], claim["spec"]
    if volume["metadata"].get("deletionTimestamp"):
        return f'the volume is marked for deletion "{volume["metadata"]["name"]}"'
    if _size(volume) < amounts((wanted.get("resources") or {}).get("requests")).get("storage", 0):
        return "requested PV is too small"
    for name, default, text in _COMPARED:
        if (spec.get(name) or default) != (wanted.get(name) or default):
            return text
    fits = set(wanted.get("accessModes") or ()) <= set(spec.get("accessModes") or ())
    return "" if fits else "incompatible accessMode"


_COMPARED = (
    ("storageClassName", "", "storageClassName does not match"),
    ("volumeAttributesClassName", "", "volumeAttributesClassName does not match"),
    ("volumeMode", "Filesystem", "incompatible volumeMode"),
)


def volume_zone_filter(pod: PodState, state: ClusterState) -> NodeTest | None:
    """VolumeZone: volumes with labels of a zone or region are used from nodes there."""
    wanted: list[tuple[str, set[str]]] = []
    for name in pod.claims:
        claim = state.claims.get((pod.namespace, name))
        volume = state.volumes.get((claim or {}).get("spec", {}).get("volumeName") or "")
        labels = (volume or {}).get("metadata", {}).get("labels") or {}
        wanted += [(key, set(labels[key].split("__"))) for key in _ZONES if key in labels]
    if not wanted:
        return None

    def test(node: NodeState) -> FilterRefusal | None:
        zoned = any(key in node.labels for key in _ZONES)
        return _WRONG_ZONE if zoned and any(node.labels.get(key) not in values for key, values in wanted) else None

    return test
