"""Namespaces, and the objects in which the server describes itself."""

from __future__ import annotations

from oarlock.apps.controllers.namespaces.deletion import NamespaceDeletion
from oarlock.apps.controllers.own_objects.objects import OwnObjects, keep_tracking
from oarlock.apps.controllers.own_objects.published_trust import PublishedTrust
from oarlock.apps.controllers.own_objects.upkeep import Upkeep
from oarlock.apps.controlplane.collections.namespaces import (
    NamespaceCollection,
    NamespaceLifecycle,
    create_system_namespaces,
)
from oarlock.apps.controlplane.part import ControlPlanePart, PartSurroundings
from oarlock.apps.kinds.core.objects import Namespace
from oarlock.client.informers.informer import Informer
from oarlock.server.live_catalog import LiveCatalog

__all__ = ["namespaces_part", "own_objects_part"]


def namespaces_part(live: LiveCatalog, known: Informer[Namespace]) -> ControlPlanePart:
    """Namespaces, and what they ask of every object in them. `known` are those that there are, for other parts too."""
    return ControlPlanePart(
        "namespaces",
        serve=[NamespaceCollection],
        admission=[NamespaceLifecycle(known)],
        informers=[known],
        controllers={"namespace-controller": NamespaceDeletion(live)},
        start=create_system_namespaces,
    )


def own_objects_part(around: PartSurroundings, trust: PublishedTrust) -> ControlPlanePart:
    """What the server says of itself in objects, and brings back when it is removed."""
    own = OwnObjects(around.address, around.options)
    steps = (create_system_namespaces, trust.publish, own.publish, keep_tracking)
    return ControlPlanePart(
        "systemobjects",
        controllers={"system-objects-controller": Upkeep(own.renew, steps)},
        everywhere=("system-objects-controller",),
        needs=("namespaces", "configuration", "coordination"),
        start=own.start,
    )
