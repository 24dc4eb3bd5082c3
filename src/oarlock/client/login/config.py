"""`ClientConfig`: where a server is, who asks it, and which proxy leads there, as the environment says.

Made from a kubeconfig, a pod's files, or by hand. See also: `kubeconfig`, `credentials`.
Source: Go's ``net/http/httpproxy``, which kubectl follows.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from oarlock.meta.context import User
from oarlock.meta.dataclass import dataclass
from oarlock.net.url import Url, UrlError, parse_url

EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
"""What is spoken with exec plugins; the first unless a plugin wants another."""


class ClientConfigError(ValueError):
    """A client's configuration can't be used. The text names the file, the field and what to do."""


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
    """The address of a server and the credentials for it.

    Files are read when they are needed, and again after they have changed.
    """

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
    """The user that the kubeconfig impersonates."""
    namespace: str = "default"
    """The namespace of the context, for requests that name none."""

    @property
    def url(self) -> Url:
        """The URL of the server. TLS is used if `Url.tls` is true. Raises `ClientConfigError`."""
        try:
            return parse_url(self.server)
        except UrlError as error:
            raise ClientConfigError(f"the server's address isn't a URL: {error.reason}") from None


def environment_proxy(server: str, environment: Mapping[str, str]) -> str:
    """The proxy's URL, or nothing. This machine itself is never asked through a proxy. Raises `UrlError`."""
    url = parse_url(server)
    host = url.hostname.lower().rstrip(".")
    name = f"{url.scheme}_proxy"
    proxy = environment.get(name) or environment.get(name.upper()) or ""
    if not proxy or host == "localhost" or _is_loopback(host):
        return ""
    exceptions = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    if any(
        _excepts(exception.strip().lower(), host, url.port) for exception in exceptions.split(",") if exception.strip()
    ):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return address is not None and address.is_loopback


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _excepts(rule: str, host: str, port: int) -> bool:
    """Whether one entry of ``NO_PROXY`` is about `host`: ``*``, a network, an address, a domain; maybe with a port."""
    if rule == "*":
        return True
    address = _address(host)
    try:
        network = ipaddress.ip_network(rule, strict=False)
    except ValueError:
        pass
    else:
        return address is not None and address in network
    name, separator, number = rule.rpartition(":")
    if separator and number.isdigit():
        if int(number) != port:
            return False
        rule = name.strip("[]")
    if address is not None:
        return _address(rule) == address
    rule = rule.removeprefix("*")
    return host.endswith(rule) if rule.startswith(".") else host == rule or host.endswith(f".{rule}")
