"""``oarlock up``: a control plane with the options of a command line. See also: ``apps.controlplane``."""

from __future__ import annotations

import sys

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.apps.controlplane.options import ControlPlaneOptions
from oarlock.apps.controlplane.switches import UnknownSwitch
from oarlock.schema.declaring import KeywordError
from oarlock.server.command import CommandError, serve_with
from oarlock.server.config import ServerConfig

__all__ = ["up"]


def up(config: ServerConfig, options: ControlPlaneOptions) -> int:
    """Serve until SIGTERM or SIGINT: the exit code. Raises CommandError, and errors of the start."""
    try:
        server = ControlPlane(options=options)
    except KeywordError as error:
        if isinstance(error.__cause__, UnknownSwitch):
            raise CommandError(f"--{error.__cause__}") from None
        raise
    if server.missing_plugins:
        names = ", ".join(server.missing_plugins)
        print(f"oarlock: --enable-admission-plugins: not here, and without effect: {names}", file=sys.stderr)
    return serve_with(server, config)
