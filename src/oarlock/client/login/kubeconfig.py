"""`ClientConfig`: where a server is, and who asks it. Made of a kubeconfig as kubectl does, or of a pod's files.

Several files of ``KUBECONFIG`` are merged; the first that says something counts. Paths in a file are relative to it.
Which proxy leads to a server, the environment says.
See also: `credentials`. Source: client-go ``tools/clientcmd``, ``rest.InClusterConfig``; Go's ``net/http/httpproxy``.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import os
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from oarlock.codec import yaml
from oarlock.codec.errors import DecodeError
from oarlock.meta.context import User
from oarlock.meta.dataclass import dataclass
from oarlock.meta.json_trees import Tree
from oarlock.net.url import Url, UrlError, parse_url

EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
"""What is spoken with exec plugins; the first unless a plugin wants another."""


class ClientConfigError(ValueError):
    """A client's configuration can't be used. The text names the file, the field and what to do."""


SOCKS = ("socks5", "socks5h")
"""The schemes of proxies of SOCKS5. Names are looked up by the proxy with either."""


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


MAX_BYTES = 8 * 1024 * 1024
_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_SECTIONS = {"clusters": "cluster", "users": "user", "contexts": "context"}


def load_config(kubeconfig: str | Path | None = None, *, context: str = "") -> ClientConfig:
    """The configuration that kubectl would use.

    It is the first of: `kubeconfig`, ``KUBECONFIG``, a pod's service account, ``~/.kube/config``. `context` selects a
    context, by default the current one. Raises ClientConfigError.
    """
    in_pod = "KUBERNETES_SERVICE_HOST" in os.environ and (_SERVICE_ACCOUNT / "token").exists()
    if kubeconfig is None and not os.environ.get("KUBECONFIG") and in_pod:
        return in_cluster_config()
    return load_kubeconfig(kubeconfig, context=context)


def in_cluster_config(folder: Path = _SERVICE_ACCOUNT, environment: Mapping[str, str] | None = None) -> ClientConfig:
    """The configuration of the pod's service account. Raises ClientConfigError outside of a pod."""
    environment = os.environ if environment is None else environment
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
    token = folder / "token"
    if not host or not port or not token.exists():
        raise ClientConfigError(f"this isn't a pod: KUBERNETES_SERVICE_HOST or {token} is missing: name a kubeconfig")
    server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    if not _is_url(server):
        raise ClientConfigError(f"KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT make no URL: {server!r}")
    try:
        namespace = (folder / "namespace").read_text().strip()
    except (OSError, UnicodeDecodeError):
        namespace = "default"
    proxy_url = environment_proxy(server, environment)
    return ClientConfig(server, ca_file=folder / "ca.crt", token_file=token, namespace=namespace, proxy_url=proxy_url)


def load_kubeconfig(path: str | Path | None = None, *, context: str = "") -> ClientConfig:
    """A context of a kubeconfig, the current one unless named. Raises ClientConfigError."""
    merged = _merged(_files(path))
    name = context or merged.current
    if not name:
        raise ClientConfigError(f"{merged}: it has no current-context: name one with context=…")
    chosen = merged.section("contexts", name)
    cluster = merged.section("clusters", chosen.text("cluster"))
    user_name = chosen.text("user")
    user = merged.section("users", user_name) if user_name else _Section({}, Path(), "")
    return _config(cluster, user, chosen.text("namespace") or "default")


@dataclass(frozen=True, slots=True)
class KubeconfigUsers:
    """The users of a kubeconfig, each as a configuration without a server; `current` is that of the current context."""

    users: Mapping[str, ClientConfig]
    current: str = ""


def load_users(path: Path) -> KubeconfigUsers:
    """All users of a kubeconfig. Raises ClientConfigError."""
    merged = _merged([path])
    users = {name: ClientConfig("", **_credentials(user)) for name, user in merged.sections["users"].items()}
    context = merged.sections["contexts"].get(merged.current)
    return KubeconfigUsers(users, "" if context is None else context.text("user"))


class _Section(dict[str, Any]):
    """A mapping of a kubeconfig, with its file and its place there. What has a wrong type is an error."""

    def __init__(self, tree: Tree, file: Path, place: str) -> None:
        super().__init__(tree)
        self.file = file
        self.place = place

    def wrong(self, key: str, why: str) -> ClientConfigError:
        return ClientConfigError(f"{self.file}: {self.place}{key}{why}")

    def text(self, key: str) -> str:
        value = self.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.wrong(key, f" is a {type(value).__name__}, not a string")
        if not value.isprintable():
            raise self.wrong(key, " has a line break or another control character in it")
        return value

    def flag(self, key: str) -> bool:
        value = self.get(key)
        if not isinstance(value, bool | None):
            raise self.wrong(key, " is true or false")
        return bool(value)

    def items_of(self, key: str) -> list[Any]:
        value = self.get(key)
        if not isinstance(value, list | None):
            raise self.wrong(key, " is a list")
        return value or []

    def texts(self, key: str) -> tuple[str, ...]:
        values = self.items_of(key)
        if not all(isinstance(value, str) for value in values):
            raise self.wrong(key, " is a list of strings")
        return tuple(values)

    def section(self, key: str) -> _Section | None:
        value = self.get(key)
        if not isinstance(value, dict | None):
            raise self.wrong(key, " is a mapping")
        return None if value is None else _Section(value, self.file, f"{self.place}{key}.")

    def path(self, key: str) -> Path | None:
        value = self.text(key)
        return self.file.parent / value if value else None

    def data(self, key: str) -> bytes:
        value = self.get(key)
        if not isinstance(value, str | None):
            raise self.wrong(key, " isn't base64")
        try:
            return base64.b64decode("".join((value or "").split()), validate=True)
        except (binascii.Error, ValueError):
            raise self.wrong(key, " isn't base64") from None


def _files(path: str | Path | None) -> Sequence[Path]:
    if path is not None:
        return [Path(path).expanduser()]
    listed = [Path(path) for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    # As kubectl: of several files, those that aren't there are left out.
    return [path for path in listed if path.exists() or len(listed) == 1] or [Path.home() / ".kube" / "config"]


class _Kubeconfig:
    """What the files say together."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.current = ""
        self.sections: dict[str, dict[str, _Section]] = {plural: {} for plural in _SECTIONS}
        self._files = files

    def __str__(self) -> str:
        return ", ".join(map(str, self._files))

    def section(self, plural: str, name: str) -> _Section:
        section = self.sections[plural].get(name)
        if section is None:
            known = ", ".join(sorted(self.sections[plural])) or "none"
            raise ClientConfigError(f"{self}: it has no {_SECTIONS[plural]} {name!r}: write one of {known}")
        return section


def _merged(files: Sequence[Path]) -> _Kubeconfig:
    merged = _Kubeconfig(files)
    for file in files:
        tree = _read(file)
        merged.current = merged.current or tree.text("current-context")
        for plural, singular in _SECTIONS.items():
            for item in tree.items_of(plural):
                name = item.get("name") if isinstance(item, dict) else None
                section = (item.get(singular) or {}) if isinstance(item, dict) else None
                if not isinstance(name, str) or not isinstance(section, dict):
                    raise ClientConfigError(f"{file}: {plural}: each is a mapping with name and {singular}")
                merged.sections[plural].setdefault(name, _Section(section, file, f"{singular} {name!r}: "))
    return merged


def _read(file: Path) -> _Section:
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_BYTES + 1)
    except OSError as error:
        raise ClientConfigError(f"cannot read the kubeconfig {file}: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise ClientConfigError(f"{file}: a kubeconfig has at most {MAX_BYTES} bytes")
    try:
        tree, _ = yaml.decode(data)
    except DecodeError as error:
        raise ClientConfigError(f"{file}: {error}") from None
    if tree is not None and not isinstance(tree, dict):
        raise ClientConfigError(f"{file}: this isn't a kubeconfig")
    return _Section(tree or {}, file, "")


def _config(cluster: _Section, user: _Section, namespace: str) -> ClientConfig:
    server = cluster.text("server")
    if not _is_url(server):
        raise cluster.wrong("server", f": {server!r} isn't the URL of a server, such as https://127.0.0.1:6443")
    proxy_url = cluster.text("proxy-url")
    if proxy_url and not _is_proxy(proxy_url):
        raise cluster.wrong(
            "proxy-url", " must be a URL that begins with http://, https:// or socks5://"
        )  # it may have a password
    return ClientConfig(
        server=server,
        ca_file=cluster.path("certificate-authority"),
        ca_data=cluster.data("certificate-authority-data"),
        insecure=cluster.flag("insecure-skip-tls-verify"),
        tls_server_name=cluster.text("tls-server-name"),
        proxy_url=proxy_url or environment_proxy(server, os.environ),
        namespace=namespace,
        **_credentials(user),
    )


def _credentials(user: _Section) -> dict[str, Any]:
    """The fields of a `ClientConfig` that a user has."""
    return {
        "cert_file": user.path("client-certificate"),
        "cert_data": user.data("client-certificate-data"),
        "key_file": user.path("client-key"),
        "key_data": user.data("client-key-data"),
        "token": user.text("token"),
        "token_file": user.path("tokenFile"),
        "username": user.text("username"),
        "password": user.text("password"),
        "exec_plugin": _exec(user),
        "oidc": _oidc(user),
        "user": _impersonated(user),
    }


def _is_url(text: str) -> bool:
    """Whether this is the URL of a server."""
    try:
        return parse_url(text).callable
    except UrlError:
        return False


def _is_proxy(text: str) -> bool:
    """Whether this is the URL of a proxy."""
    if text.partition("://")[0].lower() not in SOCKS:
        return _is_url(text)
    try:
        return bool(parse_url(text).hostname)
    except UrlError:
        return False


def _impersonated(user: _Section) -> User | None:
    name = user.text("as")
    groups, uid, extra = user.texts("as-groups"), user.text("as-uid"), user.section("as-user-extra")
    if not name and (groups or uid or extra):
        raise user.wrong("as", " is missing, but as-groups, as-uid or as-user-extra is set")
    return User(name, uid, groups, {key: extra.texts(key) for key in extra or ()} if extra else {}) if name else None


def _exec(user: _Section) -> ExecPlugin | None:
    section = user.section("exec")
    if section is None:
        return None
    command = section.text("command")
    if not command:
        raise section.wrong("command", " is missing")
    if os.sep in command:
        command = str(user.file.parent / command)
    api_version = section.text("apiVersion") or EXEC_VERSIONS[0]
    if api_version not in EXEC_VERSIONS:
        raise section.wrong("apiVersion", f": {api_version!r} isn't known: {' or '.join(EXEC_VERSIONS)} is")
    if section.text("interactiveMode") == "Always":
        raise section.wrong("interactiveMode", ": a plugin that always requires a terminal can't be used here")
    environment = [
        _Section(variable, user.file, f"{section.place}env: ")
        for variable in section.items_of("env")
        if _is_map(variable)
    ]
    if len(environment) != len(section.items_of("env")):
        raise section.wrong("env", " is a list of mappings with name and value")
    return ExecPlugin(
        command,
        section.texts("args"),
        {variable.text("name"): variable.text("value") for variable in environment},
        api_version,
        section.text("installHint"),
        section.flag("provideClusterInfo"),
    )


def _is_map(value: Any) -> bool:
    return isinstance(value, dict)


def _oidc(user: _Section) -> OIDCProvider | None:
    provider = user.section("auth-provider")
    if provider is None:
        return None
    if provider.text("name") != "oidc":
        raise provider.wrong("name", f": {provider.text('name')!r} isn't supported any more: use an exec plugin")
    config = provider.section("config") or _Section({}, user.file, f"{provider.place}config.")
    issuer, client_id = config.text("idp-issuer-url"), config.text("client-id")
    if not _is_url(issuer):
        raise config.wrong("idp-issuer-url", f": {issuer!r} isn't a URL")
    if not client_id:
        raise config.wrong("client-id", " is missing")
    return OIDCProvider(
        issuer,
        client_id,
        config.text("client-secret"),
        config.text("id-token"),
        config.text("refresh-token"),
        config.path("idp-certificate-authority"),
        config.data("idp-certificate-authority-data"),
    )
