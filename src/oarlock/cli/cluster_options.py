"""The options of every command that asks a cluster: which kubeconfig, and which context of it."""

from __future__ import annotations

from pathlib import Path

from oarlock.meta.dataclass import dataclass
from oarlock.server.options.option import OptionGroup, option
from oarlock.server.options.types import PathType, StringType

__all__ = ["ClusterOptions"]


@dataclass(frozen=True, kw_only=True, repr=False)
class ClusterOptions(OptionGroup):
    """Which cluster, as which user."""

    title = ""

    kubeconfig: Path | None = option(
        None,
        PathType(),
        "The kubeconfig to use; by default KUBECONFIG, a pod's service account, or ~/.kube/config.",
        in_file=False,
    )
    context: str = option("", StringType("NAME"), "The context of the kubeconfig to use.", in_file=False)
