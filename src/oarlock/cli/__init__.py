"""The ``oarlock`` command. See also: `commands`."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line; ends the process."""
    begins = "oarlock.cli.commands" not in sys.modules
    if begins:
        gc.disable()  # of the modules that are loaded now nothing is garbage: looking for it is wasted
    from oarlock.cli import commands  # noqa: PLC0415 (so that this comes first)

    if begins:
        commands.load(list(sys.argv[1:] if argv is None else argv))
        gc.freeze()
        gc.enable()
    commands.main(argv)
