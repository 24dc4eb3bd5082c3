"""What the server says of itself in objects, and brings back when it is removed."""

from __future__ import annotations

from oarlock.apps.controllers.own_objects.objects import OwnObjects, keep_tracking
from oarlock.apps.controllers.own_objects.published_trust import PublishedTrust
from oarlock.apps.controllers.own_objects.upkeep import Upkeep
from oarlock.apps.controlplane.collections.namespaces import create_system_namespaces
from oarlock.apps.controlplane.part import ControlPlanePart, PartSurroundings

__all__ = ["own_objects_part"]


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
