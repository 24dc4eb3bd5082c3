"""The options of ``oarlock dev``. See also: `developing`."""

from __future__ import annotations

from pathlib import Path

from oarlock.cli.loading import ServerArgument
from oarlock.meta.dataclass import dataclass
from oarlock.server.options.option import option
from oarlock.server.options.types import BooleanType, IntegerType, PathType, StringType


@dataclass(frozen=True, kw_only=True, repr=False)
class DevOptions(ServerArgument):
    """The options of ``oarlock dev``."""

    title = ""

    secure_port: int = option(
        6443, IntegerType("PORT", maximum=65_535), "The server listens on this port; 0 is any free port.", in_file=False
    )
    kubeconfig: Path = option(
        Path("oarlock.kubeconfig"),
        PathType(),
        "The kubeconfig that the server writes, and that webhooks and controllers read.",
        in_file=False,
    )
    controllers: str = option(
        "",
        StringType("MODULE:ATTRIBUTE|FILE.py"),
        "Run the controllers of this file in a process of their own, like oarlock run. The server runs its own.",
        in_file=False,
    )
    webhooks: bool = option(
        False,
        BooleanType(),
        "Run oarlock webhooks for the same classes in a process of its own, on a free port.",
        in_file=False,
    )
