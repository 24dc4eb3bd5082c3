"""The options of ``oarlock dev``. See also: `developing`."""

from __future__ import annotations

from pathlib import Path

from oarlock.cli.loading import ServerArgument
from oarlock.meta.dataclass import dataclass
from oarlock.server.options.option import option
from oarlock.server.options.types import BooleanType, IntegerType, PathType, StringType

__all__ = ["DevOptions"]


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
        "The server writes this kubeconfig, and what runs beside it reads it.",
        in_file=False,
    )
    controllers: str = option(
        "",
        StringType("MODULE:ATTRIBUTE|FILE.py"),
        "Run the controllers in this file beside the server, as oarlock run does; those of the server run in it.",
        in_file=False,
    )
    webhooks: bool = option(
        False,
        BooleanType(),
        "Run oarlock webhooks for the same classes beside the server, on a free port.",
        in_file=False,
    )
