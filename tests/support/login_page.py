"""An OpenID Connect issuer over TLS, whose only user always agrees: authorization code with PKCE.

It refuses what an issuer has to refuse: a code that it didn't give, a verifier that doesn't fit the challenge.
See also: `issuer_kit`, for the keys.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import trustme
from issuer_kit import ForeignKey, encoded

__all__ = ["CLIENT", "LoginPage", "login_page"]

CLIENT = "oarlock-console"


class LoginPage:
    """`url` is the issuer; `codes` are what it gave and nobody has used, each with what was asked."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.key = ForeignKey()
        self.codes: dict[str, dict[str, str]] = {}
        self.refused: list[str] = []

    def documents(self, path: str) -> Any:
        about = {"issuer": self.url, "jwks_uri": f"{self.url}/keys", "token_endpoint": f"{self.url}/token"}
        if path == "/.well-known/openid-configuration":
            return {**about, "authorization_endpoint": f"{self.url}/authorize"}
        return {"keys": [self.key.jwk]} if path == "/keys" else None

    def agree(self, asked: dict[str, str]) -> str:
        """Where the browser is sent back to."""
        assert asked["response_type"] == "code"
        assert asked["client_id"] == CLIENT
        assert asked["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"

    def token(self, given: dict[str, str]) -> tuple[int, dict[str, str]]:
        """The answer to a code: an ID token, once."""
        asked = self.codes.pop(given.get("code", ""), None)
        challenge = encoded(hashlib.sha256(given.get("code_verifier", "").encode()).digest())
        if asked is None or challenge != asked["code_challenge"] or given["redirect_uri"] != asked["redirect_uri"]:
            self.refused.append(given.get("code", ""))
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT, "sub": "ida", "nonce": asked["nonce"], "iat": now, "exp": now + 3600}
        return 200, {"id_token": self.key.signed(claims), "token_type": "Bearer"}


@contextmanager
def login_page(folder: Path) -> Iterator[tuple[LoginPage, Path]]:
    """The issuer while it runs, and the certificate of whom to trust."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    ca = folder / "issuer-ca.crt"
    authority.cert_pem.write_to_path(ca)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    page = LoginPage(f"https://127.0.0.1:{server.server_address[1]}")
    _Handler.page = page
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield page, ca
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    page: LoginPage

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(url.query).items()}
        if url.path == "/authorize":
            self.send_response(302)
            self.send_header("Location", self.page.agree(asked))
            self.end_headers()
            return
        document = self.page.documents(url.path)
        self._answer(404 if document is None else 200, document)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self._answer(*self.page.token({name: values[0] for name, values in parse_qs(body).items()}))

    def _answer(self, status: int, document: Any) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Access-Control-Allow-Origin", "*")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""
