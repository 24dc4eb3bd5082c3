"""The controllers of all parts of a control plane, on the servers of a store that they run on.

See also: ``controllers.leading``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from oarlock.apps.controllers.leading import Elected, Leadership, OwnController
from oarlock.apps.controlplane.part import ControlPlanePart
from oarlock.server.assembly.own_work import Runnable

__all__ = ["elected_controllers"]


def elected_controllers(parts: Sequence[ControlPlanePart], shared: Callable[[], bool]) -> Iterator[Runnable]:
    """The controllers of the parts; those that bring the world in line run on one of the servers of a store."""
    leadership = Leadership(shared)
    if any(name not in part.everywhere for part in parts for name in part.controllers):
        yield leadership
    for part in parts:
        for name, controller in part.controllers.items():
            if name in part.everywhere:
                yield OwnController(getattr(controller, "name", type(controller).__name__), controller)
            else:
                yield Elected(name, controller, leadership)
