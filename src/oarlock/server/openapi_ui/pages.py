"""`OpenAPIPages`: Swagger UI for the server's OpenAPI v3 documents, at ``/openapi/ui/``.

Nothing is loaded from anywhere else, and the page may ask this server only. See also: ``tools/swagger_ui.py``, which
puts the files of Swagger UI into the package.
"""

from __future__ import annotations

from oarlock.server.pages.static_files import (
    ASKED_AGAIN,
    SECURITY,
    StaticFile,
    StaticFiles,
    assets_of,
    packed_file,
    static_file,
)

ROOT = "/openapi/ui"

_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)


class OpenAPIPages(StaticFiles):
    """Answers ``/openapi/ui`` and what is below it."""

    def __init__(self) -> None:
        policy = (("content-security-policy", _POLICY), *SECURITY)
        files: dict[str, StaticFile] = {}
        for name, body in assets_of("oarlock.server.openapi_ui").items():
            plain = name.removesuffix(".gz")
            kind = plain.rpartition(".")[2]
            if name.endswith(".gz"):
                files[f"{ROOT}/{plain}"] = packed_file(kind, body, policy, ASKED_AGAIN)
            elif kind in ("css", "html", "js"):
                place = "" if name == "index.html" else name
                files[f"{ROOT}/{place}"] = static_file(kind, body, policy, ASKED_AGAIN)
        super().__init__(ROOT, files)
