"""Code that makes the actual state match the desired state: `Controller`, and what it needs.

    class Databases(Controller[Database]):
        async def reconcile(self, key: ObjectKey) -> Result | None: ...

The same class runs in a server, in a process of its own, and in a test. It needs a client and a clock, no server. Names
are loaded on first use, so a server can show metrics of controllers without loading them.
Must not know: how a server works. Next: `controller`, `group`, `work_queue`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oarlock.meta.lazy_names import lazy_names

if TYPE_CHECKING:
    from oarlock.controllers.base import ControllerNotRunning
    from oarlock.controllers.controller import ClusterControllers, Controller
    from oarlock.controllers.events import EventRecorder
    from oarlock.controllers.keys import ObjectKey, Result, TerminalError, add_finalizer, remove_finalizer
    from oarlock.controllers.owners import AlreadyOwned, owner_reference, set_controller_reference, set_owner_reference
    from oarlock.controllers.running.group import ControllerGroup, ControllerRun, run_controllers
    from oarlock.controllers.running.leases import LeaderElection, LeaderLost
    from oarlock.controllers.watched import (
        ObjectSelection,
        Watched,
        annotations_changed,
        any_of,
        deletion_changed,
        generation_changed,
        labels_changed,
    )
    from oarlock.controllers.writes import Written, create_or_update, write_status
    from oarlock.meta.metrics import MetricFamily

__all__ = [
    "AlreadyOwned",
    "ClusterControllers",
    "Controller",
    "ControllerGroup",
    "ControllerNotRunning",
    "ControllerRun",
    "EventRecorder",
    "LeaderElection",
    "LeaderLost",
    "MetricFamily",
    "ObjectKey",
    "ObjectSelection",
    "Result",
    "TerminalError",
    "Watched",
    "Written",
    "add_finalizer",
    "annotations_changed",
    "any_of",
    "create_or_update",
    "deletion_changed",
    "generation_changed",
    "labels_changed",
    "owner_reference",
    "remove_finalizer",
    "run_controllers",
    "set_controller_reference",
    "set_owner_reference",
    "write_status",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "base": "ControllerNotRunning",
            "controller": "ClusterControllers Controller",
            "events": "EventRecorder",
            "running.group": "ControllerGroup ControllerRun run_controllers",
            "keys": "ObjectKey Result TerminalError add_finalizer remove_finalizer",
            "running.leases": "LeaderElection LeaderLost",
            "metrics": "MetricFamily",
            "owners": "AlreadyOwned owner_reference set_controller_reference set_owner_reference",
            "watched": (
                "ObjectSelection Watched annotations_changed any_of deletion_changed generation_changed labels_changed"
            ),
            "writes": "Written create_or_update write_status",
        },
    )
