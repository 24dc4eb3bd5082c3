"""An extension server believes those whom its cluster names, and asks it whose tokens are; both are oarlock here."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
from client_certificates import issue_client
from silent_terminal import Silent

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.apps.controlplane.options import for_control_plane
from oarlock.client.clock import SystemClock
from oarlock.meta.context import Peer
from oarlock.policy.authn.authenticator import BadCredentials, Credentials
from oarlock.server.assembly.identities import Identities
from oarlock.server.assembly.lifecycle import start
from oarlock.server.cluster.trust import NAME, NAMESPACE, TrustedAuthorities
from oarlock.server.config import ServerConfig
from oarlock.server.files.credentials import BadFile
from oarlock.server.serving.certificates.serving_pair import ensure_certificates

pytestmark = pytest.mark.anyio


def peer(folder: Path, name: str) -> Peer:
    pem, _ = issue_client(folder, name, (), SystemClock().now())
    return Peer("192.0.2.1", 1, ssl.PEM_cert_to_DER_cert(pem.decode()), tls=True)


async def ask(identities: Identities, who: Peer | None = None, **headers: str) -> str:
    """The name of the user; empty if nobody is known."""
    lines = [(name.replace("_", "-"), value) for name, value in headers.items()]
    try:
        identity = await identities.authenticator.authenticate(
            Credentials(dict(lines), lines, who or Peer("192.0.2.1", 1))
        )
    except BadCredentials:
        return ""
    return "" if identity is None else identity.user.name


async def test_a_cluster_is_asked_and_followed(tmp_path: Path) -> None:
    now = SystemClock().now()
    for name in ("clients", "proxies"):
        ensure_certificates(tmp_path / name, (), now)
    cluster = await start(
        ControlPlane(),
        for_control_plane(
            ServerConfig(
                storage="memory://",
                data_dir=tmp_path / "cluster",
                secure_port=0,
                client_ca_file=tmp_path / "clients" / "ca.crt",
                requestheader_client_ca_file=tmp_path / "proxies" / "ca.crt",
                requestheader_allowed_names=("proxy",),
                requestheader_username_headers=("x-their-user",),
                requestheader_extra_headers_prefix=("x-their-extra-",),
            )
        ),
        SystemClock(),
        Silent(),
    )
    kubeconfig = tmp_path / "cluster" / "oarlock.kubeconfig"
    options = ServerConfig(storage="memory://", data_dir=tmp_path, authentication_kubeconfig=kubeconfig)
    try:
        client = cluster.client(None, "test")
        identities = Identities(options, SystemClock())
        await identities.start()
        proxy, carol = peer(tmp_path / "proxies", "proxy"), peer(tmp_path / "clients", "carol")
        assert await ask(identities, carol) == "carol"
        assert await ask(identities, carol, x_their_user="admin") == "carol"
        assert await ask(identities, proxy, x_their_user="alice") == "alice"
        assert await ask(identities, proxy, x_remote_user="alice") == ""
        assert identities.front_proxy.has("x_their-extra-a")
        admin_token = (tmp_path / "cluster" / "oarlock.token").read_text().strip()
        assert await ask(identities, authorization=f"Bearer {admin_token}") == "admin"
        assert await ask(identities, authorization="Bearer nope") == ""

        following = asyncio.ensure_future(identities.follow())
        told, believe = asyncio.Event(), identities._trust._changed  # type: ignore[union-attr]

        def tell(said: TrustedAuthorities) -> None:
            believe(said)
            told.set()

        identities._trust._changed = tell  # type: ignore[union-attr]
        change = {"data": {"requestheader-allowed-names": '["other"]'}}
        await client.patch("v1/ConfigMap", NAME, change, namespace=NAMESPACE)
        async with asyncio.timeout(60):
            await told.wait()
        assert await ask(identities, peer(tmp_path / "proxies", "other"), x_their_user="bob") == "bob"
        assert await ask(identities, proxy, x_their_user="alice") == ""
        following.cancel()
        await asyncio.wait([following])
    finally:
        await cluster.shut_down()


async def test_without_its_cluster_a_server_starts_only_if_told_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oarlock.server.cluster.trust.FIRST_LOOK_S", 0.1)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nusers: [{name: u, user: {token: t}}]\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}]\n"
        "contexts: [{name: c, context: {cluster: c, user: u}}]\n"
    )
    options = {"storage": "memory://", "data_dir": tmp_path, "authentication_kubeconfig": kubeconfig}
    with pytest.raises(BadFile, match="reading the ConfigMap"):
        await Identities(ServerConfig(**options), SystemClock()).start()  # type: ignore[arg-type]
    await Identities(ServerConfig(**options, authentication_skip_lookup=True), SystemClock()).start()  # type: ignore[arg-type]
    await Identities(
        ServerConfig(**options, authentication_tolerate_lookup_failure=True),  # type: ignore[arg-type]
        SystemClock(),
    ).start()
    assert "users of this cluster can't authenticate" in caplog.text
