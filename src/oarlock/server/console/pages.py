"""`ConsolePages`: the files of the console below ``/console``, for browsers.

They hold nothing of the server's data, so they need no credentials: the page asks the API for everything, with those
of the person who looks at it. Files of one build are below the build's name, and never change; only the page that names
the build is asked for again. Paths in them are relative, so that they work behind any prefix.
Must not know: what is served. See also: ``console/`` in the repository, their sources, and its ``build.mjs``.
"""

from __future__ import annotations

import hashlib
import json

from oarlock.net.url import parse_url
from oarlock.server.config import ServerConfig
from oarlock.server.pages.static_files import (
    ASKED_AGAIN,
    KEPT,
    MEDIA_TYPES,
    SECURITY,
    StaticFiles,
    assets_of,
    static_file,
)

ROOT = "/console"
BUILD_NAME = b"BUILD"
"""What stands in the page for the name of the build."""


class ConsolePages(StaticFiles):
    """Answers ``/console`` and what is below it. `name` is the server's, as the page shows it."""

    def __init__(self, name: str, config: ServerConfig) -> None:
        issuer, client = config.oidc_issuer_url, config.oidc_client_id
        policy = (("content-security-policy", _policy(issuer)), *SECURITY)
        every = assets_of("oarlock.server.console")
        assets = {file: body for file, body in every.items() if file.rpartition(".")[2] in MEDIA_TYPES}
        build = hashlib.sha256(b"".join(assets[name] for name in sorted(assets))).hexdigest()[:16]
        page = assets.pop("index.html").replace(BUILD_NAME, build.encode())
        login = {"issuer": issuer, "clientID": client, "scopes": list(config.console_scopes)} if issuer else None
        settings = json.dumps({"name": name, "oidc": login}).encode()
        files = {
            f"{ROOT}/": static_file("html", page, policy, ASKED_AGAIN),
            f"{ROOT}/settings.json": static_file("json", settings, policy, ASKED_AGAIN),
        }
        for file, body in assets.items():
            files[f"{ROOT}/{build}/{file}"] = static_file(file.rpartition(".")[2], body, policy, KEPT)
        super().__init__(ROOT, files)


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
