"""What ``oarlock up`` does besides when this package is installed: its flags, and the parts that they ask for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from oarlock.extend import (
    BooleanType,
    ConfigError,
    DurationType,
    InstalledParts,
    MakePart,
    OptionGroup,
    StringType,
    option,
)

__all__ = ["PARTS", "SimulationOptions"]


@dataclass(frozen=True, kw_only=True, repr=False)
class SimulationOptions(OptionGroup):
    """Which of a cluster's programs run in the process of the server."""

    title = "Cluster"

    workloads: bool = option(
        False,
        BooleanType(),
        "Run the workload controllers of kube-controller-manager: Deployments get pods, Services endpoints, "
        "claims volumes. --controllers selects controllers.",
    )
    nodes: str = option(
        "",
        StringType("N|FILE"),
        "Run pods on this number of simulated nodes, or on the nodes of a YAML file. Includes --workloads and a "
        "scheduler, and the metrics API of nodes and pods. 0 makes no nodes, simulates those that clients create, "
        "and leaves the metrics API to an APIService.",
    )
    run_containers: str = option(
        "",
        StringType("HOW"),
        "With processes, run containers with an image oarlock.local/NAME as processes of this machine, with the "
        "command that the file of --nodes lists under this name. Others are simulated, as all are by default.",
    )
    node_monitor_grace_period: float = option(
        50.0, DurationType(positive=True), "How long a node may be silent before it counts as lost."
    )


def _parts(options: SimulationOptions) -> list[MakePart]:
    """What the flags ask for. Raises ConfigError for a file of nodes that can't be read, or processes without one."""
    if options.run_containers not in ("", "processes") or (options.run_containers and not options.nodes):
        raise ConfigError([f"--run-containers={options.run_containers}: write processes, with --nodes=FILE"])
    if not options.workloads and not options.nodes:
        return []
    from oarlock_cluster import simulation, workloads  # noqa: PLC0415 (a server without them starts sooner)

    parts: list[MakePart] = [partial(workloads.workloads_part, grace_s=options.node_monitor_grace_period)]
    if options.nodes:
        try:
            nodes = simulation.nodes_of_text(options.nodes, run_processes=bool(options.run_containers))
            parts += simulation.simulated_cluster(nodes, metrics=bool(options.nodes.strip("0")))
        except (OSError, ValueError) as error:
            raise ConfigError(
                [f"--nodes={options.nodes}: write a number, or a YAML file with nodes: {error}"]
            ) from None
    return parts


PARTS = InstalledParts(SimulationOptions, _parts)
