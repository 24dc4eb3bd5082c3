"""`APIServer(authenticators=[…])`: who a request is from, as code of one's own says; what fails lets nobody in."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from oarlock import Authenticator, BadCredentials, Credentials, Identity, User
from oarlock.apps.api_server import APIServer
from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.policy.authn.authenticator import Union
from oarlock.schema.types.declaring import KeywordError
from oarlock.server.assembly.identities import Identities
from oarlock.server.config import ServerConfig
from oarlock.testing import InMemory

pytestmark = pytest.mark.anyio

SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


class Keys(Authenticator):
    """API keys in a header, and tokens; waits for `answers`."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers = asyncio.Event()
        self.answers.set()

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        key = credentials.headers.get("x-api-key") or credentials.headers.get("authorization", "").removeprefix(
            "Bearer "
        )
        self.asked.append(key)
        await self.answers.wait()
        if key.startswith("wrong"):
            raise BadCredentials("this key was revoked")
        if key.startswith("crash"):
            raise RuntimeError("the directory has no table of users")
        if key.startswith("lie"):
            return "root"  # type: ignore[return-value]  # what a user may get wrong
        if key.startswith("empty"):
            return Identity(User(""))
        if key == "key-old":
            return Identity(User("old"), warnings=("take a new key",), annotations=(("example.com/key", "old"),))
        for_vault = ("vault",) if key == "key-for-vault" else None
        return Identity(User("ann", groups=("devs",)), for_vault, ("x-api-key",)) if key.startswith("key") else None


class Server:
    """A control plane that asks `keys` too; requests have the headers that are given, and nothing else."""

    def __init__(self, api: InMemory, identities: Identities, keys: Keys) -> None:
        self.api = api
        self.keys = keys
        self._own = api._handle
        self._asking = api.parts.handler(identities.authenticator)

    async def ask(self, headers: dict[str, str], path: str = SELF, body: Any = None) -> tuple[int, Any]:
        self.api._handle = self._asking
        try:
            answer = await self.api.request("POST", path, body or {}, headers)
        finally:
            self.api._handle = self._own
        return answer.status, json.loads(answer.body)


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Server]:
    file = folder / "tokens.csv"
    file.write_text("static,bob,2\nadmin,admin,1,system:masters\n")
    config = ServerConfig(
        storage="memory://", data_dir=folder, token_auth_file=file, service_account_issuer=("https://api",)
    )
    keys = Keys()
    server = ControlPlane(authenticators=[keys])
    api = InMemory(server, config=config, user=User("admin", "1", ("system:masters",)))
    identities = server.identities = Identities(config, api.clock, server.authenticators)
    api.parts.let_in(identities)
    async with api:
        yield Server(api, identities, keys)


async def test_who_is_known_by_ones_own_code(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        status, tree = await server.ask({"x-api-key": "key-1"})
        assert (status, tree["status"]["userInfo"]) == (
            201,
            {"username": "ann", "groups": ["devs", "system:authenticated"]},
        )
        status, tree = await server.ask({"authorization": "Bearer static"})
        assert tree["status"]["userInfo"]["username"] == "bob"
        assert server.keys.asked == ["key-1"]  # those of options come first
        assert (await server.ask({}))[0] == 401


async def test_a_client_is_warned_of_what_it_is_known_by(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        for path in ("/version", "/version"):
            server.api._handle = server._asking
            answer = await server.api.get(path, x_api_key="key-old")
            server.api._handle = server._own
            assert (answer.status, answer.warnings) == (200, ["take a new key"])


@pytest.mark.parametrize(
    ("key", "logged"),
    [
        ("wrong", "this key was revoked"),
        ("crash", "no table of users"),
        ("lie", "'str' object has no attribute 'user'"),
        ("empty", "Keys named nobody"),
    ],
)
async def test_what_fails_lets_nobody_in_and_is_logged(
    tmp_path: Path, key: str, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "oarlock.authn")
    async with serving(tmp_path) as server:
        status, tree = await server.ask({"x-api-key": f"{key}-s3cret"})
        assert (status, tree["message"]) == (401, "Unauthorized")
        assert logged in caplog.text
        assert "s3cret" not in caplog.text
        status, tree = await server.ask({"x-api-key": f"{key}-s3cret", "authorization": "Bearer static"})
        assert tree["status"]["userInfo"]["username"] == "bob"  # it hides nobody who is known otherwise


async def test_one_that_hangs_has_a_deadline_and_disturbs_nobody(caplog: pytest.LogCaptureFixture) -> None:
    keys = Keys()
    keys.answers.clear()
    union = Union([keys], deadline_s=0.02)
    with pytest.raises(BadCredentials, match="Keys failed"):
        await union.authenticate(Credentials({"x-api-key": "key-1"}, ()))
    assert "Keys failed: no answer in time" in caplog.text


async def test_a_review_knows_their_tokens(tmp_path: Path) -> None:
    async def review(server: Server, token: str, *audiences: str) -> Any:
        spec = {"token": token, **({"audiences": audiences} if audiences else {})}
        status, tree = await server.ask({"authorization": "Bearer admin"}, REVIEWS, {"spec": spec})
        assert status == 201
        return tree["status"]

    async with serving(tmp_path) as server:
        assert await review(server, "key-1") == {
            "authenticated": True,
            "user": {"username": "ann", "groups": ["devs", "system:authenticated"]},
            "audiences": ["https://api"],
        }
        assert (await review(server, "key-1", "https://api", "x"))["audiences"] == ["https://api"]
        assert "for other audiences" in (await review(server, "key-1", "vault"))["error"]
        assert (await review(server, "key-for-vault", "vault"))["audiences"] == ["vault"]
        assert "for other audiences" in (await review(server, "key-for-vault"))["error"]
        assert (await review(server, "wrong-1"))["error"] == "[invalid bearer token, this key was revoked]"
        assert (await review(server, "nobody"))["error"] == "invalid bearer token"
        assert "authenticated" not in await review(server, "crash-1")


class NotOne:
    async def authenticate(self, credentials: Credentials) -> Identity | None:
        return None


class Blocking(Authenticator):
    def authenticate(self, credentials: Credentials) -> Identity | None:  # type: ignore[override]
        return None


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        (Keys(), "isn't a list"),
        ([Keys], "write Keys"),
        ([NotOne()], "write class NotOne\\(Authenticator\\)"),
        ([Blocking()], "write async def authenticate"),
    ],
)
def test_what_is_no_authenticator_is_told(given: Any, wrong: str) -> None:
    with pytest.raises(KeywordError, match=wrong):
        APIServer(serve=[], authenticators=given)
