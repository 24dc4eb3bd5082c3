"""`StaticFiles`: the files of a page for browsers, which hold nothing of the server's data and need no credentials.

The page asks the API for everything, with the credentials of the person who looks at it. Paths in it are relative, so
that they work behind any prefix. Must not know: what the page is for.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from importlib import resources

from oarlock.endpoints.errors import error_response
from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.respond import accepts_gzip
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import MethodNotAllowed
from oarlock.server.filters.filter import plain

MEDIA_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "svg": "image/svg+xml",
}

SECURITY = (
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
)

ASKED_AGAIN = "no-cache"
KEPT = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file as it is sent: `head` is the same for all who ask, `packed` is it in gzip."""

    head: tuple[tuple[str, str], ...]
    etag: str
    packed: bytes


def static_file(kind: str, body: bytes, policy: tuple[tuple[str, str], ...], caching: str) -> StaticFile:
    """A file of `kind`, one of `MEDIA_TYPES`."""
    return packed_file(kind, gzip.compress(body, 6, mtime=0), policy, caching)


def packed_file(kind: str, packed: bytes, policy: tuple[tuple[str, str], ...], caching: str) -> StaticFile:
    """As `static_file`, of what is packed already."""
    etag = f'"{hashlib.sha256(packed).hexdigest()[:32]}"'
    head = (
        ("content-type", MEDIA_TYPES[kind]),
        ("cache-control", caching),
        ("etag", etag),
        ("vary", "Accept-Encoding"),
        *policy,
    )
    return StaticFile(head, etag, packed)


def assets_of(package: str) -> dict[str, bytes]:
    """The files in the ``assets`` of a package by their names."""
    folder = resources.files(package).joinpath("assets")
    return {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.is_file()}


class StaticFiles:
    """Answers `root` and what is below it with `files`, which are by their paths."""

    def __init__(self, root: str, files: Mapping[str, StaticFile]) -> None:
        self._root = root
        self._files = files

    def respond(self, state: RequestState) -> Response | None:
        """The answer; None for a path that isn't below the root."""
        request = state.request
        path = request.path
        if path != self._root and not path.startswith(f"{self._root}/"):
            return None
        if request.method not in ("GET", "HEAD"):
            return error_response(MethodNotAllowed(), state)
        if path == self._root:
            return Response(307, [("location", f"{path.rpartition('/')[2]}/"), ("cache-control", ASKED_AGAIN)])
        file = self._files.get(path)
        if file is None:
            return plain(404, "404 page not found\n")
        head = [*file.head]
        if file.etag in request.headers.get("if-none-match", ""):
            return Response(304, head)
        if accepts_gzip(request.headers.get("accept-encoding", "")):
            return Response(200, [*head, ("content-encoding", "gzip")], file.packed)
        return Response(200, head, gzip.decompress(file.packed))
