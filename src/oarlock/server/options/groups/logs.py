"""Options of the log."""

from __future__ import annotations

from oarlock.meta.dataclass import dataclass
from oarlock.server.options.option import OptionGroup, option
from oarlock.server.options.types import IntegerType

__all__ = ["LogOptions"]


@dataclass(frozen=True, kw_only=True, repr=False)
class LogOptions(OptionGroup):
    title = "Logs"

    verbosity: int = option(
        0,
        IntegerType("LEVEL", maximum=10),
        "How much to log, to stderr: 1 what the server does, 3 every request, 4 everything.",
        flag="v",
        short="v",
        file_field="verbosity",
    )
