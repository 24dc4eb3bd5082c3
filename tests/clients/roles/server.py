"""A control plane, for tests that ask it who may do what."""

from __future__ import annotations

from oarlock.apps.controlplane.control_plane import ControlPlane

server = ControlPlane()
