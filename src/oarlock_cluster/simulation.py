"""Parts of a control plane that schedule pods and run them on simulated nodes.

server = ControlPlane(parts=[scheduler_part(), nodes_part(new_nodes(3))])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import yaml

from oarlock.extend import ControlPlanePart, MakePart, PartSurroundings, SelectorError, Tree
from oarlock_cluster.nodes.answers import PodAnswers
from oarlock_cluster.nodes.behaviour import BehaviourRule, rules_of
from oarlock_cluster.nodes.kubelets import SimulatedNodes
from oarlock_cluster.nodes.metrics import NodeUsages, PodUsages
from oarlock_cluster.nodes.processes import ContainerProcesses, commands_of
from oarlock_cluster.nodes.shapes import new_nodes, nodes_of
from oarlock_cluster.scheduling.scheduler import Scheduler

__all__ = ["metrics_part", "nodes_of_text", "nodes_part", "scheduler_part", "simulated_cluster"]


def scheduler_part(scheduler: Scheduler | None = None) -> MakePart:
    """A scheduler as kube-scheduler, or one with filters and scores of its user."""

    def make(around: PartSurroundings) -> ControlPlanePart:
        return ControlPlanePart("scheduler", controllers={"kube-scheduler": scheduler or Scheduler()})

    return make


def nodes_part(nodes: SimulatedNodes | Sequence[Tree] = (), rules: Iterable[BehaviourRule] = ()) -> MakePart:
    """Simulated nodes, whose pods behave as rules and annotations say."""
    simulated = nodes if isinstance(nodes, SimulatedNodes) else SimulatedNodes(nodes, rules)

    def make(around: PartSurroundings) -> ControlPlanePart:
        answers = PodAnswers(simulated)
        return ControlPlanePart("simulated-nodes", controllers={"simulated-nodes": simulated}, pods=answers)

    return make


def metrics_part(nodes: SimulatedNodes) -> MakePart:
    """The metrics API: what simulated pods and nodes use."""

    def make(around: PartSurroundings) -> ControlPlanePart:
        return ControlPlanePart("simulated-metrics", serve=[PodUsages(nodes), NodeUsages(nodes)])

    return make


def simulated_cluster(
    nodes: SimulatedNodes, scheduler: Scheduler | None = None, *, metrics: bool = True
) -> list[MakePart]:
    """A scheduler and nodes; with `metrics` the metrics API too."""
    return [scheduler_part(scheduler), nodes_part(nodes), *([metrics_part(nodes)] if metrics else [])]


def nodes_of_text(text: str, *, run_processes: bool = False) -> SimulatedNodes:
    """So many equal nodes, or the ``nodes`` and ``behaviours`` of a YAML file; with `run_processes` its ``processes``.

    Raises OSError and ValueError if it can't be read.
    """
    if text.isdecimal():
        if run_processes:
            raise ValueError("the processes to run are listed in a file")
        return SimulatedNodes(new_nodes(int(text)))
    try:
        tree = yaml.safe_load(Path(text).read_text())
        if not isinstance(tree, Mapping):
            raise ValueError("no mapping with nodes")
        processes = ContainerProcesses(commands_of(tree)) if run_processes else None
        return SimulatedNodes(nodes_of(tree), rules_of(tree), processes=processes)
    except (yaml.YAMLError, KeyError, TypeError, AttributeError, ValueError, SelectorError) as error:
        raise ValueError(str(error)) from None
