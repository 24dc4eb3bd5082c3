"""`ClientConfig`: where a server is and who asks it. Made from a kubeconfig, a pod's files, or by hand.

See also: `kubeconfig`, `credentials`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from oarlock.meta.context import User
from oarlock.meta.dataclass import dataclass
from oarlock.net.url import Url, UrlError, parse_url

__all__ = ["EXEC_VERSIONS", "ClientConfig", "ClientConfigError", "ExecPlugin", "OIDCProvider"]

EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
"""What is spoken with exec plugins; the first unless a plugin wants another."""


class ClientConfigError(ValueError):
    """A client's configuration can't be used; the text names the file, the field and what to do."""


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A program that prints credentials. Source: client.authentication.k8s.io/v1."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    api_version: str = EXEC_VERSIONS[0]
    install_hint: str = ""
    provide_cluster_info: bool = False


@dataclass(frozen=True, slots=True)
class OIDCProvider:
    """The tokens of an OpenID Connect login, and how they are renewed. Source: kubectl's ``oidc`` auth provider."""

    issuer: str
    client_id: str
    client_secret: str = field(default="", repr=False)
    id_token: str = field(default="", repr=False)
    refresh_token: str = field(default="", repr=False)
    ca_file: Path | None = None
    ca_data: bytes = b""


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """A server and the credentials for it. Files are read when they are needed, and again when they change."""

    server: str
    ca_file: Path | None = None
    ca_data: bytes = b""
    insecure: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    cert_file: Path | None = None
    cert_data: bytes = field(default=b"", repr=False)
    key_file: Path | None = None
    key_data: bytes = field(default=b"", repr=False)
    token: str = field(default="", repr=False)
    token_file: Path | None = None
    username: str = ""
    password: str = field(default="", repr=False)
    exec_plugin: ExecPlugin | None = None
    oidc: OIDCProvider | None = None
    user: User | None = None
    """Who is impersonated, as the kubeconfig says."""
    namespace: str = "default"
    """The namespace of the context, for what is asked for without one."""

    @property
    def url(self) -> Url:
        """The URL of the server; `Url.tls` decides whether TLS is used. Raises `ClientConfigError`."""
        try:
            return parse_url(self.server)
        except UrlError as error:
            raise ClientConfigError(f"the server's address is no URL: {error.reason}") from None
