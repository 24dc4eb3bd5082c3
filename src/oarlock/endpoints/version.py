"""``/version``: the Kubernetes version this server is compatible with, and its own.

Clients compare ``major``, ``minor`` and ``gitVersion`` (a semantic version) with their own version, so these are
Kubernetes'; this server's own version is the build metadata. With 1.34, kubectl 1.33 to 1.35 don't warn about version
skew. Source: k8s.io/apimachinery ``version.Info``. See also: `own_paths`.
"""

from __future__ import annotations

import json
import platform
import sys
from functools import lru_cache

from oarlock.endpoints.http import Response

__all__ = ["KUBERNETES_MAJOR", "KUBERNETES_MINOR", "respond", "version_info"]

KUBERNETES_MAJOR = "1"
KUBERNETES_MINOR = "34"
MINIMUM_MINOR = "33"
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def version_info(own_version: str) -> dict[str, str]:
    """The fields of ``version.Info``; `own_version` is this package's, e.g. ``0.1.0``."""
    machine = platform.machine()
    python = ".".join(str(n) for n in sys.version_info[:3])
    return {
        "major": KUBERNETES_MAJOR,
        "minor": KUBERNETES_MINOR,
        "emulationMajor": KUBERNETES_MAJOR,
        "emulationMinor": KUBERNETES_MINOR,
        "minCompatibilityMajor": KUBERNETES_MAJOR,
        "minCompatibilityMinor": MINIMUM_MINOR,
        "gitVersion": f"v{KUBERNETES_MAJOR}.{KUBERNETES_MINOR}.0+oarlock-{own_version}",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{python}",
        "compiler": sys.implementation.name,
        "platform": f"{sys.platform}/{_MACHINES.get(machine, machine)}",
    }


@lru_cache(maxsize=4)
def _body(own_version: str) -> bytes:
    return json.dumps(version_info(own_version), indent=2).encode()


def respond(own_version: str) -> Response:
    """The answer to ``GET /version``."""
    return Response(200, [("content-type", "application/json")], _body(own_version))
