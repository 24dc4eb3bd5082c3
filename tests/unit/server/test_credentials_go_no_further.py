"""What carries a credential, or claims to be a front proxy's word, is seen by authentication and nobody behind it."""

from __future__ import annotations

import base64
import logging
from typing import Any

import pytest
from token_users import by_token

from oarlock.endpoints.http import Request, Response
from oarlock.meta.context import Peer, User
from oarlock.policy.authn.authenticator import Anonymous, Authenticator, BadCredentials, Credentials, Identity, Union
from oarlock.server.serving.http1.input import queued_request
from oarlock.server.serving.http2.heads import MalformedRequest, request_head

pytestmark = pytest.mark.anyio

TOKEN = "base64url.bearer.authorization.k8s.io." + base64.urlsafe_b64encode(b"alice-token").decode().rstrip("=")


@pytest.fixture
def behind(chain: Any) -> list[Request]:
    """The requests as they arrive behind the filters."""
    requests: list[Request] = []

    async def remember(state: Any) -> Response:
        requests.append(state.request)
        return Response(200, [])

    chain.dispatch = remember
    return requests


def names(request: Request) -> set[str]:
    seen = {name for name, _ in request.all_headers}
    assert seen == set(request.headers)
    return seen


async def send(chain: Any, lines: list[tuple[str, str]], **how: Any) -> Response:
    """Send these header lines, through the handler that `chain` has built."""
    await chain.send(token=None)
    request: Request = chain.request(token=None, **how)
    raw = Request("GET", request.path, "", dict(reversed(lines)), lines, request.peer, request.read, request.received)
    answer: Response = await chain._handler(raw)
    return answer


async def test_a_token_is_not_seen_behind_authentication(chain: Any, behind: list[Request]) -> None:
    bearer = ("authorization", "Bearer alice-token")
    answer = await send(chain, [("accept", "a"), bearer, ("accept", "b"), ("authorization", "Bearer admin-token")])
    assert answer.status == 200
    assert behind[-1].all_headers == [("accept", "a"), ("accept", "b")]
    assert behind[-1].headers == {"accept": "a"}


async def test_nobody_but_a_front_proxy_says_who_the_user_is(chain: Any, behind: list[Request]) -> None:
    claims = ["x-remote-user", "x-remote-group", "x-remote-group", "x-remote-uid", "x-remote-extra-a%2fb", "x-remote-"]
    bearer = ("authorization", "Bearer alice-token")
    lines = [*((name, "system:masters") for name in claims), bearer, ("x-remotely", "kept"), ("ax-remote-user", "kept")]
    assert (await send(chain, lines)).status == 200
    assert names(behind[-1]) == {"x-remotely", "ax-remote-user"}
    assert (await send(chain, lines[:4])).status == 401


async def test_an_anonymous_request_brings_no_claims_either(chain: Any, behind: list[Request]) -> None:
    chain.config["anonymous"] = Anonymous(frozenset({chain.request().path}))
    assert (await send(chain, [("x-remote-user", "admin"), ("authorization", "Basic YTpi")])).status == 200
    assert names(behind[-1]) == set()


async def test_a_token_among_subprotocols_is_not_seen_or_echoed(chain: Any, behind: list[Request]) -> None:
    upgrade = [("upgrade", "websocket"), ("connection", "upgrade")]
    for offered, left in (
        ([f"{TOKEN}, v5.channel.k8s.io"], ["v5.channel.k8s.io"]),
        (["v5.channel.k8s.io", TOKEN, "v4.channel.k8s.io"], ["v5.channel.k8s.io", "v4.channel.k8s.io"]),
    ):
        lines = [*upgrade, *(("sec-websocket-protocol", value) for value in offered)]
        assert (await send(chain, lines)).status == 200
        assert [value for name, value in behind[-1].all_headers if name == "sec-websocket-protocol"] == left
        assert behind[-1].headers["sec-websocket-protocol"] == left[0]
    only_token = [("authorization", "Bearer alice-token"), ("sec-websocket-protocol", TOKEN)]
    assert (await send(chain, only_token)).status == 200
    assert names(behind[-1]) == set()


class ByKey(Authenticator):
    """Reads a header of its own, once for each line."""

    waits = False

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        keys = credentials.values("x-key")
        if len(keys) > 1:
            raise BadCredentials(f"{len(keys)} keys")
        peer = credentials.peer
        if not keys or not peer.tls or peer.address == "203.0.113.1":
            return None
        return Identity(User(keys[0]), audiences=("here",), strip=("x-key", "x-secret"))


async def test_an_authenticator_sees_every_line_and_the_peer_and_says_what_to_strip(
    chain: Any, behind: list[Request], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "oarlock.authn")
    chain.config["authenticator"] = Union([by_token([]), ByKey()])
    peer = Peer("192.0.2.1", 1, tls=True)
    assert (await send(chain, [("x-key", "k"), ("x-secret", "s"), ("accept", "a")], peer=peer)).status == 200
    assert names(behind[-1]) == {"accept"}
    assert (await send(chain, [("x-key", "k"), ("x-key", "k")], peer=peer)).status == 401
    assert "2 keys" in caplog.text
    assert (await send(chain, [("x-key", "k")])).status == 401
    assert (await send(chain, [("x-key", "k")], peer=Peer("203.0.113.1", 1, tls=True))).status == 401


@pytest.mark.parametrize(("audiences", "status"), [((), 200), (("here", "there"), 200), (("there",), 401)])
async def test_a_credential_for_other_audiences_is_refused(
    chain: Any, audiences: tuple[str, ...], status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "oarlock.authn")
    chain.config |= {"authenticator": ByKey(), "audiences": frozenset(audiences)}
    answer = await send(chain, [("x-key", "k")], peer=Peer("192.0.2.1", 1, tls=True))
    assert answer.status == status
    assert ("the credential is for ('here',), not for ['there']" in caplog.text) is (status == 401)


class Parser:
    """What is asked of an HTTP/1.1 parser besides the headers."""

    def get_http_version(self) -> str:
        return "1.1"

    def should_keep_alive(self) -> bool:
        return True

    def should_upgrade(self) -> bool:
        return False


@pytest.mark.parametrize(
    "spelled", [b"X-Remote-User", b"x-ReMoTe-UsEr", b"X-REMOTE-USER", b"AUTHORIZATION", b"aUTHORIZATION"]
)
async def test_no_spelling_of_a_name_escapes(chain: Any, behind: list[Request], spelled: bytes) -> None:
    raw = [(b"Host", b"a"), (b"Authorization", b"Bearer alice-token"), (spelled, b"Bearer admin-token")]
    parser: Any = Parser()
    queued = queued_request(parser, b"GET", b"/apis", raw, Peer("192.0.2.1", 1), 0.0)
    assert not isinstance(queued, tuple)
    assert queued.request is not None
    assert (await send(chain, list(queued.request.all_headers))).status == 200
    assert names(behind[-1]) == {"host"}


async def test_http2_has_one_spelling(chain: Any, behind: list[Request]) -> None:
    pseudo = [(b":method", b"GET"), (b":path", b"/apis"), (b":scheme", b"https"), (b":authority", b"a")]
    lines = [(b"authorization", b"Bearer alice-token"), (b"x-remote-extra-\xe9".lower(), b"x")]
    with pytest.raises(MalformedRequest, match="header name"):
        request_head([(*line, False) for line in [*pseudo, *lines]])
    with pytest.raises(MalformedRequest, match="header name"):
        request_head([(*line, False) for line in [*pseudo, (b"X-Remote-User", b"x")]])
    *_, received = request_head([(*line, False) for line in [*pseudo, lines[0], (b"x-remote-user", b"x")]])
    assert (await send(chain, received)).status == 200
    assert names(behind[-1]) == {"host"}
