"""The headers of a front proxy: believed behind its certificate, and seen by nobody else, however they are spelled."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import Any

import pytest
from client_certificates import issue_client
from hypothesis import given
from hypothesis import strategies as st
from thoroughness import examples

from oarlock.endpoints.http import Request, Response
from oarlock.meta.context import Peer, User
from oarlock.policy.authn.authenticator import BadCredentials, Credentials, Identity, Union
from oarlock.policy.authn.certificates import ClientCertificates, load_bundle
from oarlock.policy.authn.front_proxy import FrontProxy
from oarlock.policy.authn.front_proxy_headers import FrontProxyHeaders, FrontProxyNames
from oarlock.server.assembly.identities import Identities
from oarlock.server.config import ServerConfig
from oarlock.server.files.credentials import BadFile
from oarlock.server.options.option import ConfigError
from oarlock.server.serving.certificates.serving_pair import ensure_certificates
from oarlock.testing.clock import VirtualClock

pytestmark = pytest.mark.anyio

NAMES = FrontProxyNames(("proxy", "other-proxy"), uid_headers=("x-remote-uid",))


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two authorities: in ``proxies`` that of front proxies, in ``clients`` that of clients."""
    folder = tmp_path_factory.mktemp("authorities")
    for name in ("proxies", "clients"):
        ensure_certificates(folder / name, (), VirtualClock().now())
    return folder


@pytest.fixture(scope="module")
def peers(authorities: Path) -> dict[str, Peer]:
    """Clients by their common name, with certificates of the proxies' authority; ``carol`` has one of the clients'."""
    made = {}
    for folder, name in (("proxies", "proxy"), ("proxies", "stranger"), ("proxies", ""), ("clients", "carol")):
        pem, _ = issue_client(authorities / folder, name or "-", ("devs",), VirtualClock().now())
        made[name] = Peer("192.0.2.1", 1, ssl.PEM_cert_to_DER_cert(pem.decode()), tls=True)
    return made


@pytest.fixture(scope="module")
def proxy(authorities: Path) -> FrontProxy:
    bundle = load_bundle((authorities / "proxies" / "ca.crt").read_bytes(), "ca.crt")
    return FrontProxy(bundle, NAMES, VirtualClock())


async def ask(authenticator: Any, peer: Peer, *lines: tuple[str, str]) -> User | None:
    identity = await authenticator.authenticate(Credentials(dict(reversed(lines)), lines, peer))
    return identity.user if isinstance(identity, Identity) else None


async def test_all_that_a_front_proxy_says_is_believed(proxy: FrontProxy, peers: dict[str, Peer]) -> None:
    user = await ask(
        proxy,
        peers["proxy"],
        ("x-remote-user", "alice"),
        ("x-remote-user", "mallory"),
        ("x-remote-uid", "u1"),
        ("x-remote-group", "devs"),
        ("x-remote-group", ""),
        ("x-remote-group", "caf\xc3\xa9"),
        ("x-remote-extra-scopes", "a"),
        ("x-remote-extra-example.com%2fteam", "t"),
        ("x-remote-extra-scopes", "b"),
        ("x-remote-extra-100%", "c"),
        ("x_remote_group", "system:masters"),
    )
    extra = {"scopes": ("a", "b"), "example.com/team": ("t",), "100%": ("c",)}
    assert user == User("alice", "u1", ("devs", "café"), extra)


async def test_without_a_name_it_says_nothing(proxy: FrontProxy, peers: dict[str, Peer]) -> None:
    for lines in ([], [("x-remote-user", "")], [("x-remote-group", "system:masters")]):
        assert await ask(proxy, peers["proxy"], *lines) is None


async def test_another_certificate_of_its_authority_is_not_enough(proxy: FrontProxy, peers: dict[str, Peer]) -> None:
    with pytest.raises(BadCredentials, match="subject with cn=stranger is not in the allowed list"):
        await ask(proxy, peers["stranger"], ("x-remote-user", "admin"))
    with pytest.raises(BadCredentials, match="x509"):
        await ask(proxy, peers["carol"], ("x-remote-user", "admin"))
    assert await ask(proxy, Peer("192.0.2.1", 1, tls=True), ("x-remote-user", "admin")) is None
    with pytest.raises(BadCredentials, match="UTF-8"):
        await ask(proxy, peers["proxy"], ("x-remote-user", "\xff"))


async def test_a_client_is_itself_whatever_it_says(
    authorities: Path, proxy: FrontProxy, peers: dict[str, Peer]
) -> None:
    clients = ClientCertificates(load_bundle((authorities / "clients" / "ca.crt").read_bytes(), "ca"), VirtualClock())
    both = Union([proxy, clients])
    user = await ask(both, peers["carol"], ("x-remote-user", "admin"), ("x-remote-group", "system:masters"))
    assert user is not None
    assert (user.name, user.groups) == ("carol", ("devs", "system:authenticated"))
    with pytest.raises(BadCredentials):
        await ask(both, peers["stranger"], ("x-remote-user", "admin"))


async def test_any_name_may_be_allowed(authorities: Path, peers: dict[str, Peer]) -> None:
    bundle = load_bundle((authorities / "proxies" / "ca.crt").read_bytes(), "ca.crt")
    user = await ask(FrontProxy(bundle, FrontProxyNames(), VirtualClock()), peers["stranger"], ("x-remote-user", "a"))
    assert user == User("a")


CLAIMS = st.sampled_from(["x-remote-user", "x-remote-group", "x-remote-uid", "x-remote-extra-a%2fb", "x-our-user"])


@given(CLAIMS, st.integers(0), st.integers(0))
@examples(200)
def test_no_spelling_of_a_claim_is_kept(name: str, folded: int, times: int) -> None:
    spelled = "".join("_" if c == "-" and folded >> n & 1 else c for n, c in enumerate(name))
    assert FrontProxyHeaders(FrontProxyNames(username_headers=("x-our-user",))).has(spelled)
    assert FrontProxyHeaders().has(spelled) is (name != "x-our-user")


async def test_configured_headers_are_not_seen_behind_authentication(chain: Any) -> None:
    """Even one that most requests have."""
    behind: list[Request] = []

    async def dispatch(state: Any) -> Response:
        behind.append(state.request)
        return Response(200, [])

    chain.dispatch = dispatch
    names = FrontProxyNames(username_headers=("user-agent",), extra_prefixes=("x-more_",))
    chain.config["front_proxy"] = FrontProxyHeaders(names)
    sent = {"user-agent": "admin", "x-more-a": "1", "x_more_b": "2", "accept": "a", "x-moreover": "kept"}
    assert (await chain.send(headers=sent)).status == 200
    assert set(behind[-1].headers) == {"accept", "x-moreover"}


def config(folder: Path, authorities: Path, **options: Any) -> ServerConfig:
    return ServerConfig(
        storage=f"sqlite:///{folder}/a.db", client_ca_file=authorities / "clients" / "ca.crt", **options
    )


async def test_its_authority_is_read_again(
    tmp_path: Path, authorities: Path, peers: dict[str, Peer], caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "proxies.crt"
    file.write_bytes((authorities / "proxies" / "ca.crt").read_bytes())
    options = config(tmp_path, authorities, requestheader_client_ca_file=file, requestheader_allowed_names=("proxy",))
    identities = Identities(options, VirtualClock())
    claim = ("x-remote-user", "alice")
    user = await ask(identities.authenticator, peers["proxy"], claim)
    assert user == User("alice", groups=("system:authenticated",))
    file.write_bytes((authorities / "clients" / "ca.crt").read_bytes())
    for one in identities.files:
        one.check()
    with pytest.raises(BadCredentials):
        await ask(identities.authenticator, peers["proxy"], claim)
    file.write_text("not PEM")
    for one in identities.files:
        one.check()
    errors = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
    assert len(errors) == 1
    assert "no certificate in PEM" in errors[0]


def test_clients_and_front_proxies_may_not_share_an_authority_unnamed(tmp_path: Path, authorities: Path) -> None:
    same = authorities / "clients" / "ca.crt"
    with pytest.raises(ConfigError, match="every client could name any user"):
        config(tmp_path, authorities, requestheader_client_ca_file=same)
    copy = tmp_path / "copy.crt"
    copy.write_bytes((authorities / "proxies" / "ca.crt").read_bytes() + same.read_bytes())
    with pytest.raises(BadFile, match="every client could name any user"):
        Identities(config(tmp_path, authorities, requestheader_client_ca_file=copy), VirtualClock())
    Identities(
        config(tmp_path, authorities, requestheader_client_ca_file=copy, requestheader_allowed_names=("proxy",)),
        VirtualClock(),
    )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"requestheader_allowed_names": ("proxy",)}, "requestheader_client_ca_file"),
        ({"requestheader_username_headers": ("x user",)}, "can't be the name of a header"),
        ({"requestheader_client_ca_file": Path("a"), "requestheader_username_headers": ()}, "couldn't name users"),
        ({"anonymous_auth": True, "anonymous_paths": ("/livez",)}, "set one of them"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        ServerConfig(**options)
