"""The option ``--quiet`` of commands that show progress. See also: `progress`."""

from __future__ import annotations

from oarlock.meta.dataclass import dataclass
from oarlock.server.options.option import OptionGroup, option
from oarlock.server.options.types import BooleanType


@dataclass(frozen=True, kw_only=True, repr=False)
class QuietOptions(OptionGroup):
    """What commands that show progress have in common."""

    quiet: bool = option(False, BooleanType(), "Show no progress.", in_file=False)
