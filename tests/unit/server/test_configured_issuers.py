"""AuthenticationConfiguration: every mistake is told with its field; a file that changes takes over when it can."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from issuer_kit import URL, ForeignIssuer, ForeignKey

from oarlock.policy.authn.tokens.issued_tokens import IssuedTokens
from oarlock.server.authentication.counts import AuthenticationCounts
from oarlock.server.authentication.issuers import ServerIssuers, authentication_of
from oarlock.server.config import ServerConfig
from oarlock.server.files.credentials import BadFile
from oarlock.server.options.groups.authentication import OpenIDOptions
from oarlock.server.options.option import ConfigError
from oarlock.testing.clock import VirtualClock

pytestmark = pytest.mark.anyio

HEAD = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration"}
NAMED = {"username": {"claim": "sub", "prefix": ""}}


def issuer(url: str = URL, **fields: Any) -> dict[str, Any]:
    """One of ``jwt``, with more fields, or others."""
    about = {"url": url, "audiences": ["app"], **fields.pop("issuer", {})}
    return {"issuer": about, "claimMappings": {**NAMED, **fields.pop("claimMappings", {})}, **fields}


def problems(tree: Any) -> list[str]:
    return authentication_of(tree, ["https://kubernetes.default.svc"])[1]


def of(*listed: Any, **more: Any) -> dict[str, Any]:
    return {**HEAD, "jwt": [*listed], **more}


def test_a_file_that_says_all_there_is() -> None:
    pem = trustme.CA().cert_pem.bytes().decode()
    whole = issuer(
        issuer={
            "discoveryURL": "https://inside.example.com/discovery",
            "certificateAuthority": pem,
            "audiences": ["app", "cli"],
            "audienceMatchPolicy": "MatchAny",
        },
        claimValidationRules=[
            {"claim": "hd", "requiredValue": "example.com"},
            {"expression": "claims.exp - claims.nbf <= 86400.0", "message": "a day at most"},
        ],
        claimMappings={
            "username": {"expression": "'login:' + claims.sub"},
            "groups": {"claim": "groups", "prefix": "login:"},
            "uid": {"claim": "sub"},
            "extra": [{"key": "example.com/tenant", "valueExpression": "claims.tenant"}],
        },
        userValidationRules=[{"expression": "!user.username.startsWith('system:')", "message": "reserved"}],
    )
    for version in ("v1", "v1beta1"):
        tree = of(whole, apiVersion=f"apiserver.config.k8s.io/{version}", anonymous={"enabled": True})
        found, wrong = authentication_of(tree)
        assert wrong == []
        (rules,) = found.issuers
        assert rules.place.url == URL
        assert rules.place.discovery_url == "https://inside.example.com/discovery"
        assert rules.place.authorities == pem.encode()
        assert rules.audiences == ("app", "cli")
        claims = {"sub": "ann", "exp": 100, "nbf": 50, "hd": "example.com", "groups": ["a"], "tenant": "t"}
        ann = rules.claims.user(claims)
        assert (ann.name, ann.uid, ann.groups) == ("login:ann", "ann", ("login:a",))
        assert ann.extra == {"example.com/tenant": ("t",)}
        assert found.anonymous is not None
        assert found.anonymous.paths is None


def test_a_file_without_issuers_is_one_that_may_get_some() -> None:
    assert problems(HEAD) == []
    assert problems(of()) == []
    assert problems({**HEAD, "jwt": None}) == []


@pytest.mark.parametrize(
    ("tree", "wrong"),
    [
        (None, "is required"),
        ([], "must be an object"),
        ({**HEAD, "apiVersion": "apiserver.config.k8s.io/v2"}, "kind: write apiVersion: apiserver.config.k8s.io/v1"),
        ({**HEAD, "kind": "Configuration"}, "kind: write apiVersion"),
        ({**HEAD, "jwts": []}, "jwts: unknown field"),
        ({**HEAD, "jwt": {}}, "jwt: must be a list"),
        (of(*[issuer(f"https://{n}") for n in range(65)]), "jwt: at most 64 are allowed"),
        (of(issuer(), issuer()), f'jwt[1].issuer.url: "{URL}" is there twice'),
        (
            of(
                issuer("https://a", issuer={"discoveryURL": "https://d"}),
                issuer("https://b", issuer={"discoveryURL": "https://d"}),
            ),
            'jwt[1].issuer.discoveryURL: "https://d" is there twice',
        ),
        (of("x"), "jwt[0]: must be an object"),
        (of({}), "jwt[0].issuer: is required"),
        (of({"issuer": {}}), "jwt[0].claimMappings: is required"),
        (of(issuer("")), "jwt[0].issuer.url: is required"),
        (of(issuer("http://x")), "jwt[0].issuer.url: URL scheme must be https"),
        (of(issuer("https://")), "jwt[0].issuer.url: URL must name a host"),
        (of(issuer("https://a:b@x")), "jwt[0].issuer.url: URL must not contain a username or password"),
        (of(issuer("https://x?a")), "jwt[0].issuer.url: URL must not contain a query"),
        (of(issuer("https://x#a")), "jwt[0].issuer.url: URL must not contain a fragment"),
        (of(issuer("https://x/ y")), "jwt[0].issuer.url: URL must not contain spaces"),
        (
            of(issuer("https://x\ny")),
            'jwt[0].issuer.url: parse "https://x\\ny": net/url: invalid control character in URL',
        ),
        (of(issuer("https://x:99999")), "jwt[0].issuer.url: the port must be between 1 and 65535"),
        (of(issuer("https://kubernetes.default.svc")), "is the issuer of this server's own service account tokens"),
        (of(issuer(issuer={"url": 5})), "jwt[0].issuer.url: must be a text"),
        (of(issuer(issuer={"discoveryURL": URL + "/"})), "jwt[0].issuer.discoveryURL: discoveryURL must be different"),
        (of(issuer(issuer={"discoveryURL": "ftp://x"})), "jwt[0].issuer.discoveryURL: URL scheme must be https"),
        (of(issuer(issuer={"certificateAuthority": "x"})), "jwt[0].issuer.certificateAuthority: holds no certificate"),
        (of(issuer(issuer={"egressSelectorType": "cluster"})), "jwt[0].issuer.egressSelectorType: there are no egress"),
        (of(issuer(issuer={"audiences": []})), "jwt[0].issuer.audiences: at least one is required"),
        (of(issuer(issuer={"audiences": ["", "a"]})), "jwt[0].issuer.audiences: must be texts that aren't empty"),
        (of(issuer(issuer={"audiences": [{}]})), "jwt[0].issuer.audiences: must be texts that aren't empty"),
        (
            of(issuer(issuer={"audiences": ["a", "a"], "audienceMatchPolicy": "MatchAny"})),
            'jwt[0].issuer.audiences[1]: "a" is there twice',
        ),
        (of(issuer(issuer={"audiences": ["a", "b"]})), "audienceMatchPolicy: must be MatchAny for multiple audiences"),
        (of(issuer(issuer={"audienceMatchPolicy": "All"})), "must be empty or MatchAny for single audience"),
        (of(issuer(claimMappings={"username": {}})), "jwt[0].claimMappings.username: claim or expression is required"),
        (
            of(issuer(claimMappings={"username": {"claim": "a", "prefix": "", "expression": "claims.b"}})),
            "jwt[0].claimMappings.username: claim and expression can't both be set",
        ),
        (
            of(issuer(claimMappings={"username": {"claim": "a"}})),
            "jwt[0].claimMappings.username.prefix: is required when claim is set",
        ),
        (
            of(issuer(claimMappings={"groups": {"expression": "claims.b", "prefix": ""}})),
            "jwt[0].claimMappings.groups.prefix: may not be specified when expression is set",
        ),
        (of(issuer(claimMappings={"uid": {"claim": "a", "prefix": ""}})), "jwt[0].claimMappings.uid.prefix: unknown"),
        (
            of(issuer(claimMappings={"groups": {"expression": "claims."}})),
            "jwt[0].claimMappings.groups.expression: ERROR: <input>:1:8: Syntax error",
        ),
        (
            of(issuer(claimMappings={"username": {"expression": "claims.email"}})),
            "jwt[0].claimMappings.username.expression: uses claims.email, so it or",
        ),
        (
            of(issuer(claimMappings={"extra": [{"key": "a/b"}]})),
            "jwt[0].claimMappings.extra[0].valueExpression: is req",
        ),
        (
            of(issuer(claimMappings={"extra": [{"key": "tenant", "valueExpression": "'a'"}]})),
            'jwt[0].claimMappings.extra[0].key: "tenant" must be a domain-prefixed path (such as "acme.io/foo")',
        ),
        (of(issuer(claimMappings={"extra": [{"key": "a.com/B", "valueExpression": "'a'"}]})), "must be lowercase"),
        (of(issuer(claimMappings={"extra": [{"key": "a_b/c", "valueExpression": "'a'"}]})), "is not a lowercase RFC"),
        (
            of(issuer(claimMappings={"extra": [{"key": "x.k8s.io/c", "valueExpression": "'a'"}]})),
            "k8s.io, kubernetes.io and their subdomains are reserved",
        ),
        (
            of(issuer(claimMappings={"extra": [{"key": "a.com/b", "valueExpression": "'a'"}] * 2})),
            'jwt[0].claimMappings.extra[1].key: "a.com/b" is there twice',
        ),
        (of(issuer(claimValidationRules=[{}])), "jwt[0].claimValidationRules[0]: claim or expression is required"),
        (
            of(issuer(claimValidationRules=[{"claim": "a", "expression": "true"}])),
            "jwt[0].claimValidationRules[0]: claim and expression can't both be set",
        ),
        (
            of(issuer(claimValidationRules=[{"claim": "a", "message": "x"}])),
            "jwt[0].claimValidationRules[0].message: may not be specified when claim is set",
        ),
        (
            of(issuer(claimValidationRules=[{"expression": "true", "requiredValue": "x"}])),
            "jwt[0].claimValidationRules[0].requiredValue: may not be specified when expression is set",
        ),
        (
            of(issuer(claimValidationRules=[{"expression": "claims.a"}])),
            "jwt[0].claimValidationRules[0].expression: must evaluate to bool",
        ),
        (
            of(issuer(claimValidationRules=[{"claim": "a"}, {"claim": "a"}])),
            'jwt[0].claimValidationRules[1]: "a" is there twice',
        ),
        (of(issuer(userValidationRules=[{}])), "jwt[0].userValidationRules[0].expression: is required"),
        (
            of(issuer(userValidationRules=[{"expression": "user.nothing == ''"}])),
            "jwt[0].userValidationRules[0].expression: ERROR: <input>:1:5: undefined field 'nothing'",
        ),
        (
            of(issuer(userValidationRules=[{"expression": "claims.a == ''"}])),
            "jwt[0].userValidationRules[0].expression: ERROR: <input>:1:1: undeclared reference",
        ),
        ({**HEAD, "anonymous": []}, "anonymous: must be an object"),
        ({**HEAD, "anonymous": {"enabled": "yes"}}, "anonymous.enabled: must be true or false"),
        (
            {**HEAD, "anonymous": {"enabled": False, "conditions": [{"path": "/livez"}]}},
            "anonymous.conditions: enabled should be set to true when conditions are defined",
        ),
        (
            {**HEAD, "anonymous": {"enabled": True, "conditions": [{"path": "livez"}]}},
            'anonymous.conditions[0].path: "livez" isn\'t an exact path, such as /livez',
        ),
    ],
)
def test_a_mistake_is_told_with_its_field(tree: Any, wrong: str) -> None:
    assert any(wrong in one for one in problems(tree)), problems(tree)


def test_all_mistakes_are_told_at_once() -> None:
    assert len(problems(of(issuer("http://x?a", issuer={"audiences": []}), issuer("", surprise=1)))) == 5


@pytest.mark.parametrize("place", ["username", "extra", "claimValidationRules"])
def test_an_email_is_used_with_its_verification(place: str) -> None:
    uses = "claims.?email_verified.orValue(true)"
    tree = issuer(claimMappings={"username": {"expression": "claims.email"}})
    if place == "username":
        tree["claimMappings"]["username"]["expression"] = f"{uses} ? claims.email : ''"
    elif place == "extra":
        tree["claimMappings"]["extra"] = [{"key": "a.com/v", "valueExpression": f"string({uses})"}]
    else:
        tree["claimValidationRules"] = [{"expression": f"{uses} == true"}]
    assert problems(of(tree)) == []


# Options ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"oidc_issuer_url": URL}, "give both"),
        ({"oidc_client_id": "app"}, "give both"),
        ({"oidc_groups_claim": "groups"}, "give `oidc_issuer_url` and `oidc_client_id` too"),
        ({"oidc_issuer_url": "http://x", "oidc_client_id": "app"}, "must be an https URL"),
        ({"authentication_config": Path("x"), "oidc_client_id": "app"}, "set one of them"),
        ({"oidc_signing_algs": ("HS256",)}, "is not one of RS256"),
        ({"oidc_signing_algs": ("none",)}, "is not one of RS256"),
        ({"oidc_required_claim": ("hd",)}, "write hd=example.com"),
        ({"oidc_username_claim": ""}, "users would have no name"),
        ({"oidc_signing_algs": ()}, "no token could be accepted"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong.replace("(", "[(]")):
        ServerConfig(**options)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, f"{URL}#ann"),
        ({"oidc_username_prefix": "-"}, "ann"),
        ({"oidc_username_prefix": "login:"}, "login:ann"),
        ({"oidc_username_claim": "email"}, "ann@example.com"),
        ({"oidc_username_claim": "email", "oidc_username_prefix": "x:"}, "x:ann@example.com"),
    ],
)
def test_flags_say_what_a_user_is_called(options: dict[str, Any], name: str) -> None:
    config = OpenIDOptions(
        oidc_issuer_url=URL,
        oidc_client_id="app",
        oidc_groups_claim="groups",
        oidc_groups_prefix="g:",
        oidc_required_claim=("hd=a=b",),
        **options,
    )
    ((rules, _),) = ServerIssuers(
        config, (), VirtualClock(), lambda pem: ForeignIssuer(), AuthenticationCounts()
    ).accepted
    claims = {"sub": "ann", "email": "ann@example.com", "groups": "devs", "hd": "a=b"}
    user = rules.claims.user(claims)
    assert (user.name, user.groups) == (name, ("g:devs",))
    assert (rules.audiences, rules.algorithms) == (("app",), ("RS256",))


def test_flags_that_name_what_can_not_be_an_issuer(tmp_path: Path) -> None:
    def make(url: str, **options: Any) -> None:
        chosen = OpenIDOptions(oidc_issuer_url=url, oidc_client_id="app", **options)
        ServerIssuers(chosen, ["https://own"], VirtualClock(), lambda pem: ForeignIssuer(), AuthenticationCounts())

    for url, wrong in (
        ("https://own", "this server's own"),
        ("https://x?y", "--oidc-issuer-url=https://x[?]y: URL must"),
    ):
        with pytest.raises(ConfigError, match=wrong):
            make(url)
    with pytest.raises(BadFile, match=r"none\.pem: No such file"):
        make(URL, oidc_ca_file=tmp_path / "none.pem")


# A file that changes ------------------------------------------------------------------------------


class Configured:
    """Issuers of a file, each with its documents; `tokens` identifies as the server does now."""

    def __init__(self, file: Path, *issuers: ForeignIssuer) -> None:
        self.file = file
        self.clock = VirtualClock()
        self.by_authority = {one.url: one for one in issuers}
        self.counts = AuthenticationCounts()
        self.issuers = ServerIssuers(
            OpenIDOptions(authentication_config=file), (), self.clock, lambda pem: self, self.counts
        )
        self.tokens: IssuedTokens = self.issuers.tokens(())

    async def read(self, url: str) -> Any:
        return await next(one for name, one in self.by_authority.items() if url.startswith(name)).read(url)

    def write(self, *listed: Any, **more: Any) -> None:
        self.file.write_text(json.dumps(of(*listed, **more)))

    def change(self, *listed: Any, **more: Any) -> None:
        self.write(*listed, **more)
        self.issuers.read_again(self._changed)

    def _changed(self) -> None:
        self.tokens = self.issuers.tokens(())

    async def name(self, token: str) -> str:
        answer = await self.tokens.identify(token, ())
        return "nobody" if answer is None else answer.identity.user.name

    def token(self, key: ForeignKey, url: str) -> str:
        return key.signed({"iss": url, "sub": "ann", "aud": "app", "exp": self.clock.now() + 9999})


@asynccontextmanager
async def following(configured: Configured) -> AsyncIterator[None]:
    task = asyncio.ensure_future(configured.issuers.follow())
    await configured.clock.run(1)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        await configured.clock.run(0)


A, B = "https://a.example.com", "https://b.example.com"


@pytest.fixture(scope="module")
def key() -> ForeignKey:
    return ForeignKey()


async def test_a_change_takes_over_when_new_issuers_have_answered(
    tmp_path: Path, key: ForeignKey, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    a, b = ForeignIssuer(key, url=A), ForeignIssuer(key, url=B)
    file = tmp_path / "authn.yaml"
    file.write_text(json.dumps(of(issuer(A))))
    server = Configured(file, a, b)
    async with following(server):
        of_a, of_b = server.token(key, A), server.token(key, B)
        assert (await server.name(of_a), await server.name(of_b)) == ("ann", "nobody")
        b.may_answer.clear()
        server.change(issuer(B))
        await server.clock.run(1)
        assert (await server.name(of_a), await server.name(of_b)) == ("ann", "nobody")
        assert f"stays in force until the keys of {B} are available" in caplog.text
        b.may_answer.set()
        await server.clock.run(1)
        assert (await server.name(of_a), await server.name(of_b)) == ("nobody", "ann")
        reads = len(a.reads)
        await server.clock.run(20_000)
        assert len(a.reads) == reads  # nobody asks it any more


async def test_what_needs_no_new_keys_is_in_force_at_once(tmp_path: Path, key: ForeignKey) -> None:
    file = tmp_path / "authn.yaml"
    file.write_text(json.dumps(of(issuer(A))))
    server = Configured(file, ForeignIssuer(key, url=A))
    async with following(server):
        server.change(issuer(A, claimMappings={"username": {"claim": "sub", "prefix": "x:"}}))
        assert await server.name(server.token(key, A)) == "x:ann"
        assert len(server.by_authority[A].reads) == 2
        server.change()
        assert await server.name(server.token(key, A)) == "nobody"


async def test_a_later_change_wins(tmp_path: Path, key: ForeignKey) -> None:
    a, b = ForeignIssuer(key, url=A), ForeignIssuer(key, url=B)
    b.may_answer.clear()
    file = tmp_path / "authn.yaml"
    file.write_text(json.dumps(of(issuer(A))))
    server = Configured(file, a, b)
    async with following(server):
        server.change(issuer(B))
        await server.clock.run(1)
        server.change(issuer(A, claimMappings={"username": {"claim": "sub", "prefix": "x:"}}))
        b.may_answer.set()
        await server.clock.run(10)
        assert await server.name(server.token(key, A)) == "x:ann"
        assert await server.name(server.token(key, B)) == "nobody"
        assert set(server.issuers._following) == {server.issuers.accepted[0][1].place}


async def test_a_mistake_changes_nothing(tmp_path: Path, key: ForeignKey) -> None:
    file = tmp_path / "authn.yaml"
    file.write_text(json.dumps(of(issuer(A))))
    server = Configured(file, ForeignIssuer(key, url=A))
    async with following(server):
        for text in ("{", "[]", json.dumps(of({})), "a: 1\na: 2", "x" * 2_000_000):
            file.write_text(text)
            with pytest.raises(ConfigError, match=r"--authentication-config=.*authn\.yaml: "):
                server.issuers.read_again(server._changed)
        file.unlink()
        with pytest.raises(ConfigError, match="No such file"):
            server.issuers.read_again(server._changed)
        assert await server.name(server.token(key, A)) == "ann"


async def test_who_needs_no_credentials_changes_with_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "authn.yaml"
    file.write_text(json.dumps({**HEAD, "anonymous": {"enabled": False}}))
    server = Configured(file)
    async with following(server):
        server.change(anonymous={"enabled": True})
        assert "the field anonymous has changed: restart the server" in caplog.text
