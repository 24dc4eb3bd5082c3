"""Answers about the server itself: ``/`` (the index of paths), ``/version``, and the 404 for paths outside every group.

Clients compare ``major``, ``minor`` and ``gitVersion`` (a semantic version) with their own version, so these are
Kubernetes'; this server's own version is the build metadata. With 1.36, kubectl 1.35 to 1.37 don't warn about version
skew. Source: k8s.io/apimachinery ``version.Info``. See also: `find_route`.
"""

from __future__ import annotations

import json
import platform
import re
import sys
from collections.abc import Iterable
from functools import lru_cache

from oarlock.endpoints.catalog import Catalog
from oarlock.endpoints.http import Response
from oarlock.meta.dataclass import dataclass

OWN_PATHS = ("/openapi/v2", "/openapi/v3", "/openapi/v3/", "/version")


def not_found() -> Response:
    """What kube-apiserver answers for a path outside of every group."""
    return Response(404, [("content-type", "text/plain; charset=utf-8")], b"404 page not found\n")


class PathsIndex:
    """The paths of one catalog and `others` (health checks, metrics…), encoded on first request."""

    __slots__ = ("_body", "_catalog", "_others")

    def __init__(self, catalog: Catalog, others: Iterable[str] = ()) -> None:
        self._catalog = catalog
        self._others = tuple(others)
        self._body = b""

    @property
    def body(self) -> bytes:
        if not self._body:
            paths = {*OWN_PATHS, *self._others, "/apis"}
            for group in self._catalog.in_order():
                root = f"/apis/{group.name}" if group.name else "/api"
                paths.add(root)
                paths.update(f"{root}/{version}" for version in group.versions)
            self._body = json.dumps({"paths": sorted(paths)}, indent=2).encode()
        return self._body

    def respond(self, path: str) -> Response:
        """200 for ``/`` and ``/index.html``, 404 for anything else.

        The body of a 404 is the same, as recorded from an extension API server; with a core group it is what
        kube-apiserver says.
        """
        found = path in ("/", "/index.html")
        if not found and self._catalog.group("") is not None:
            return not_found()
        return Response(200 if found else 404, [("content-type", "application/json")], self.body)


KUBERNETES = "1.36.2"
"""The Kubernetes whose answers ours are."""

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_version = re.compile(r"v?(?P<major>[1-9][0-9]?)[.](?P<minor>[0-9]{1,3})(?:[.](?P<patch>[0-9]{1,4}))?", re.ASCII)


def version_parts(text: str) -> tuple[int, int, int]:
    """Major, minor and patch of ``1.36``, ``v1.36.2``. Raises ValueError."""
    match = _version.fullmatch(text)
    if match is None:
        raise ValueError(f"{text} is no version of Kubernetes; write 1.36 or v1.36.2")
    return int(match["major"]), int(match["minor"]), int(match["patch"] or 0)


@dataclass(frozen=True, slots=True)
class ServerVersion:
    """What ``/version`` says: `own` is this package's version, the others are Kubernetes'.

    `emulated` is the version whose APIs are served, that of `kubernetes` unless given; `compatible` the oldest that
    other servers of the same store may have, one minor version before it unless given.
    """

    own: str
    kubernetes: str = KUBERNETES
    emulated: str = ""
    compatible: str = ""


def version_info(version: ServerVersion) -> dict[str, str]:
    """The fields of ``version.Info``."""
    major, minor, patch = version_parts(version.kubernetes)
    emulated = version_parts(version.emulated) if version.emulated else (major, minor, 0)
    compatible = version_parts(version.compatible) if version.compatible else (emulated[0], max(0, emulated[1] - 1), 0)
    machine = platform.machine()
    python = ".".join(str(n) for n in sys.version_info[:3])
    return {
        "major": str(major),
        "minor": str(minor),
        "emulationMajor": str(emulated[0]),
        "emulationMinor": str(emulated[1]),
        "minCompatibilityMajor": str(compatible[0]),
        "minCompatibilityMinor": str(compatible[1]),
        "gitVersion": f"v{major}.{minor}.{patch}+oarlock-{version.own}",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{python}",
        "compiler": sys.implementation.name,
        "platform": f"{sys.platform}/{_MACHINES.get(machine, machine)}",
    }


@lru_cache(maxsize=4)
def _body(version: ServerVersion) -> bytes:
    return json.dumps(version_info(version), indent=2).encode()


def respond(version: ServerVersion) -> Response:
    """The answer to ``GET /version``."""
    return Response(200, [("content-type", "application/json")], _body(version))
