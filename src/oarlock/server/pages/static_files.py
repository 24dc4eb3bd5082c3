"""The pages for browsers: the console below ``/console``, Swagger UI below ``/openapi/ui``.

Their files hold none of the server's data and need no credentials: the page requests everything from the API, with the
credentials of its user. Paths in it are relative, so that they work behind any prefix.
See also: ``console/`` in the repository and its ``build.mjs``; ``tools/swagger_ui.py``, which fetches Swagger UI.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from oarlock.endpoints.errors import error_response
from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.respond import accepts_gzip
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import MethodNotAllowed
from oarlock.net.url import parse_url
from oarlock.server.config import ServerConfig
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

REVALIDATED = "no-cache"
IMMUTABLE = "public, max-age=31536000, immutable"
CONSOLE_ROOT = "/console"
CONSOLE_POLICY = ("font-src 'self'", "require-trusted-types-for 'script'")
PAGE = "index.html"
BUILD_NAME = b"BUILD"
"""What stands in the console's page for the name of the build."""
CHARSET = '<meta charset="utf-8">'


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file as it is sent: `head` is the same in every answer, `packed` is its content in gzip."""

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
            return Response(307, [("location", f"{path.rpartition('/')[2]}/"), ("cache-control", REVALIDATED)])
        file = self._files.get(path)
        if file is None:
            return plain(404, "404 page not found\n")
        head = [*file.head]
        if file.etag in request.headers.get("if-none-match", ""):
            return Response(304, head)
        if accepts_gzip(request.headers.get("accept-encoding", "")):
            return Response(200, [*head, ("content-encoding", "gzip")], file.packed)
        return Response(200, head, gzip.decompress(file.packed))


class ConsolePages(StaticFiles):
    """Answers ``/console`` and what is below it. `name` is the server's, as the page shows it.

    Files of one build are below the build's name and never change; clients revalidate only the page that names it.
    """

    def __init__(self, name: str, config: ServerConfig) -> None:
        issuer, client = config.oidc_issuer_url, config.oidc_client_id
        policy = _security(_origin(issuer), *CONSOLE_POLICY)
        login = {"issuer": issuer, "clientID": client, "scopes": list(config.console_scopes)} if issuer else None
        files = {
            f"{CONSOLE_ROOT}/{'' if file == PAGE else file}": static_file(
                file.rpartition(".")[2], body, policy, IMMUTABLE if "/" in file else REVALIDATED
            )
            for file, body in _console_files(name, login).items()
        }
        super().__init__(CONSOLE_ROOT, files)


def write_console(folder: Path, name: str) -> None:
    """Write the console as files, for a proxy that serves them beside the API of another server.

    Such a proxy sends no security policy, so the page itself has one.
    """
    policy = "; ".join((*_policy(), *CONSOLE_POLICY))
    head = f'{CHARSET}\n    <meta http-equiv="Content-Security-Policy" content="{policy}">'
    for file, body in _console_files(name, None).items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body.replace(CHARSET.encode(), head.encode(), 1) if file == PAGE else body)


def _console_files(name: str, login: Mapping[str, object] | None) -> dict[str, bytes]:
    """The console's files by their paths; those of the build are in a folder of its name."""
    every = assets_of("oarlock.server.console")
    assets = {file: body for file, body in every.items() if file.rpartition(".")[2] in MEDIA_TYPES}
    build = hashlib.sha256(b"".join(assets[name] for name in sorted(assets))).hexdigest()[:16]
    page = assets.pop(PAGE).replace(BUILD_NAME, build.encode())
    settings = json.dumps({"name": name, "oidc": login}).encode()
    return {PAGE: page, "settings.json": settings, **{f"{build}/{file}": body for file, body in assets.items()}}


class OpenAPIPages(StaticFiles):
    """Answers ``/openapi/ui`` and what is below it."""

    def __init__(self) -> None:
        root, policy = "/openapi/ui", _security()
        files: dict[str, StaticFile] = {}
        for name, body in assets_of("oarlock.server.openapi_ui").items():
            file = name.removesuffix(".gz")
            kind = file.rpartition(".")[2]
            if name.endswith(".gz"):
                files[f"{root}/{file}"] = packed_file(kind, body, policy, REVALIDATED)
            elif kind in ("css", "html", "js"):
                place = "" if name == "index.html" else name
                files[f"{root}/{place}"] = static_file(kind, body, policy, REVALIDATED)
        super().__init__(root, files)


def _origin(issuer: str) -> str:
    """The origin of an issuer's URL, which the page may request tokens from; empty without one."""
    if not issuer:
        return ""
    parts = parse_url(issuer)
    return f"{parts.scheme}://{parts.host}"


def _security(origin: str = "", *more: str) -> tuple[tuple[str, str], ...]:
    """The headers with the content security policy, whose `more` are further directives."""
    policy = (*_policy(origin), "frame-ancestors 'none'", *more)
    return (("content-security-policy", "; ".join(policy)), *SECURITY)


def _policy(origin: str = "") -> tuple[str, ...]:
    """The content security policy: this origin and `origin` only, no inline script or style."""
    return (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        f"connect-src 'self' {origin}".rstrip(),
        "base-uri 'none'",
        "form-action 'none'",
    )
