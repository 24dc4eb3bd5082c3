"""Tokens that issuers elsewhere have signed: who they are, and what nobody can make of them."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from issuer_kit import URL, Believed, ForeignIssuer, ForeignKey, encoded

from oarlock.meta.context import User
from oarlock.policy.authn.authenticator import Credentials
from oarlock.policy.authn.tokens.bearer_tokens import BadToken
from oarlock.policy.authn.tokens.issued_tokens import IssuedTokens
from oarlock.policy.authn.tokens.issuer_keys import LONGEST_S, MOST_KEYS, MOST_WAITING, RETRY_S, SHORTEST_S, keys_in_set

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def key() -> ForeignKey:
    return ForeignKey()


@pytest.fixture(scope="module")
def other() -> ForeignKey:
    return ForeignKey("k2")


async def user_of(server: Believed, token: str) -> User:
    identity = await server.bearer.authenticate(Credentials({"authorization": f"Bearer {token}"}, ()))
    assert identity is not None
    return identity.user


async def refused(server: Believed, token: str) -> str:
    with pytest.raises(BadToken) as caught:
        await user_of(server, token)
    assert token not in str(caught.value)
    return "; ".join(caught.value.reasons)


async def test_a_token_makes_a_user_and_is_remembered_until_it_expires(key: ForeignKey) -> None:
    server = Believed(ForeignIssuer(key))
    token = key.signed(server.claims(jti="t-1"))
    user = User(
        "ann", groups=("system:authenticated",), extra={"authentication.kubernetes.io/credential-id": ("JTI=t-1",)}
    )
    assert await user_of(server, token) == user
    assert await user_of(server, token) == user
    assert len(server.issuer.reads) == 2
    server.clock.advance(3601)
    assert await refused(server, token) == "the token has expired"


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"exp": 1}, "the token has expired"),
        ({"exp": None}, "no claim exp"),
        ({"exp": "tomorrow"}, "claim exp is no time"),
        ({"exp": True}, "claim exp is no time"),
        ({"nbf": 2_000_000_000}, "not valid yet"),
        ({"aud": "elsewhere"}, "other audiences"),
        ({"aud": ["a", "b"]}, "other audiences"),
        ({"aud": None}, "other audiences"),
        ({"aud": {"app": 1}}, "other audiences"),
        ({"sub": None}, "claim sub of the token is missing"),
        ({"sub": ["ann"]}, "claim sub of the token is no text"),
        ({"sub": ""}, "names no user"),
    ],
)
async def test_what_a_token_must_say(key: ForeignKey, changed: dict[str, Any], why: str) -> None:
    server = Believed(ForeignIssuer(key))
    assert why in await refused(server, key.signed(server.claims(**changed)))


async def test_a_clock_that_is_a_little_behind_is_forgiven(key: ForeignKey) -> None:
    server = Believed(ForeignIssuer(key))
    assert (await user_of(server, key.signed(server.claims(nbf=server.clock.now() + 30)))).name == "ann"


@pytest.mark.parametrize("issuer", ["https://evil.example.com", URL + "/", "", None, 7])
async def test_a_token_of_another_issuer_is_none_of_ours(key: ForeignKey, issuer: Any) -> None:
    server = Believed(ForeignIssuer(key))
    assert await refused(server, key.signed(server.claims(iss=issuer))) == ""
    assert server.issuer.reads == []


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()])
async def test_keys_on_curves(curve: ec.EllipticCurve) -> None:
    key = ForeignKey(curve=curve)
    server = Believed(ForeignIssuer(key))
    assert (await user_of(server, key.signed(server.claims()))).name == "ann"


async def test_an_algorithm_that_is_not_among_those_accepted(key: ForeignKey) -> None:
    server = Believed(ForeignIssuer(key), algorithms=["RS256"])
    assert "algorithm that isn't accepted" in await refused(server, key.signed(server.claims(), algorithm="RS512"))
    assert "algorithm that isn't accepted" in await refused(server, key.signed(server.claims(), algorithm="PS256"))
    assert (await user_of(server, key.signed(server.claims()))).name == "ann"


async def test_a_key_that_is_for_one_algorithm_verifies_no_other(key: ForeignKey) -> None:
    issuer = ForeignIssuer(key)
    issuer.documents[f"{URL}/keys"] = {"keys": [{**key.jwk, "alg": "RS256"}]}
    server = Believed(issuer)
    assert "no key" in await refused(server, key.signed(server.claims(), algorithm="RS384"))
    assert (await user_of(server, key.signed(server.claims()))).name == "ann"


async def test_no_signature_and_signatures_with_a_public_key_as_secret(key: ForeignKey) -> None:
    server = Believed(ForeignIssuer(key))
    claims = encoded(json.dumps(server.claims()).encode())
    for algorithm in ("none", "None", "NONE", ""):
        head = encoded(json.dumps({"alg": algorithm, "kid": key.key_id}).encode())
        assert "algorithm" in await refused(server, f"{head}.{claims}.")
    public = key.private.public_key()
    secrets = [
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        json.dumps(key.jwk).encode(),
    ]
    head = encoded(json.dumps({"alg": "HS256", "kid": key.key_id}).encode())
    for secret in secrets:
        mac = encoded(hmac.digest(secret, f"{head}.{claims}".encode(), hashlib.sha256))
        assert "algorithm" in await refused(server, f"{head}.{claims}.{mac}")


async def test_a_key_that_the_token_brings_itself_is_not_used(key: ForeignKey, other: ForeignKey) -> None:
    server = Believed(ForeignIssuer(key))
    brought = {"jwk": other.jwk, "jku": "https://evil.example.com/keys", "x5u": "https://evil.example.com/crt"}
    token = other.signed(server.claims(), kid=key.key_id, **brought)
    assert "no key of the issuer" in await refused(server, token)
    assert not any("evil" in url for url in server.issuer.reads)


async def test_a_token_that_was_changed(key: ForeignKey) -> None:
    server = Believed(ForeignIssuer(key))
    head, _, signature = key.signed(server.claims()).split(".")
    claims = encoded(json.dumps(server.claims(sub="root")).encode())
    assert "no key" in await refused(server, f"{head}.{claims}.{signature}")
    assert "no key" in await refused(server, f"{head}.{claims}.{signature[:-4]}AAAA")
    assert "no key" in await refused(server, f"{head}.{claims}.")


@pytest.mark.parametrize(
    "token", ["a", "a.b", "a.b.c", "..", "a.b.c.d.e", "{}", "\x00.\x00.\x00", "A" * 40_000 + ".b.c"]
)
async def test_what_is_no_token_is_left_to_others(key: ForeignKey, token: str) -> None:
    server = Believed(ForeignIssuer(key))
    assert await server.tokens.identify(token, ()) is None


async def test_a_token_that_is_too_large(key: ForeignKey) -> None:
    server = Believed(ForeignIssuer(key))
    assert await refused(server, key.signed(server.claims(filler="x" * 40_000))) == ""


async def test_what_a_header_marks_as_critical_is_refused(key: ForeignKey) -> None:
    server = Believed(ForeignIssuer(key))
    assert await refused(server, key.signed(server.claims(), crit=["exp"])) == ""


async def test_google_may_leave_out_the_scheme(key: ForeignKey) -> None:
    server = Believed(ForeignIssuer(key, url="https://accounts.google.com"))
    assert (await user_of(server, key.signed(server.claims(iss="accounts.google.com")))).name == "ann"


async def test_audiences_of_a_review_are_those_of_the_server(key: ForeignKey) -> None:
    server = Believed(ForeignIssuer(key), own=("https://api",))
    token = key.signed(server.claims())
    answer = await server.tokens.identify(token, ["https://api", "vault"])
    assert answer is not None
    assert answer.identity.audiences == ("https://api",)
    with pytest.raises(BadToken, match="not for the audiences"):
        await server.bearer.identify(token, ["vault"])


# Keys ---------------------------------------------------------------------------------------------


async def test_a_new_key_is_fetched_when_a_token_names_it(key: ForeignKey, other: ForeignKey) -> None:
    server = Believed(ForeignIssuer(key))
    following = asyncio.ensure_future(server.keys.follow())
    await server.clock.run(60)
    server.issuer.publish(key, other)
    reads = len(server.issuer.reads)
    assert (await user_of(server, other.signed(server.claims()))).name == "ann"
    assert len(server.issuer.reads) == reads + 2
    following.cancel()


async def test_guessed_keys_do_not_make_the_server_ask_all_the_time(key: ForeignKey, other: ForeignKey) -> None:
    server = Believed(ForeignIssuer(key))
    for n in range(50):
        assert "no key" in await refused(server, other.signed(server.claims(), kid=f"guess-{n}"))
    assert len(server.issuer.reads) == 2
    server.clock.advance(RETRY_S)
    assert "no key" in await refused(server, other.signed(server.claims()))
    assert len(server.issuer.reads) == 4


async def test_a_key_that_is_withdrawn_ends_its_tokens(key: ForeignKey, other: ForeignKey) -> None:
    server = Believed(ForeignIssuer(key, other))
    following = asyncio.ensure_future(server.keys.follow())
    await server.clock.run(1)
    token, kept = key.signed(server.claims()), other.signed(server.claims())
    assert (await user_of(server, token)).name == "ann"
    server.issuer.publish(other)
    await server.clock.run(LONGEST_S)
    kept, token = other.signed(server.claims()), key.signed(server.claims())
    assert (await user_of(server, kept)).name == "ann"
    assert "no key" in await refused(server, token)
    following.cancel()


async def test_a_remembered_token_is_verified_again_when_a_key_has_gone(key: ForeignKey, other: ForeignKey) -> None:
    server = Believed(ForeignIssuer(key))
    token = key.signed(server.claims(exp=server.clock.now() + 1e6))
    assert (await user_of(server, token)).name == "ann"
    server.issuer.publish(other)
    server.clock.advance(RETRY_S)
    await server.keys.changed()
    assert "no key" in await refused(server, token)


@pytest.mark.parametrize(("says", "after"), [(None, LONGEST_S), (0.0, SHORTEST_S), (300.0, 300.0), (1e9, LONGEST_S)])
async def test_keys_are_fetched_again_when_the_issuer_says(key: ForeignKey, says: float | None, after: float) -> None:
    server = Believed(ForeignIssuer(key))
    server.issuer.fresh_s = says
    following = asyncio.ensure_future(server.keys.follow())
    await server.clock.run(after - 1)
    assert len(server.issuer.reads) == 2
    await server.clock.run(1)
    assert len(server.issuer.reads) == 4
    following.cancel()


async def test_an_issuer_that_is_away_keeps_its_keys(key: ForeignKey, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    server = Believed(ForeignIssuer(key))
    following = asyncio.ensure_future(server.keys.follow())
    await server.clock.run(1)
    documents, server.issuer.documents = server.issuer.documents, {}
    await server.clock.run(LONGEST_S + 100)
    assert (await user_of(server, key.signed(server.claims()))).name == "ann"
    assert caplog.text.count("can't be fetched") == 1
    server.issuer.documents = documents
    await server.clock.run(RETRY_S)
    assert "can be fetched again" in caplog.text
    following.cancel()


async def test_an_issuer_that_never_answered_lets_nobody_in(key: ForeignKey) -> None:
    server = Believed(ForeignIssuer(key))
    server.issuer.documents.clear()
    assert "answered with 404" in await refused(server, key.signed(server.claims()))


async def test_those_who_wait_for_keys_share_one_fetch(key: ForeignKey) -> None:
    server = Believed(ForeignIssuer(key))
    server.issuer.may_answer.clear()
    token = key.signed(server.claims())
    waiting = [asyncio.ensure_future(user_of(server, token)) for _ in range(MOST_WAITING)]
    await server.clock.run(0)
    assert server.keys._waiting == MOST_WAITING
    assert "can't be had" in await refused(server, token)  # one more than there is room for
    waiting[0].cancel()
    await asyncio.sleep(0)
    server.issuer.may_answer.set()
    users = await asyncio.gather(*waiting, return_exceptions=True)
    assert [one.name for one in users if isinstance(one, User)] == ["ann"] * (MOST_WAITING - 1)
    assert len(server.issuer.reads) == 2


async def test_what_old_rules_say_of_a_token_is_not_remembered_with_new_ones(key: ForeignKey) -> None:
    server = Believed(ForeignIssuer(key))
    server.issuer.may_answer.clear()
    token = key.signed(server.claims())
    asking = asyncio.ensure_future(user_of(server, token))
    await server.clock.run(0)
    server.bearer.exchange(0, IssuedTokens([], (), server.clock))
    server.issuer.may_answer.set()
    assert (await asking).name == "ann"
    assert await refused(server, token) == ""


async def test_an_issuer_that_hangs_keeps_nobody_for_ever(
    key: ForeignKey, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("oarlock.policy.authn.tokens.issued_tokens.DEADLINE_S", 0.02)
    server = Believed(ForeignIssuer(key))
    server.issuer.may_answer.clear()
    assert await refused(server, key.signed(server.claims())) == "IssuedTokens failed"
    assert "no answer in time" in caplog.text
    server.issuer.may_answer.set()


async def test_who_waits_when_an_issuer_is_dropped_is_refused(key: ForeignKey) -> None:
    server = Believed(ForeignIssuer(key))
    server.issuer.may_answer.clear()
    following = asyncio.ensure_future(server.keys.follow())
    await asyncio.sleep(0)
    asking = asyncio.ensure_future(refused(server, key.signed(server.claims())))
    for _ in range(5):
        await asyncio.sleep(0)
    following.cancel()
    assert "isn't asked any more" in await asking


@pytest.mark.parametrize(
    ("where", "document", "why"),
    [
        ("/.well-known/openid-configuration", b"<html>", "is no object in JSON"),
        ("/.well-known/openid-configuration", [], "is no object in JSON"),
        ("/.well-known/openid-configuration", {"issuer": "https://evil"}, "is of the issuer 'https://evil'"),
        ("/.well-known/openid-configuration", {"issuer": URL}, "jwks_uri is no https URL"),
        ("/.well-known/openid-configuration", {"issuer": URL, "jwks_uri": "http://x/"}, "jwks_uri is no https URL"),
        ("/.well-known/openid-configuration", {"issuer": URL, "jwks_uri": "file:///x"}, "jwks_uri is no https URL"),
        ("/keys", b"[" * 100_000, "is no object in JSON"),
        ("/keys", {"keys": "many"}, "has no key"),
        ("/keys", {"keys": [1, None, {}, {"kty": "RSA"}, {"kty": "EC", "crv": "P-256"}]}, "has no key"),
        ("/keys", {"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}, "has no key"),
    ],
)
async def test_documents_that_make_no_sense(key: ForeignKey, where: str, document: Any, why: str) -> None:
    issuer = ForeignIssuer(key)
    issuer.documents[URL + where] = document
    server = Believed(issuer)
    assert why in await refused(server, key.signed(server.claims()))


def test_keys_that_are_for_something_else_are_left_out(key: ForeignKey) -> None:
    weak = ForeignKey("weak", bits=1024)
    listed = [
        {**key.jwk, "use": "enc"},
        {**key.jwk, "alg": "RSA-OAEP"},
        {**key.jwk, "kid": 7},
        weak.jwk,
        {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},
        {"kty": "EC", "crv": "P-256", "x": "AAAA", "y": "AAAA"},  # not on the curve
        {**key.jwk, "n": "not base64!"},
        {**key.jwk, "n": 5},
    ]
    assert keys_in_set({"keys": listed}) == ()
    assert len(keys_in_set({"keys": [*listed, key.jwk]})) == 1
    assert len(keys_in_set({"keys": [{**key.jwk, "kid": f"{n}"} for n in range(100)]})) == MOST_KEYS


async def test_without_issuers_no_token_is_looked_at(key: ForeignKey) -> None:
    server = Believed(ForeignIssuer(key))
    nobody = IssuedTokens([], (), server.clock)
    assert await nobody.identify(key.signed(server.claims()), ()) is None
