"""The options of ``oarlock doctor``. See also: `command`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from oarlock.server.options.option import OptionGroup, argument, option
from oarlock.server.options.types import PathType, StringType

__all__ = ["DoctorOptions"]


@dataclass(frozen=True, kw_only=True, repr=False)
class DoctorOptions(OptionGroup):
    """The options of ``oarlock doctor``."""

    title = ""

    api_service: str = argument(
        StringType("VERSION.GROUP"), "The APIService to look at; all that name a Service unless given.", default=""
    )
    kubeconfig: Path | None = option(
        None,
        PathType(),
        "The kubeconfig to use; by default KUBECONFIG, a pod's service account, or ~/.kube/config.",
        in_file=False,
    )
    context: str = option("", StringType("NAME"), "The context of the kubeconfig to use.", in_file=False)
