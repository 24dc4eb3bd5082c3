"""What ``oarlock up`` does besides when this package is installed: its flags, and the parts that they ask for."""

from __future__ import annotations

from dataclasses import dataclass

from oarlock.extend import BooleanType, InstalledParts, MakePart, OptionGroup, option

__all__ = ["PARTS", "ClusterOptions"]


@dataclass(frozen=True, kw_only=True, repr=False)
class ClusterOptions(OptionGroup):
    """Which of a cluster's programs run in the process of the server."""

    title = "Cluster"

    workloads: bool = option(
        False,
        BooleanType(),
        "Run kube-controller-manager's controllers of workloads too: Deployments get pods, Services endpoints, claims "
        "volumes. --controllers says which.",
    )


def _parts(options: ClusterOptions) -> list[MakePart]:
    from oarlock_cluster.workloads import workloads_part  # noqa: PLC0415 (a server without them starts sooner)

    return [workloads_part] if options.workloads else []


PARTS = InstalledParts(ClusterOptions, _parts)
