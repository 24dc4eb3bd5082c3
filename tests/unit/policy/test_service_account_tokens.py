"""Tokens of service accounts: who they are, when they die, and what nobody can make of them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from service_account_kit import ISSUER, Accounts, binding, pem_of, signing_key

from oarlock.meta.context import User
from oarlock.policy.authn.authenticator import Credentials, Identity, KeyFileError
from oarlock.policy.authn.tokens.bearer_tokens import LONGEST_REMEMBERED, REMEMBERED_BYTES, BadToken
from oarlock.policy.authn.tokens.service_accounts import BoundObject
from oarlock.policy.authn.tokens.token_issuer import SigningKey, key_set, load_signing_key, load_verification_keys

pytestmark = pytest.mark.anyio

SECRET = BoundObject("secrets", "shop", "anchor", "anchor-uid")
POD = BoundObject("pods", "shop", "web-0", "web-0-uid")


@pytest.fixture(scope="module")
def key() -> SigningKey:
    return signing_key()


@pytest.fixture
def accounts(key: SigningKey) -> Accounts:
    return Accounts(key)


async def user_of(accounts: Accounts, token: str) -> User:
    identity = await accounts.bearer.authenticate(Credentials({"authorization": f"Bearer {token}"}, ()))
    assert identity is not None
    return identity.user


async def refused(accounts: Accounts, token: str) -> tuple[str, ...]:
    with pytest.raises(BadToken) as caught:
        await user_of(accounts, token)
    shown = str(caught.value)
    assert not token or token.split(".")[-1] not in shown or not token.split(".")[-1]
    return caught.value.reasons


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def parts(token: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    head, payload, signature = token.split(".")
    return *(json.loads(base64.urlsafe_b64decode(one + "==")) for one in (head, payload)), signature


def forged(token: str, *, head: dict[str, Any] | None = None, **claims: Any) -> str:
    """The token with other claims, and the signature of the real one."""
    old_head, old_claims, signature = parts(token)
    texts = ({**old_head, **(head or {})}, {**old_claims, **claims})
    return ".".join((*(encoded(json.dumps(one).encode()) for one in texts), signature))


async def test_a_token_is_its_account(accounts: Accounts) -> None:
    user = await user_of(accounts, accounts.token())
    assert (user.name, user.uid) == ("system:serviceaccount:shop:robot", "robot-uid")
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated")
    ((key, (token_id,)),) = user.extra.items()
    assert key == "authentication.kubernetes.io/credential-id"
    assert token_id.startswith("JTI=")


async def test_what_it_is_bound_to_is_said(accounts: Accounts) -> None:
    accounts.objects.put("pods", "shop", "web-0")
    accounts.objects.put("secrets", "shop", "anchor")
    token, _ = accounts.issuer.issue(binding(POD, node=("n1", "n1-uid")), (ISSUER,), 600)
    extra = (await user_of(accounts, token)).extra
    assert {key.rpartition("/")[2]: value for key, value in extra.items() if "credential" not in key} == {
        "pod-name": ("web-0",),
        "pod-uid": ("web-0-uid",),
        "node-name": ("n1",),
        "node-uid": ("n1-uid",),
    }
    assert list((await user_of(accounts, accounts.token(SECRET))).extra) == [
        "authentication.kubernetes.io/credential-id"
    ]
    node = BoundObject("nodes", "", "n1", "n1-uid")
    assert await refused(accounts, accounts.token(node)) == ("service account token has been invalidated",)
    accounts.objects.put("nodes", "", "n1")
    assert "authentication.kubernetes.io/node-name" in (await user_of(accounts, accounts.token(node))).extra


async def test_it_dies_with_its_account(accounts: Accounts) -> None:
    token = accounts.token()
    for _ in range(2):
        await user_of(accounts, token)
    accounts.objects.put("serviceaccounts", "shop", "robot", metadata={"labels": {"a": "b"}})  # changed, not replaced
    await user_of(accounts, token)
    del accounts.objects.objects["serviceaccounts", "shop", "robot"]
    assert await refused(accounts, token) == ('serviceaccounts "robot" not found',)
    accounts.objects.put("serviceaccounts", "shop", "robot", uid="another")
    assert "another one" in (await refused(accounts, token))[0]
    accounts.objects.put("serviceaccounts", "shop", "robot", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert "invalidated" in (await refused(accounts, token))[0]


@pytest.mark.parametrize("bound", [SECRET, POD])
async def test_it_dies_with_what_it_is_bound_to(accounts: Accounts, bound: BoundObject) -> None:
    key = (bound.resource, bound.namespace, bound.name)
    token = accounts.token(bound)
    assert "invalidated" in (await refused(accounts, token))[0]
    accounts.objects.put(*key)
    for _ in range(2):
        await user_of(accounts, token)
    accounts.objects.put(*key, uid="another")
    assert "another one" in (await refused(accounts, token))[0]


async def test_what_another_server_has_just_stored_is_waited_for(accounts: Accounts) -> None:
    accounts.objects.later = {("serviceaccounts", "shop", "robot"): {"metadata": {"uid": "robot-uid"}}}
    accounts.objects.objects.clear()
    await user_of(accounts, accounts.token())
    await user_of(accounts, accounts.token())
    assert accounts.objects.looks == 1


async def test_it_is_good_from_when_it_was_made_until_it_expires(accounts: Accounts) -> None:
    token = accounts.token(seconds=600)
    await user_of(accounts, token)
    accounts.clock.advance(599)
    await user_of(accounts, token)
    accounts.clock.advance(1)
    assert await refused(accounts, token) == ("service account token has expired",)
    accounts.clock.advance(100_000)
    early = accounts.token()
    accounts.clock._elapsed_s -= 61
    assert await refused(accounts, early) == ("service account token is not valid yet",)


async def test_it_is_for_its_audiences(accounts: Accounts) -> None:
    vault = accounts.token(audiences=("vault", "consul"))
    says = f'token audiences ["vault" "consul"] is invalid for the target audiences ["{ISSUER}"]'
    assert await refused(accounts, vault) == (says,)
    answer = await accounts.bearer.identify(vault, ("vault", "nomad"))
    assert answer.identity.audiences == ("vault",)
    for _ in range(2):  # a review of another audience doesn't let it in
        await refused(accounts, vault)


async def test_what_is_no_token_of_ours_is_left_to_others(accounts: Accounts) -> None:
    other = encoded(json.dumps({"iss": "https://elsewhere.example.com"}).encode())
    for token in ("nope", "a.b.c", "..", f"{encoded(b'{}')}.{other}.", "x" * 100_000, f"e30.{other}.x", "é.é.é"):
        assert await refused(accounts, token) == ()


def _with_header(accounts: Accounts, **header: Any) -> str:
    return forged(accounts.token(), head=header)


def _hmac(accounts: Accounts) -> str:
    """Signed with the public key, as if it were a shared secret."""
    head, payload, _ = forged(accounts.token(), head={"alg": "HS256"}).split(".")
    public = accounts.keys[0].key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    signature = hmac.new(public, f"{head}.{payload}".encode(), hashlib.sha256).digest()
    return f"{head}.{payload}.{encoded(signature)}"


def _own_key(accounts: Accounts) -> str:
    """Signed by somebody else's key, which the header carries."""
    stranger = signing_key()
    other = Accounts(stranger)
    token = other.token()
    head = {**parts(token)[0], "jwk": key_set([stranger.public])["keys"][0], "kid": accounts.keys[0].key_id}
    return forged(token, head=head)


ATTACKS: dict[str, Any] = {
    "other claims": lambda a: forged(a.token(), sub="system:serviceaccount:kube-system:admin"),
    "a later end": lambda a: forged(a.token(), exp=9_999_999_999),
    "no algorithm": lambda a: forged(a.token(), head={"alg": "none"}).rpartition(".")[0] + ".",
    "no algorithm, spelled otherwise": lambda a: forged(a.token(), head={"alg": "NoNe"}).rpartition(".")[0] + ".",
    "the public key as a secret": _hmac,
    "another key's algorithm": lambda a: _with_header(a, alg="ES256"),
    "another hash": lambda a: _with_header(a, alg="RS512"),
    "a key in the header": _own_key,
    "a path as the key's id": lambda a: _with_header(a, kid="../../../dev/null"),
    "a number as the key's id": lambda a: _with_header(a, kid=7),
    "an extension that must be understood": lambda a: _with_header(a, crit=["x"], x=1),
    "an unencoded payload": lambda a: _with_header(a, b64=False, crit=["b64"]),
    "no signature": lambda a: a.token().rpartition(".")[0] + ".",
    "half a signature": lambda a: a.token()[:-100],
    "a longer signature": lambda a: a.token() + "AAAA",
    "padding at the end": lambda a: a.token() + "=",
    "as much padding as base64 wants": lambda a: a.token() + "=" * (-len(a.token().rpartition(".")[2]) % 4 or 4),
    "padding within": lambda a: a.token().replace(".", "=.", 1),
    "another issuer's key": lambda a: Accounts(signing_key()).token(),
}


@pytest.mark.parametrize("name", ATTACKS)
async def test_nobody_can_forge_one(accounts: Accounts, name: str) -> None:
    reasons = await refused(accounts, ATTACKS[name](accounts))
    assert reasons in ((), ("no key of the server has signed this service account token",))
    assert len(accounts.bearer.remembered) == 0


DEEP = b"[" * 20_000 + b"]" * 20_000


@pytest.mark.parametrize(
    "token",
    [
        encoded(b'{"alg":"RS256","x":' + DEEP[:10_000] + DEEP[-10_000:] + b"}") + ".e30.x",
        "e30." + encoded(b'{"iss":"' + ISSUER.encode() + b'","x":' + DEEP[10_000:30_000] + b"}") + ".x",
        encoded(b'{"alg":"RS256"}') + "." + encoded(b'{"iss":"' + ISSUER.encode() + b'"}') + "." + "A" * 40_000,
        encoded(b'{"alg":["RS256"]}') + ".e30.x",
        encoded(b"[]") + "." + encoded(b"7") + ".x",
        encoded(b'{"alg":"RS256"}') + "." + encoded(b'{"iss":["' + ISSUER.encode() + b'"]}') + ".x",
        ".".join(["\ud800"] * 3),
    ],
)
async def test_strange_tokens_are_only_refused(accounts: Accounts, token: str) -> None:
    with pytest.raises(BadToken) as caught:
        await accounts.bearer.identify(token, (ISSUER,))
    assert caught.value.reasons in ((), ("no key of the server has signed this service account token",))


@pytest.mark.parametrize(
    ("claims", "says"),
    [
        ({"exp": None}, "no claim exp"),
        ({"exp": "tomorrow"}, "the claim exp is no time"),
        ({"exp": True}, "the claim exp is no time"),
        ({"nbf": 1e300}, "the claim nbf is no time"),
        ({"kubernetes.io": None}, "service account token"),
        ({"kubernetes.io": {"namespace": "shop"}}, "service account token"),
        ({"kubernetes.io": {"namespace": "shop", "serviceaccount": {"name": "robot"}}}, "service account token"),
        ({"kubernetes.io": {"namespace": "", "serviceaccount": {"name": "robot", "uid": "u"}}}, "no text"),
        ({"sub": "system:serviceaccount:shop:other"}, "its subject is not its service account"),
    ],
)
async def test_claims_that_make_no_sense_are_refused_even_if_signed(
    accounts: Accounts, claims: dict[str, Any], says: str
) -> None:
    token = accounts.issuer._signed({**parts(accounts.token())[1], **claims})
    assert says in (await refused(accounts, token))[0]


async def test_the_token_in_a_secret_is_good_while_it_is_there(accounts: Accounts) -> None:
    token = accounts.issuer.issue_for_secret(binding().account, "legacy")
    assert "invalidated" in (await refused(accounts, token))[0]
    data = {"token": base64.b64encode(token.encode()).decode()}
    accounts.objects.put("secrets", "shop", "legacy", data=data)
    user = await user_of(accounts, token)
    assert (user.name, dict(user.extra)) == ("system:serviceaccount:shop:robot", {})
    for other in ({}, {"token": "!"}, {"token": base64.b64encode(b"another").decode()}):
        accounts.objects.put("secrets", "shop", "legacy", data=other)
        assert "invalidated" in (await refused(accounts, token))[0]


def in_its_secret(accounts: Accounts, **labels: str) -> str:
    """A token that the secret ``legacy`` has; it has these labels too."""
    token = accounts.issuer.issue_for_secret(binding().account, "legacy")
    data = {"token": base64.b64encode(token.encode()).decode()}
    named = {f"kubernetes.io/legacy-token-{name.replace('_', '-')}": value for name, value in labels.items()}
    accounts.objects.put("secrets", "shop", "legacy", data=data, metadata={"labels": named})
    return token


async def identity_of(accounts: Accounts, token: str) -> Identity:
    identity = await accounts.bearer.authenticate(Credentials({"authorization": f"Bearer {token}"}, ()))
    assert identity is not None
    return identity


def label(day: datetime) -> dict[str, Any]:
    """The patch that says it was used on this day."""
    return {"metadata": {"uid": "legacy-uid", "labels": {"kubernetes.io/legacy-token-last-used": f"{day:%Y-%m-%d}"}}}


async def test_the_use_of_a_token_in_a_secret_is_noted_once_a_day(accounts: Accounts) -> None:
    token = in_its_secret(accounts)
    secret = BoundObject("secrets", "shop", "legacy", "legacy-uid")
    uses = accounts.tokens._uses
    for _ in range(2):
        noted = (("authentication.k8s.io/legacy-token-manual-secret", "legacy"),)
        assert (await identity_of(accounts, token)).annotations == noted
    today = datetime.fromtimestamp(accounts.clock.now(), UTC)
    assert uses.pending == {secret: label(today)}
    uses.pending.clear()
    tomorrow = today + timedelta(days=1)
    for day in (today, tomorrow):
        await identity_of(accounts, in_its_secret(accounts, last_used=day.strftime("%Y-%m-%d")))
        assert uses.pending == {}, "its label says so"
    await identity_of(accounts, in_its_secret(accounts, last_used="2020-02-03"))
    assert uses.pending.pop(secret) == label(today)
    await accounts.clock.run(86_400)
    await identity_of(accounts, token)
    assert uses.pending == {secret: label(tomorrow)}, "what is remembered is looked at again on another day"


async def test_a_token_that_was_made_with_its_account_is_warned_of(accounts: Accounts) -> None:
    accounts.objects.put("serviceaccounts", "shop", "robot", secrets=[{"name": "legacy"}])
    identity = await identity_of(accounts, in_its_secret(accounts))
    assert identity.annotations == (("authentication.k8s.io/legacy-token-autogenerated-secret", "legacy"),)
    assert ["auto-generated" in text for text in identity.warnings] == [True]


async def test_a_token_whose_secret_is_marked_invalid_is_refused_and_noted(accounts: Accounts) -> None:
    token = in_its_secret(accounts, invalid_since="2026-01-01")
    with pytest.raises(BadToken, match="has been marked invalid") as caught:
        await identity_of(accounts, token)
    assert caught.value.annotations == (("authentication.k8s.io/legacy-token-invalidated", "legacy/shop"),)
    assert [secret.name for secret in accounts.tokens._uses.pending] == ["legacy"]
    in_its_secret(accounts)
    assert (await identity_of(accounts, token)).user.name == "system:serviceaccount:shop:robot"


async def test_keys_may_be_replaced_one_after_the_other(key: SigningKey) -> None:
    old, new = Accounts(key), Accounts(signing_key(curve=ec.SECP256R1()))
    token = old.token()
    new.keys.append(key.public)
    assert (await user_of(new, token)).name == (await user_of(new, new.token())).name
    new.keys.pop()
    new.bearer.forget()
    await refused(new, token)


async def test_ten_thousand_users_are_not_all_remembered(accounts: Accounts) -> None:
    token = accounts.token()
    answer = await accounts.bearer.identify(token, (ISSUER,))
    for n in range(10_000):
        accounts.bearer.remembered.put(f"Bearer {n}{token}", answer, len(token))
    assert accounts.bearer.remembered.held_bytes <= REMEMBERED_BYTES
    assert len(token) < LONGEST_REMEMBERED


@pytest.mark.parametrize(
    ("pem", "says"),
    [
        (b"", "it contains no key in PEM"),
        (b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "can't be read"),
        (pem_of(ed25519.Ed25519PrivateKey.generate()), "tokens can't be signed with"),
        (pem_of(rsa.generate_private_key(65537, 1024)), "1024 bits"),
        (pem_of(ec.generate_private_key(ec.SECP256K1())), "tokens can't be signed with"),
    ],
)
def test_keys_that_are_no_good_are_refused(pem: bytes, says: str) -> None:
    with pytest.raises(KeyFileError, match=f"^sa.key: .*{says}"):
        load_verification_keys(pem, "sa.key")


def test_a_file_may_hold_several_keys(key: SigningKey) -> None:
    other = ec.generate_private_key(ec.SECP384R1())
    public = key.public.key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    keys = load_verification_keys(b"some text\n" + public + pem_of(other), "sa.pub")
    assert [one.algorithms[0] for one in keys] == ["RS256", "ES384"]
    assert keys[0].key_id == key.public.key_id
    published = key_set(keys)["keys"]
    assert [(one["kty"], one["use"], one["kid"]) for one in published] == [
        ("RSA", "sig", keys[0].key_id),
        ("EC", "sig", keys[1].key_id),
    ]
    with pytest.raises(KeyFileError, match="no private key"):
        load_signing_key(public, "sa.key")
