"""What the process has loaded by which control planes are forked: modules, and what kinds say, which is read once.

See also: `reloading`, which names this module to that process.
"""

from __future__ import annotations

import oarlock.codec.yaml_writer
import oarlock.server.authentication.certificates
import oarlock.server.authentication.own_issuer
import oarlock.server.local.transport  # noqa: F401 (a start needs it)
from oarlock.apps.controlplane.control_plane import ControlPlane

ControlPlane()
