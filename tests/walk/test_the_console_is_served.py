"""The console's files are there for those who want it: without credentials, with headers that keep others out."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from walk_kit import BOATS, everything, walk

from oarlock.server.config import ServerConfig
from oarlock.server.options.option import ConfigError
from oarlock.testing.server import InMemory


def server(**options: Any) -> InMemory:
    return InMemory(everything(), config=ServerConfig(storage="memory://", **options))


@walk
async def test_there_is_no_console_unless_it_is_wanted():
    async with server() as api:
        assert (await api.get("/console")).status == 404
        assert (await api.get("/console/")).status == 404


@walk
async def test_the_page_is_an_answer_as_others_are():
    async with server(console=True) as api:
        answer = await api.get("/console/")
        assert answer.status == 200
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert answer.headers["audit-id"]


@walk
async def test_paths_are_relative_so_that_a_prefix_may_stand_before_them():
    async with server(console=True) as api:
        moved = await api.get("/console")
        assert (moved.status, moved.headers["location"]) == (307, "console/")
        page = (await api.get("/console/")).body.decode()
        linked = re.findall(r'(?:src|href)="([^"]+)"', page)
        assert linked
        assert [path for path in linked if path.startswith("/") or ":" in path] == []
        for path in linked:
            assert (await api.get(f"/console/{path}")).status == 200


@walk
async def test_the_page_may_run_only_what_is_of_this_server():
    async with server(console=True) as api:
        answer = await api.get("/console/")
        policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        page = answer.body.decode()
        assert "<style" not in page
        assert re.findall(r"<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=", page) == []
    login = {"oidc_issuer_url": "https://issuer.example.com/realm", "oidc_client_id": "console"}
    async with server(console=True, **login) as api:
        answer = await api.get("/console/settings.json")
        assert "connect-src 'self' https://issuer.example.com;" in answer.headers["content-security-policy"]
        assert answer.json["oidc"] == {
            "issuer": "https://issuer.example.com/realm",
            "clientID": "console",
            "scopes": ["openid", "profile", "email"],
        }


@walk
async def test_files_of_a_build_are_kept_for_ever_and_the_page_is_asked_for_again():
    async with server(console=True) as api:
        page = await api.get("/console/")
        assert page.headers["cache-control"] == "no-cache"
        again = await api.request("GET", "/console/", None, {"if-none-match": page.headers["etag"]})
        assert (again.status, again.body) == (304, b"")
        [script] = re.findall(r'<script[^>]+src="([^"]+)"', page.body.decode())
        plain = await api.get(f"/console/{script}")
        assert plain.headers["cache-control"] == "public, max-age=31536000, immutable"
        packed = await api.request("GET", f"/console/{script}", None, {"accept-encoding": "gzip"})
        assert packed.headers["content-encoding"] == "gzip"
        assert (await api.get("/console/0123456789abcdef/main.js")).status == 404


@walk
async def test_only_reading_is_answered_and_nothing_outside_of_the_files():
    async with server(console=True) as api:
        assert (await api.request("POST", "/console/", {})).status == 405
        for path in ("/console/../main.py", "/console/%2e%2e/pages.py", "/console/pages.py", "/console//"):
            assert (await api.get(path)).status == 404
        assert (await api.get("/consoles")).status == 404
        assert (await api.get(BOATS)).status == 200


def test_scopes_of_a_login_are_checked():
    for scopes in (("email",), ("openid", "a b")):
        with pytest.raises(ConfigError):
            replace(ServerConfig(), console_scopes=scopes)
