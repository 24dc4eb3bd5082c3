"""`ConsolePages`: the files of the console below ``/console``, for browsers.

They hold nothing of the server's data, so they need no credentials: the page asks the API for everything, with those
of the person who looks at it. Files of one build are below the build's name, and never change; only the page that names
the build is asked for again. Paths in them are relative, so that they work behind any prefix.
Must not know: what is served. See also: ``console/`` in the repository, their sources, and its ``build.mjs``.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from importlib import resources

from oarlock.endpoints.errors import error_response
from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.respond import accepts_gzip
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import MethodNotAllowed
from oarlock.net.url import parse_url
from oarlock.server.config import ServerConfig
from oarlock.server.filters.filter import plain

__all__ = ["ConsolePages"]

ROOT = "/console"
BUILD_NAME = b"BUILD"
"""What stands in the page for the name of the build."""

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


@dataclass(frozen=True, slots=True)
class _File:
    """A file as it is sent: `head` is the same for all who ask, `packed` is it in gzip."""

    head: tuple[tuple[str, str], ...]
    etag: str
    body: bytes
    packed: bytes


class ConsolePages:
    """Answers ``/console`` and what is below it. `name` is the server's, as the page shows it."""

    def __init__(self, name: str, config: ServerConfig) -> None:
        issuer, client = config.oidc_issuer_url, config.oidc_client_id
        policy = (("content-security-policy", _policy(issuer)), *SECURITY)
        assets = {
            entry.name: entry.read_bytes()
            for entry in resources.files("oarlock.server.console").joinpath("assets").iterdir()
            if entry.name.rpartition(".")[2] in MEDIA_TYPES
        }
        build = hashlib.sha256(b"".join(assets[name] for name in sorted(assets))).hexdigest()[:16]
        page = assets.pop("index.html").replace(BUILD_NAME, build.encode())
        login = {"issuer": issuer, "clientID": client, "scopes": list(config.console_scopes)} if issuer else None
        settings = json.dumps({"name": name, "oidc": login}).encode()
        asked_again = "no-cache"
        self._files = {
            f"{ROOT}/": _file("html", page, policy, asked_again),
            f"{ROOT}/settings.json": _file("json", settings, policy, asked_again),
        }
        for file, body in assets.items():
            kept = "public, max-age=31536000, immutable"
            self._files[f"{ROOT}/{build}/{file}"] = _file(file.rpartition(".")[2], body, policy, kept)

    def respond(self, state: RequestState) -> Response | None:
        """The answer; None for a path that isn't the console's."""
        request = state.request
        path = request.path
        if path != ROOT and not path.startswith(f"{ROOT}/"):
            return None
        if request.method not in ("GET", "HEAD"):
            return error_response(MethodNotAllowed(), state)
        if path == ROOT:
            return Response(307, [("location", "console/"), ("cache-control", "no-cache")])
        file = self._files.get(path)
        if file is None:
            return plain(404, "404 page not found\n")
        head = [*file.head]
        if file.etag in request.headers.get("if-none-match", ""):
            return Response(304, head)
        if accepts_gzip(request.headers.get("accept-encoding", "")):
            return Response(200, [*head, ("content-encoding", "gzip")], file.packed)
        return Response(200, head, file.body)


def _file(kind: str, body: bytes, policy: tuple[tuple[str, str], ...], caching: str) -> _File:
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    head = (
        ("content-type", MEDIA_TYPES[kind]),
        ("cache-control", caching),
        ("etag", etag),
        ("vary", "Accept-Encoding"),
        *policy,
    )
    return _File(head, etag, body, gzip.compress(body, 6, mtime=0))


def _policy(issuer: str) -> str:
    """The content security policy: this origin only, no inline script or style; an issuer may be asked for tokens."""
    asked = "'self'"
    if issuer:
        parts = parse_url(issuer)
        asked += f" {parts.scheme}://{parts.host}"
    return "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self' data:",
            "font-src 'self'",
            f"connect-src {asked}",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
        )
    )
