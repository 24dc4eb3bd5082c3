"""The options of ``oarlock doctor``. See also: `command`."""

from __future__ import annotations

from oarlock.cli.cluster_options import ClusterOptions
from oarlock.meta.dataclass import dataclass
from oarlock.server.options.option import argument
from oarlock.server.options.types import StringType

__all__ = ["DoctorOptions"]


@dataclass(frozen=True, kw_only=True, repr=False)
class DoctorOptions(ClusterOptions):
    """The options of ``oarlock doctor``."""

    title = ""

    api_service: str = argument(
        StringType("VERSION.GROUP"), "The APIService to look at; all that name a Service unless given.", default=""
    )
