"""``oarlock up``: a control plane with the options of a command line. See also: ``apps.controlplane``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from oarlock.apps.admission.configuration_file import AdmissionFileError
from oarlock.apps.controlplane.control_plane import ControlPlane, UnknownSwitch
from oarlock.apps.controlplane.options import ControlPlaneOptions, PluginSwitchError
from oarlock.apps.controlplane.part import MakePart
from oarlock.client.login.kubeconfig import ClientConfigError
from oarlock.schema.types.declaring import KeywordError
from oarlock.server.command import CommandError, serve_with
from oarlock.server.config import ServerConfig

_DEPRECATED = (
    "Flag --admission-control has been deprecated, Use --enable-admission-plugins or --disable-admission-plugins "
    "instead. Will be removed in a future version."
)


def up(config: ServerConfig, options: ControlPlaneOptions, parts: Sequence[MakePart] = ()) -> int:
    """Serve until SIGTERM or SIGINT, with the parts of other packages: the exit code.

    Raises CommandError, and errors of the start.
    """
    try:
        server = ControlPlane(options=options, parts=parts)
    except KeywordError as error:
        if isinstance(error.__cause__, UnknownSwitch):
            raise CommandError(f"--{error.__cause__}") from None
        if isinstance(error.__cause__, PluginSwitchError):
            raise CommandError("\n".join(error.__cause__.lines)) from None
        if isinstance(error.__cause__, AdmissionFileError | ClientConfigError):
            raise CommandError(f"--admission-control-config-file: {error.__cause__}") from None
        raise
    if options.admission_control:
        print(f"oarlock: {_DEPRECATED}", file=sys.stderr)
    if server.missing_plugins:
        names = ", ".join(server.missing_plugins)
        flag = "--admission-control" if options.admission_control else "--enable-admission-plugins"
        print(f"oarlock: {flag}: not implemented and without effect: {names}", file=sys.stderr)
    return serve_with(server, config)
