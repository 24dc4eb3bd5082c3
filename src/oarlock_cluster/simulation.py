"""Parts of a control plane that schedule pods and run them on simulated nodes.

server = ControlPlane(parts=[scheduler_part(), nodes_part(new_nodes(3))])
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from oarlock.extend import ControlPlanePart, MakePart, PartSurroundings, Tree
from oarlock_cluster.nodes.behaviour import BehaviourRule
from oarlock_cluster.nodes.kubelets import SimulatedNodes
from oarlock_cluster.scheduling.scheduler import Scheduler

__all__ = ["nodes_part", "scheduler_part"]


def scheduler_part(scheduler: Scheduler | None = None) -> MakePart:
    """A scheduler as kube-scheduler, or one with filters and scores of its user."""

    def make(around: PartSurroundings) -> ControlPlanePart:
        return ControlPlanePart("scheduler", controllers={"kube-scheduler": scheduler or Scheduler()})

    return make


def nodes_part(nodes: SimulatedNodes | Sequence[Tree] = (), rules: Iterable[BehaviourRule] = ()) -> MakePart:
    """Simulated nodes, whose pods behave as rules and annotations say."""
    simulated = nodes if isinstance(nodes, SimulatedNodes) else SimulatedNodes(nodes, rules)

    def make(around: PartSurroundings) -> ControlPlanePart:
        return ControlPlanePart("simulated-nodes", controllers={"simulated-nodes": simulated})

    return make
