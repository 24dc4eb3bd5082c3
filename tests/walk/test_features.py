"""What a server does when it is asked for: headers for browsers, GOAWAY, pages for those who look into it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from walk_kit import BOATS, everything, walk

from oarlock.endpoints.http import Request, Response
from oarlock.endpoints.request_state import RequestState
from oarlock.meta.context import Peer, Target, User
from oarlock.policy.authz.authorizer import Authorizer, Decision
from oarlock.server.config import ServerConfig
from oarlock.server.filters.answer_headers import go_away
from oarlock.server.options.option import ConfigError
from oarlock.testing.clock import VirtualClock
from oarlock.testing.server import InMemory

ORIGIN = "https://app.example.com"


def server(**options: Any) -> InMemory:
    return InMemory(everything(), config=ServerConfig(storage="memory://", **options))


@walk
async def test_pages_of_named_origins_may_read_answers():
    async with server(cors_allowed_origins=("^https://app[.]example[.]com$", "localhost")) as api:
        for path in (BOATS, f"{BOATS}/none"):
            answer = await api.get(path, origin=ORIGIN)
            assert answer.headers["access-control-allow-origin"] == ORIGIN
            assert answer.headers["access-control-allow-credentials"] == "true"
            assert answer.headers["access-control-expose-headers"] == "Date"
        asked = await api.request("OPTIONS", BOATS, None, {"origin": "http://localhost:3000"})
        assert (asked.status, asked.body) == (204, b"")
        assert asked.headers["access-control-allow-methods"] == "POST, GET, OPTIONS, PUT, DELETE, PATCH"
        assert "Authorization" in asked.headers["access-control-allow-headers"]
        assert asked.headers["audit-id"]
        for origin in (f"{ORIGIN}.evil.example", "https://app-example.com", "null"):
            assert "access-control-allow-origin" not in (await api.get(BOATS, origin=origin)).headers
    async with server() as api:
        assert "access-control-allow-origin" not in (await api.get(BOATS, origin=ORIGIN)).headers


@walk
async def test_browsers_are_told_to_use_tls():
    async with server(strict_transport_security_directives=("max-age=31536000", "includeSubDomains")) as api:
        for path in (BOATS, "/nowhere"):
            header = (await api.get(path)).headers["strict-transport-security"]
            assert header == "max-age=31536000; includeSubDomains"
    async with server() as api:
        assert "strict-transport-security" not in (await api.get(BOATS)).headers


@walk
async def test_connections_of_http2_end_now_and_then():
    async def nothing() -> bytes:
        return b""

    rolled = iter([0.0005, 0.5, 0.0009])
    filter = go_away(0.001, lambda: next(rolled))

    def headers(http2: bool) -> list[tuple[str, str]]:
        request = Request("GET", "/", "", {}, (), Peer("127.0.0.1", 1), nothing, 0.0, http2)
        response = Response(200, [])
        filter(RequestState(request, VirtualClock()), response)
        return response.headers

    assert [headers(http2=True) for _ in range(3)] == [[("connection", "close")], [], [("connection", "close")]]
    assert headers(http2=False) == []


PAGES = ("/configz", "/flagz", "/statusz", "/debug/pprof/", "/debug/pprof/goroutine", "/debug/pprof/profile?seconds=1")


@walk
async def test_debug_pages_are_off_unless_asked_for():
    async with server() as api:
        for page in PAGES:
            assert (await api.get(page)).status == 404, page
        assert not set(PAGES) & set((await api.get("/")).json["paths"])


@walk
async def test_debug_pages_show_options_and_no_secret():
    config = {"storage": "memory://", "debug_pages": True, "request_timeout_s": 90.0}
    clock = VirtualClock()
    async with InMemory(everything(name="shop"), config=ServerConfig(**config), clock=clock) as api:  # type: ignore[arg-type]
        api.parts.pages.debug._config = replace(  # type: ignore[union-attr]
            api.parts.config, storage="postgresql://me:hidden@db.example.com/x"
        )
        shown = (await api.get("/configz")).json["shop"]
        assert shown["requestTimeout"] == "1m30s"
        flags = (await api.get("/flagz")).body.decode()
        assert flags.startswith("shop flagz\nWarning: ")
        assert "\nrequest-timeout=1m30s\n" in flags
        assert "hidden" not in flags + json.dumps(shown)
        clock.advance(3661)
        status = (await api.get("/statusz")).body.decode()
        assert "Up: 1 hr 01 min 01 sec" in status
        assert "/readyz" in status
        wanted = "application/json;as=Statusz;v=v1beta1;g=config.k8s.io,text/plain"
        tree = (await api.get("/statusz", accept=wanted)).json
        assert (tree["kind"], tree["apiVersion"]) == ("Statusz", "config.k8s.io/v1beta1")
        assert (tree["uptimeSeconds"], tree["startTime"]) == (3661, "2026-01-01T00:00:00Z")
        assert "/statusz" in tree["paths"]
        wanted = "application/json;as=Flagz;v=v1alpha1;g=config.k8s.io"
        assert (await api.get("/flagz", accept=wanted)).json["flags"]["request-timeout"] == "1m30s"
        unknown = await api.get("/statusz", accept="application/json;as=Statusz;v=v9;g=config.k8s.io,*/*")
        assert unknown.body.startswith(b"shop statusz"), "a version that isn't known is answered as text"
        assert (await api.get("/debug/pprof/")).status == 404
        assert {"/configz", "/flagz", "/statusz"} <= set((await api.get("/")).json["paths"])


@walk
async def test_stacks_and_profiles_can_be_looked_at():
    async with server(profiling=True) as api:
        stacks = (await api.get("/debug/pprof/goroutine")).body.decode()
        assert "thread MainThread" in stacks
        assert "<Task" in stacks
        first = asyncio.ensure_future(api.get("/debug/pprof/profile?seconds=1"))
        await asyncio.sleep(0)
        assert (await api.get("/debug/pprof/profile?seconds=1")).status == 429
        assert "function calls" in (await first).body.decode()
        for wrong in ("0", "x", "9999", "-1"):
            assert (await api.get(f"/debug/pprof/profile?seconds={wrong}")).status == 400
        assert (await api.get("/configz")).status == 404


@walk
async def test_debug_pages_are_behind_authorization():
    class Closed(Authorizer):
        waits = False

        async def decide(self, user: User, target: Target) -> Decision:
            return Decision.deny()

    config = ServerConfig(storage="memory://", debug_pages=True, profiling=True)
    async with InMemory(everything(authorizer=Closed()), config=config) as api:
        for page in PAGES:
            assert (await api.get(page)).status == 403


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"cors_allowed_origins": ("(",)}, "( isn't a regular expression"),
        ({"strict_transport_security_directives": ("maxage=1",)}, "maxage=1 isn't a directive"),
        ({"strict_transport_security_directives": ("preload",)}, "needs max-age=SECONDS"),
        ({"goaway_chance": 0.5}, "must be between 0 and 0.02"),
        ({"audit_log_path": None, "audit_policy_file": __file__}, "must be a Path"),
    ],
)
def test_what_cannot_be_meant_is_told(options: dict[str, Any], says: str):
    with pytest.raises(ConfigError) as told:
        ServerConfig(storage="memory://", **options)
    assert says in str(told.value)
