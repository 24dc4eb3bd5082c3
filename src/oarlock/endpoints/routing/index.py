"""The index of paths: the answer for ``/``, and the 404 for paths outside every served group.

Must not know: what is behind the paths. See also: `own_paths`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from oarlock.endpoints.catalog import Catalog
from oarlock.endpoints.http import Response

__all__ = ["PathsIndex", "not_found"]

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
