"""The options of ``oarlock dev``. See also: `developing`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from oarlock.cli.loading import ServerArgument
from oarlock.meta.dataclass import dataclass
from oarlock.server.options.option import Problem, option
from oarlock.server.options.types import BooleanType, IntegerType, PathType, StringType

PORT_BEHIND = 1000
"""How far the port of the server is above the control plane's that it is behind."""


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
    behind: bool = option(
        False,
        BooleanType(),
        "Run the server behind a control plane, oarlock up in a process of its own, that clients connect to. The "
        "server listens on the port 1000 above, and keeps its data in the folder behind.",
        in_file=False,
    )
    nodes: int = option(
        0, IntegerType("N", maximum=5_000), "How many simulated nodes that control plane has.", in_file=False
    )

    def check(self) -> Iterator[Problem]:
        if self.nodes and not self.behind:
            yield Problem("nodes", "are those of a control plane: set `behind`")
        if self.behind and not 0 < self.secure_port <= 65_535 - PORT_BEHIND:
            yield Problem("behind", f"needs a port that is known, and the one {PORT_BEHIND} above: set `secure_port`")
