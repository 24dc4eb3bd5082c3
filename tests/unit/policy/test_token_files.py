"""Static tokens: the file, the header, what is let in."""

from __future__ import annotations

import base64

import pytest
from token_users import by_token

from oarlock.meta.context import Notes, User
from oarlock.policy.authn.authenticator import Authenticator, BadCredentials, Credentials, Identity, Union
from oarlock.policy.authn.tokens.bearer_tokens import without_token
from oarlock.policy.authn.tokens.token_file import TokenFileError, parse_token_file

pytestmark = pytest.mark.anyio

FILE = b't1,alice,u1,"devs,ops"\r\n\nt2,bob,u2\nt3,"carol, the third",,"devs"\n'


def credentials(*lines: tuple[str, str], notes: Notes | None = None) -> Credentials:
    return Credentials(dict(reversed(lines)), lines, notes=notes)


def bearing(header: str) -> Credentials:
    return credentials(("authorization", header))


async def user_of(authenticator: Authenticator, sent: Credentials) -> User | None:
    identity = await authenticator.authenticate(sent)
    return None if identity is None else identity.user


async def ask(data: bytes, header: str | None) -> User | None:
    sent = credentials() if header is None else bearing(header)
    return await user_of(by_token(parse_token_file(data, "tokens.csv")), sent)


async def test_users_uids_and_groups_are_read() -> None:
    assert await ask(FILE, "Bearer t1") == User("alice", "u1", ("devs", "ops", "system:authenticated"))
    assert await ask(FILE, "Bearer t2") == User("bob", "u2", ("system:authenticated",))
    assert await ask(FILE, "Bearer t3") == User("carol, the third", "", ("devs", "system:authenticated"))


@pytest.mark.parametrize("header", ["bearer t1", "BEARER t1", " Bearer t1 ", "Bearer t1 trailing"])
async def test_the_header_is_read_leniently(header: str) -> None:
    user = await ask(FILE, header)
    assert user is not None
    assert user.name == "alice"


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Basic t1", "t1", "Bearert1"])
async def test_what_is_no_bearer_token_is_no_credential(header: str | None) -> None:
    assert await ask(FILE, header) is None


@pytest.mark.parametrize(
    "header", ["Bearer nope", "Bearer T1", "Bearer t1x", "Bearer \xff\xfe", "Bearer " + "x" * 100_000]
)
async def test_an_unknown_token_is_bad(header: str) -> None:
    with pytest.raises(BadCredentials):
        await ask(FILE, header)


async def test_two_spaces_are_ignored_with_a_warning() -> None:
    notes = Notes()
    tokens = by_token([("t1", User("alice"))])
    assert await tokens.authenticate(credentials(("authorization", "Bearer  t1"), notes=notes)) is None
    assert notes.warnings == (
        "the provided Authorization header contains extra space before the bearer token, and is ignored",
    )


async def test_a_token_may_have_any_characters() -> None:
    header = "Bearer " + "t☃".encode().decode("latin-1")  # as the serving layer hands bytes over
    user = await ask("t☃,snow,u".encode(), header)
    assert user is not None
    assert user.name == "snow"


async def test_a_remembered_header_still_means_the_same_user() -> None:
    tokens = by_token([("t1", User("alice")), ("t2", User("bob"))])
    for _ in range(3):
        for token, name in (("t1", "alice"), ("t2", "bob")):
            user = await user_of(tokens, bearing(f"Bearer {token}"))
            assert user is not None
            assert user.name == name
    for i in range(5000):  # more spellings than are remembered
        await tokens.authenticate(bearing(f"Bearer t1 {i}"))
    assert len(tokens.remembered) == 2


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"t1,alice\n", "f.csv, line 1: 2 columns where token,user,uid"),
        (b"t1,alice,u\n\nt2\n", "f.csv, line 3: 1 columns"),
        (b",alice,u\n", "f.csv, line 1: the token is empty"),
        (b"t,,u\n", "f.csv, line 1: the user is empty"),
        (b"t1,a,u\nt1,b,u\n", "f.csv, line 2: the token of line 1 is given again"),
        (b't1,a,u,"g\n', "f.csv, line 1: "),
        (b"t1,a,u\n\xff,b,u\n", "f.csv, line 2: not valid UTF-8"),
        (b"t 1,a,u\n", "f.csv, line 1: the token contains white space"),
        (b"\x00,a\n", "f.csv, line 1: "),
    ],
)
def test_mistakes_name_file_and_line(data: bytes, says: str) -> None:
    with pytest.raises(TokenFileError, match="^" + says.replace("[", r"\[")):
        parse_token_file(data, "f.csv")


async def test_a_bad_credential_of_one_kind_does_not_hide_a_good_one_of_another() -> None:
    class Broken(Authenticator):
        async def authenticate(self, credentials: Credentials) -> Identity | None:
            raise BadCredentials("certificate: no")

    tokens = by_token([("t1", User("alice"))])
    both = Union([Broken(), tokens])
    user = await user_of(both, bearing("Bearer t1"))
    assert user is not None
    assert user.name == "alice"
    with pytest.raises(BadCredentials, match="certificate: no; invalid bearer token"):
        await both.authenticate(bearing("Bearer nope"))
    assert await Union([tokens]).authenticate(credentials()) is None


async def test_every_known_user_is_in_the_group_of_known_users() -> None:
    class Fixed(Authenticator):
        def __init__(self, user: User) -> None:
            self.user = user

        async def authenticate(self, credentials: Credentials) -> Identity | None:
            return Identity(self.user, audiences=("a",), strip=("x-key",))

    async def groups(*given: str) -> tuple[str, ...]:
        identity = await Union([Fixed(User("u", groups=given))]).authenticate(credentials())
        assert identity is not None
        assert (identity.audiences, identity.strip) == (("a",), ("x-key",))
        return identity.user.groups

    assert await groups("a") == ("a", "system:authenticated")
    assert await groups("system:authenticated") == ("system:authenticated",)
    assert await groups("system:unauthenticated") == ("system:unauthenticated",)


OFFERED = "base64url.bearer.authorization.k8s.io."


def offering(token: str) -> str:
    return OFFERED + base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")


async def ask_in_websocket(protocols: str, **headers: str) -> User | None:
    tokens = by_token(parse_token_file(FILE + "☃?>~,snow,u".encode(), "tokens.csv"))
    sent = {"upgrade": "websocket", "sec-websocket-protocol": protocols, **headers}
    return await user_of(tokens, credentials(*sent.items()))


@pytest.mark.parametrize(("token", "name"), [("t1", "alice"), ("☃?>~", "snow")])
async def test_a_websocket_may_offer_its_token_as_a_subprotocol(token: str, name: str) -> None:
    for protocols in (f"{offering(token)}, v5.channel.k8s.io", f"v5.channel.k8s.io,{offering(token)}"):
        user = await ask_in_websocket(protocols)
        assert user is not None
        assert user.name == name


@pytest.mark.parametrize("protocols", ["", "v5.channel.k8s.io", OFFERED, f"{OFFERED}, v5.channel.k8s.io"])
async def test_a_websocket_without_a_token_has_no_credential(protocols: str) -> None:
    assert await ask_in_websocket(protocols) is None


async def test_only_a_websocket_offers_tokens() -> None:
    assert await ask_in_websocket(f"{offering('t1')}, a", upgrade="spdy/3.1") is None


@pytest.mark.parametrize(
    ("protocols", "why"),
    [
        (f"{offering('nope')}, a", "invalid bearer token"),
        (offering("t1"), "missing additional subprotocol"),
        (f"{offering('t1')}, {offering('t2')}, a", "multiple base64.bearer.authorization tokens specified"),
        (f"{OFFERED}!!, a", "invalid base64.bearer.authorization token encoding"),
        (f"{offering('t1')}=, a", "invalid base64.bearer.authorization token encoding"),
        (f"{OFFERED}a, a", "invalid base64.bearer.authorization token encoding"),
        (f"{OFFERED}_w, a", "invalid base64.bearer.authorization token encoding"),
        (f"{OFFERED}\xff, a", "invalid base64.bearer.authorization token encoding"),
    ],
)
async def test_a_token_that_is_offered_wrongly_is_bad(protocols: str, why: str) -> None:
    with pytest.raises(BadCredentials, match=why):
        await ask_in_websocket(protocols)


async def test_a_token_among_very_many_subprotocols_is_bad() -> None:
    offered = "a," * 100_000 + "base64url.bearer.authorization.k8s.io.dDE"
    sent = credentials(("upgrade", "websocket"), ("sec-websocket-protocol", offered))
    with pytest.raises(BadCredentials, match="more than 64"):
        await by_token([("t1", User("alice"))]).authenticate(sent)


async def test_a_token_may_be_in_any_line_of_subprotocols() -> None:
    tokens = by_token([("t1", User("alice")), ("t2", User("bob"))])
    upgrade, other = ("upgrade", "websocket"), ("sec-websocket-protocol", "v5.channel.k8s.io")
    first, second = (("sec-websocket-protocol", offering(token)) for token in ("t1", "t2"))
    for lines in ((upgrade, other, first), (first, upgrade, other)):
        user = await user_of(tokens, credentials(*lines))
        assert user is not None
        assert user.name == "alice"
    with pytest.raises(BadCredentials, match="multiple"):
        await tokens.authenticate(credentials(upgrade, other, first, second))
    with pytest.raises(BadCredentials, match="missing additional subprotocol"):
        await tokens.authenticate(credentials(upgrade, first))


async def test_of_two_authorization_lines_the_first_counts() -> None:
    tokens = by_token([("t1", User("alice")), ("t2", User("bob"))])
    lines = (("authorization", "Bearer t1"), ("authorization", "Bearer t2"))
    for one, name in ((lines, "alice"), (lines[::-1], "bob")):
        user = await user_of(tokens, credentials(*one))
        assert user is not None
        assert user.name == name
    with pytest.raises(BadCredentials):
        await tokens.authenticate(credentials(("authorization", "Bearer nope"), *lines))
    assert await tokens.authenticate(credentials(("authorization", ""), *lines)) is None


async def test_a_header_of_a_megabyte_is_not_kept() -> None:
    tokens = by_token([("t1", User("alice"))])
    for header in ("Bearer t1 " + "x" * 1_000_000, "Bearer t1" + " " * 1_000_000):
        assert await user_of(tokens, bearing(header)) is not None
    assert tokens.remembered.held_bytes == 0
    with pytest.raises(BadCredentials):
        await tokens.authenticate(bearing("Bearer " + "\xe9" * 1_000_000))


class Failing(Authenticator):
    """One with a bug, or whose service can't be reached."""

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        raise OSError("no route to host")


async def test_a_failure_of_one_does_not_hide_the_success_of_another(caplog: pytest.LogCaptureFixture) -> None:
    tokens = by_token([("t1", User("alice"))])
    for order in ([Failing(), tokens], [tokens, Failing()]):
        user = await user_of(Union(order), bearing("Bearer t1"))
        assert user is not None
        assert user.name == "alice"
        with pytest.raises(BadCredentials, match="Failing failed") as caught:
            await Union(order).authenticate(bearing("Bearer nope"))
        assert "no route" not in str(caught.value)
    with pytest.raises(BadCredentials, match="Failing failed"):
        await Union([Failing()]).authenticate(credentials())
    assert "no route to host" in caplog.text


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        ([], []),
        (["a, b", "c"], ["a, b", "c"]),
        ([f"{OFFERED}dDE, a"], ["a"]),
        ([f"a, {OFFERED}dDE ,b"], ["a,b"]),
        ([f"{OFFERED}dDE"], []),
        ([f"{OFFERED}dDE,{OFFERED}dDI", "a"], ["a"]),
        ([f"a, , {OFFERED}", f" {OFFERED}\xff"], ["a"]),
    ],
)
def test_tokens_are_removed_from_subprotocols(lines: list[str], left: list[str]) -> None:
    assert without_token(lines) == left


def test_a_credential_may_be_for_certain_audiences() -> None:
    api = frozenset(("https://kubernetes.default.svc", "api"))
    assert Identity(User("u")).is_for(api)
    assert Identity(User("u"), ("api", "vault")).is_for(api)
    assert not Identity(User("u"), ("vault",)).is_for(api)
    assert not Identity(User("u"), ()).is_for(api)
    assert Identity(User("u"), ("vault",)).is_for(frozenset())
