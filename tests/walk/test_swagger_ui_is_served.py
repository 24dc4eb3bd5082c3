"""Swagger UI at ``/openapi/ui/`` for those who want it: from the package, with headers that let nothing else in."""

from __future__ import annotations

import gzip
import re
from typing import Any

from walk_kit import everything, walk

from oarlock.server.config import ServerConfig
from oarlock.testing.server import InMemory

PAGE = "/openapi/ui/"


def server(**options: Any) -> InMemory:
    return InMemory(everything(), config=ServerConfig(storage="memory://", **options))


@walk
async def test_there_is_no_swagger_ui_unless_it_is_wanted():
    async with server() as api:
        assert (await api.get(PAGE)).status == 404


@walk
async def test_its_files_are_of_this_server_and_need_no_credentials():
    async with server(openapi_ui=True) as api:
        moved = await api.get("/openapi/ui")
        assert (moved.status, moved.headers["location"]) == (307, "ui/")
        page = await api.get(PAGE)
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        linked = re.findall(r'(?:src|href)="([^"]+)"', page.body.decode())
        assert len(linked) == 4
        for path in linked:
            assert re.fullmatch(r"[\w.-]+", path)
            assert (await api.get(f"{PAGE}{path}")).status == 200


@walk
async def test_the_page_may_ask_and_run_nothing_else():
    async with server(openapi_ui=True) as api:
        answer = await api.get(PAGE)
        policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert b"<script>" not in answer.body


@walk
async def test_files_are_sent_as_they_are_packed_and_not_twice():
    async with server(openapi_ui=True) as api:
        path = f"{PAGE}swagger-ui-bundle.js"
        packed = await api.get(path, **{"accept-encoding": "gzip"})
        plain = await api.get(path)
        assert packed.headers["content-encoding"] == "gzip"
        assert gzip.decompress(packed.body) == plain.body
        assert len(packed.body) < 600_000
        again = await api.get(path, **{"if-none-match": packed.headers["etag"]})
        assert (again.status, again.body) == (304, b"")


@walk
async def test_other_paths_below_it_are_not_found_and_other_methods_refused():
    async with server(openapi_ui=True) as api:
        assert (await api.get(f"{PAGE}LICENSE")).status == 404
        assert (await api.get(f"{PAGE}../v3")).status == 404
        assert (await api.post(PAGE, {})).status == 405
        assert (await api.get("/openapi/v3")).status == 200
