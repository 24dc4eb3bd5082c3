"""Tokens that somebody else is asked about: a backend that is slow, hangs, lies or breaks lets nobody in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from oarlock.meta.context import User
from oarlock.net.backoff import Backoff
from oarlock.policy.authn.authenticator import Credentials
from oarlock.policy.authn.tokens.bearer_tokens import BadToken, BearerTokens
from oarlock.policy.authn.tokens.remote_tokens import MOST_PENDING, REFUSED_BYTES, RemoteTokens
from oarlock.policy.authn.tokens.token_file import TokenFile
from oarlock.server.cluster.review_caller import ReviewCaller
from oarlock.testing.clock import VirtualClock

pytestmark = pytest.mark.anyio

ALICE = {"authenticated": True, "user": {"username": "alice", "groups": ["devs"], "extra": {"a": ["b"]}}}


class Backend:
    """Answers reviews with `status`, once `may_answer` is set; counts them."""

    def __init__(self, status: Any) -> None:
        self.status = status
        self.asked: list[Any] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def __call__(self, tree: dict[str, Any]) -> Any:
        self.asked.append(tree)
        await self.may_answer.wait()
        if isinstance(self.status, Exception):
            raise self.status
        return {**tree, "status": self.status}

    async def is_asked(self, times: int) -> None:
        """Wait until it is; then whoever asked before it has had its turns as well."""
        while len(self.asked) < times:  # noqa: ASYNC110 those who ask are given their turns
            await asyncio.sleep(0)


class Asking:
    """Bearer tokens of a file, and of a backend."""

    def __init__(self, status: Any, *, audiences: tuple[str, ...] = (), deadline_s: float = 10.0) -> None:
        self.clock = VirtualClock()
        self.backend = Backend(status)
        self.remote = RemoteTokens("the cluster", self.backend, self.clock, audiences=audiences)
        static = TokenFile([("static", User("bob"))])
        self.tokens = BearerTokens([static, self.remote], self.clock, audiences, deadline_s)

    async def user(self, token: str = "t") -> User:
        identity = await self.tokens.authenticate(Credentials({"authorization": f"Bearer {token}"}, ()))
        assert identity is not None
        return identity.user


async def test_an_answer_is_remembered_for_a_while() -> None:
    asking = Asking(ALICE)
    for _ in range(3):
        assert await asking.user() == User("alice", groups=("devs", "system:authenticated"), extra={"a": ("b",)})
    assert [one["spec"] for one in asking.backend.asked] == [{"token": "t"}]
    asking.clock.advance(11)
    asking.backend.status = {"authenticated": False, "error": "revoked"}
    for _ in range(3):
        with pytest.raises(BadToken) as caught:
            await asking.user()
        assert caught.value.reasons == ("revoked",)
    assert len(asking.backend.asked) == 2
    asking.clock.advance(11)
    asking.backend.status = ALICE
    await asking.user()


async def test_many_who_ask_at_once_are_one_question() -> None:
    asking = Asking(ALICE)
    asking.backend.may_answer.clear()
    tasks = [asyncio.ensure_future(asking.user()) for _ in range(50)]
    await asking.backend.is_asked(1)
    tasks[0].cancel()  # one who leaves doesn't take the answer from the others
    await asyncio.sleep(0)
    asking.backend.may_answer.set()
    users = await asyncio.gather(*tasks, return_exceptions=True)
    assert [one.name for one in users if isinstance(one, User)] == ["alice"] * 49
    assert len(asking.backend.asked) == 1
    assert asking.remote._pending == {}


async def test_a_backend_that_hangs_disturbs_nobody_else(caplog: pytest.LogCaptureFixture) -> None:
    asking = Asking(ALICE, deadline_s=0.05)
    asking.backend.may_answer.clear()
    hanging = asyncio.ensure_future(asking.user())
    await asyncio.sleep(0)
    assert (await asking.user("static")).name == "bob"
    with pytest.raises(BadToken, match="RemoteTokens failed"):
        await hanging
    assert "RemoteTokens failed" in caplog.text
    asking.backend.may_answer.set()
    while asking.remote._pending:  # noqa: ASYNC110 it is given its turns
        await asyncio.sleep(0)
    assert (await asking.user()).name == "alice"  # nothing is remembered of the failure


async def test_no_more_is_asked_than_there_is_room_for() -> None:
    asking = Asking(ALICE)
    asking.backend.may_answer.clear()
    tasks = [asyncio.ensure_future(asking.user(f"t{n}")) for n in range(MOST_PENDING)]
    await asking.backend.is_asked(MOST_PENDING)
    with pytest.raises(BadToken, match="asked about 1000 tokens already"):
        await asking.user("one more")
    asking.backend.may_answer.set()
    await asyncio.gather(*tasks)


@pytest.mark.parametrize(
    "status",
    [
        None,
        [],
        {},
        {"authenticated": "true", "user": {"username": "admin"}},
        {"authenticated": 1, "user": {"username": "admin"}},
        {"authenticated": True},
        {"authenticated": True, "user": {}},
        {"authenticated": True, "user": {"username": ""}},
        {"authenticated": True, "user": {"username": 7}},
        {"authenticated": True, "user": {"username": "a", "groups": "system:masters"}},
        {"authenticated": True, "user": {"username": "a", "groups": [7]}},
        {"authenticated": True, "user": {"username": "a", "extra": {"a": "b"}}},
        ConnectionError("no route to host"),
    ],
)
async def test_an_answer_that_makes_no_sense_lets_nobody_in(status: Any) -> None:
    asking = Asking(status)
    with pytest.raises(BadToken):
        await asking.user()
    assert len(asking.tokens.remembered) == 0


@pytest.mark.parametrize(
    ("answered", "fits"), [(["vault"], False), (["here", "vault"], True), ([], True), (None, True)]
)
async def test_it_must_be_for_this_server(answered: Any, fits: bool) -> None:
    asking = Asking({**ALICE, "audiences": answered}, audiences=("here", "there"))
    if fits:
        assert (await asking.user()).name == "alice"
    else:
        with pytest.raises(BadToken, match="other audiences"):
            await asking.user()
    assert asking.backend.asked[0]["spec"]["audiences"] == ["here", "there"]


async def test_refusals_and_tokens_take_a_bounded_place_and_no_token_is_told() -> None:
    asking = Asking({"authenticated": False, "error": "no such token: secret" + "x" * 2000})
    with pytest.raises(BadToken) as caught:
        await asking.user("secret")
    assert "secret" not in str(caught.value)
    for n in range(3000):
        asking.remote.refused.put(n.to_bytes(32, "big"), ("x" * 500, 0.0), 500)
    assert asking.remote.refused.held_bytes <= REFUSED_BYTES
    with pytest.raises(BadToken):
        await asking.user("x" * 100_000)
    assert len(asking.backend.asked) == 1


@asynccontextmanager
async def service(answer: Any, tmp_path: Any) -> AsyncIterator[Any]:
    """A kubeconfig of an HTTP server whose answers to posts `answer` makes."""
    app = web.Application()
    app.router.add_post("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
    file = tmp_path / "kubeconfig"
    file.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        f"clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{port}/review'}}}}]\n"
        "users: [{name: u, user: {token: mine}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"
    )
    try:
        yield file
    finally:
        await runner.cleanup()


async def test_a_webhook_is_asked_again_when_it_is_busy(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oarlock.server.cluster.review_caller.AGAIN", Backoff(0.001))
    seen: list[Any] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((request.path, request.headers["authorization"], await request.json()))
        if len(seen) < 3:
            return web.Response(status=(429, 503)[len(seen) - 1])
        return web.json_response({**seen[-1][2], "status": ALICE})

    async with service(answer, tmp_path) as file:
        caller = ReviewCaller(file, "", 5.0)
        remote = RemoteTokens("webhook", caller, VirtualClock(), version="v1beta1")
        found = await remote.identify("t", ())
        await caller.close()
        assert found is not None
        assert found.identity.user.name == "alice"
        assert len(seen) == 3
        assert seen[0][:2] == ("/review", "Bearer mine")
        assert seen[0][2]["apiVersion"] == "authentication.k8s.io/v1beta1"


async def test_a_webhook_that_refuses_is_not_asked_again(tmp_path: Any) -> None:
    seen: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.path)
        return web.Response(status=403, text="no")

    async with service(answer, tmp_path) as file:
        caller = ReviewCaller(file, "/apis/x", 5.0)
        remote = RemoteTokens("webhook", caller, VirtualClock())
        with pytest.raises(ConnectionError, match="answered with 403"):
            await remote.identify("t", ())
        await caller.close()
        assert len(seen) == 1
