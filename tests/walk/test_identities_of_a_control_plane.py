"""Tokens of service accounts, reviews of tokens and of oneself, as clients of a control plane meet them."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from walk_kit import walk

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.apps.controlplane.options import for_control_plane
from oarlock.meta.context import User
from oarlock.server.assembly.identities import Identities
from oarlock.server.config import ServerConfig
from oarlock.testing import InMemory

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
TOKEN = f"{ACCOUNTS}/robot/token"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
ISSUER = "https://kubernetes.default.svc"


@dataclass
class Plane:
    """A control plane in memory. Requests are those of an administrator; with `token`, of whose it is."""

    api: InMemory
    identities: Identities

    async def ask(self, method: str, path: str, body: Any = None, *, token: str = "") -> Any:
        """The answer's status and object."""
        headers = {"authorization": f"Bearer {token}"} if token else {}
        before = self.api._handle
        if token:
            self.api._handle = self.api.parts.handler(self.identities.authenticator)
        try:
            answer = await self.api.request(method, path, body, headers)
        finally:
            self.api._handle = before
        return answer.status, json.loads(answer.body) if answer.body[:1] == b"{" else answer.body.decode()

    async def token(self, spec: Any = None) -> str:
        status, tree = await self.ask("POST", TOKEN, {"spec": spec or {}})
        assert status == 201, tree
        token: str = tree["status"]["token"]
        return token


@asynccontextmanager
async def plane(folder: Path, **options: Any) -> AsyncIterator[Plane]:
    """A control plane with the service account ``robot``."""
    config = for_control_plane(ServerConfig(storage="memory://", data_dir=folder, **options))
    server = ControlPlane()
    api = InMemory(server, config=config, user=User("admin", "1", ("system:masters",)))
    identities = server.identities = Identities(config, api.clock)
    api.parts.let_in(identities)
    async with api:
        assert (await api.post(ACCOUNTS, {"metadata": {"name": "robot"}})).status == 201
        yield Plane(api, identities)


@walk
async def test_a_token_is_asked_for_used_and_reviewed(tmp_path: Path):
    async with plane(tmp_path) as control:
        status, tree = await control.ask("POST", TOKEN, {"spec": {}})
        assert status == 201
        assert tree["metadata"]["name"] == "robot"
        assert tree["spec"]["audiences"] == [ISSUER]
        assert tree["spec"]["expirationSeconds"] == 3600
        assert tree["status"]["expirationTimestamp"] == "2026-01-01T01:00:00Z"
        token = tree["status"]["token"]
        status, me = await control.ask("POST", SELF, {}, token=token)
        assert status == 201
        user = me["status"]["userInfo"]
        assert user["username"] == "system:serviceaccount:default:robot"
        assert user["groups"][:2] == ["system:serviceaccounts", "system:serviceaccounts:default"]
        assert me["metadata"].get("creationTimestamp") == "2026-01-01T00:00:00Z"
        assert "name" not in me["metadata"]
        _, review = await control.ask("POST", REVIEWS, {"spec": {"token": token}})
        assert review["status"] == {"authenticated": True, "user": user, "audiences": [ISSUER]}


@walk
async def test_a_review_says_why_a_token_is_nobodys(tmp_path: Path):
    async with plane(tmp_path) as control:
        token = await control.token({"audiences": ["vault", "consul"], "expirationSeconds": 600})
        wrong = f'token audiences ["vault" "consul"] is invalid for the target audiences ["{ISSUER}"]'
        for spec, error in (
            ({"token": "nope"}, "invalid bearer token"),
            ({"token": token}, f"[invalid bearer token, {wrong}]"),
        ):
            _, review = await control.ask("POST", REVIEWS, {"spec": spec})
            assert review["status"] == {"user": {}, "error": error}
        _, review = await control.ask("POST", REVIEWS, {"spec": {"token": token, "audiences": ["vault", "nomad"]}})
        assert review["status"]["audiences"] == ["vault"]
        assert (await control.ask("GET", ACCOUNTS, token=token))[0] == 401
        for body in ({}, {"spec": {"token": ""}}):
            status, refusal = await control.ask("POST", REVIEWS, body)
            assert (status, refusal["message"]) == (400, "token is required for TokenReview in authentication")


@walk
async def test_tokens_die_with_their_account_and_secret(tmp_path: Path):
    async with plane(tmp_path) as control:
        secrets = "/api/v1/namespaces/default/secrets"
        assert (await control.ask("POST", secrets, {"metadata": {"name": "anchor"}}))[0] == 201
        reference = {"kind": "Secret", "apiVersion": "v1", "name": "anchor"}
        bound, free = await control.token({"boundObjectRef": reference}), await control.token()
        for token in (bound, free):
            assert (await control.ask("POST", SELF, {}, token=token))[0] == 201
        await control.ask("DELETE", f"{secrets}/anchor")
        assert (await control.ask("POST", SELF, {}, token=bound))[0] == 401
        assert (await control.ask("POST", SELF, {}, token=free))[0] == 201
        await control.ask("DELETE", f"{ACCOUNTS}/robot")
        assert (await control.ask("POST", SELF, {}, token=free))[0] == 401
        _, review = await control.ask("POST", REVIEWS, {"spec": {"token": free}})
        assert review["status"]["error"] == '[invalid bearer token, serviceaccounts "robot" not found]'
        await control.ask("POST", ACCOUNTS, {"metadata": {"name": "robot"}})
        assert (await control.ask("POST", SELF, {}, token=free))[0] == 401


@pytest.mark.parametrize(
    ("body", "code", "says"),
    [
        ({"spec": {"expirationSeconds": 599}}, 422, "may not specify a duration less than 10 minutes"),
        ({"spec": {"expirationSeconds": 0}}, 422, "may not specify a duration less than 10 minutes"),
        ({"spec": {"expirationSeconds": 4294967297}}, 422, "may not specify a duration larger than 2^32 seconds"),
        ({"spec": {}, "metadata": {"name": "other"}}, 422, "must match the service account name if specified"),
        ({"spec": {}, "metadata": {"namespace": "other"}}, 400, "does not match the namespace sent"),
        ({"spec": {"boundObjectRef": {"kind": "Secret", "name": "ghost"}}}, 404, 'secrets "ghost" not found'),
        (
            {"spec": {"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "a"}}},
            400,
            "cannot bind token to object of type /v1, Kind=ConfigMap",
        ),
    ],
)
@walk
async def test_what_cannot_be_asked_for(tmp_path: Path, body: Any, code: int, says: str):
    async with plane(tmp_path) as control:
        status, tree = await control.ask("POST", TOKEN, body)
        assert (status, says in tree["message"]) == (code, True), tree


@walk
async def test_others_can_verify_tokens_themselves(tmp_path: Path):
    async with plane(tmp_path) as control:
        token = await control.token()
        status, found = await control.ask("GET", "/.well-known/openid-configuration")
        assert status == 200
        assert (found["issuer"], found["id_token_signing_alg_values_supported"]) == (ISSUER, ["RS256"])
        assert found["jwks_uri"].endswith("/openid/v1/jwks")
        _, keys = await control.ask("GET", "/openid/v1/jwks")
        header = json.loads(base64.urlsafe_b64decode(token.split(".")[0] + "=="))
        assert [key["kid"] for key in keys["keys"]] == [header["kid"]]
        answer = await control.api.get("/openid/v1/jwks", accept="application/json")
        assert answer.status == 406
        assert answer.json["message"] == "406: Not Acceptable\n\nAvailable representations: application/jwk-set+json"


@walk
async def test_a_restarted_server_knows_its_tokens_and_a_shorter_limit_is_told(tmp_path: Path):
    async with plane(tmp_path) as control:
        key = control.identities.issuer.published_keys()  # type: ignore[union-attr]
    async with plane(tmp_path, service_account_max_token_expiration_s=3600.0) as control:
        assert control.identities.issuer.published_keys() == key  # type: ignore[union-attr]
        answer = await control.api.post(TOKEN, {"spec": {"expirationSeconds": 7200}})
        assert answer.json["spec"]["expirationSeconds"] == 3600
        assert answer.warnings == ["requested expiration of 7200 seconds shortened to 3600 seconds"]
    assert (tmp_path / "oarlock.service-accounts.key").stat().st_mode & 0o077 == 0


def test_a_control_plane_lets_authorization_decide_on_anonymous_requests():
    assert for_control_plane(ServerConfig(authorization_mode=("AlwaysAllow",))).anonymous_auth is None
    assert for_control_plane(ServerConfig()).anonymous_auth is True
    assert for_control_plane(ServerConfig(authorization_mode=("RBAC",), anonymous_auth=False)).anonymous_auth is False
    assert for_control_plane(ServerConfig(service_account_issuer=("https://a",))).service_account_issuer == (
        "https://a",
    )
