"""A chain around a dispatch of the test's own, driven without sockets, in a clock that only moves when told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from token_users import by_token

from oarlock.endpoints.http import Handler, Request, Response
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.routing.find_route import parse_target
from oarlock.meta.context import Peer, User
from oarlock.meta.options_parse import parse_query
from oarlock.policy.authn.authenticator import Union
from oarlock.server.chain import ChainConfig, build

ADMIN = User("admin", groups=("system:masters",))
ALICE = User("alice", uid="u1", groups=("devs",))
FLUNDERS = "/apis/wardle.example.com/v1alpha1/namespaces/default/flunders"


@dataclass
class FakeClock:
    """Time that stands still unless a test moves it."""

    time: float = 1_800_000_000.0
    ticks: float = 100.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.ticks


async def ok(x: RequestState) -> Response:
    return Response(200, [("content-type", "application/json")], b"{}")


async def empty() -> bytes:
    return b""


def resolve(x: RequestState) -> None:
    """What the router's `resolve` does, for whatever group."""
    request = x.request
    x.target = parse_target(request.method, request.path, parse_query(request.query))
    x.is_long_running = x.target.verb == "watch"


@dataclass
class Chain:
    """A chain to send requests through. Change `config` or `dispatch` before the first."""

    clock: FakeClock = field(default_factory=FakeClock)
    dispatch: Callable[[RequestState], Awaitable[Response]] = ok
    config: dict[str, Any] = field(default_factory=dict)
    _handler: Handler | None = None

    def request(
        self,
        path: str = FLUNDERS,
        *,
        method: str = "GET",
        token: str | None = "admin-token",
        headers: Mapping[str, str] | None = None,
        peer: Peer | None = None,
        http2: bool = False,
    ) -> Request:
        path, _, query = path.partition("?")
        sent = dict(headers or {})
        if token is not None:
            sent["authorization"] = f"Bearer {token}"
        peer = peer or Peer("127.0.0.1", 40_000)
        return Request(method, path, query, sent, list(sent.items()), peer, empty, self.clock.ticks, http2=http2)

    async def send(self, path: str = FLUNDERS, **how: Any) -> Response:
        """The answer, which the client has read."""
        response = await self.begin(path, **how)
        response.sent(True)
        return response

    async def begin(self, path: str = FLUNDERS, **how: Any) -> Response:
        """The answer, of which nothing has been sent yet."""
        if self._handler is None:
            tokens = by_token([("admin-token", ADMIN), ("alice-token", ALICE)])
            config = {"resolve": resolve, "authenticator": Union([tokens]), **self.config}
            self._handler = build(ChainConfig(**config), self.dispatch, self.clock)  # type: ignore[arg-type]
        return await self._handler(self.request(path, **how))


@pytest.fixture
def chain() -> Chain:
    return Chain()


def header(response: Response, name: str) -> str | None:
    """The only value of a header, or None."""
    values = [value for key, value in response.headers if key == name]
    assert len(values) <= 1, f"{name} is there {len(values)} times"
    return values[0] if values else None


@pytest.fixture(name="header")
def header_fixture() -> Callable[[Response, str], str | None]:
    return header
