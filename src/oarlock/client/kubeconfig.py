"""Loads a kubeconfig as kubectl does, or a pod's service account.

Several files of ``KUBECONFIG`` are merged; the first that says something counts. Paths in a file are relative to it.
Source: client-go ``tools/clientcmd``, ``rest.InClusterConfig``.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from oarlock.client.config import ClientConfig, ClientConfigError, ExecPlugin, OIDCProvider
from oarlock.codec import yaml
from oarlock.codec.errors import DecodeError
from oarlock.meta.context import User

__all__ = ["in_cluster_config", "load_config", "load_kubeconfig"]

MAX_BYTES = 8 * 1024 * 1024
_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

_Tree = dict[str, Any]


def load_config(kubeconfig: str | Path | None = None, *, context: str = "") -> ClientConfig:
    """The kubeconfig that is named, or ``KUBECONFIG``, or the pod's service account, or ``~/.kube/config``.

    Raises ClientConfigError.
    """
    in_pod = "KUBERNETES_SERVICE_HOST" in os.environ and (_SERVICE_ACCOUNT / "token").exists()
    if kubeconfig is None and not os.environ.get("KUBECONFIG") and in_pod:
        return in_cluster_config()
    return load_kubeconfig(kubeconfig, context=context)


def in_cluster_config(folder: Path = _SERVICE_ACCOUNT, environment: Mapping[str, str] | None = None) -> ClientConfig:
    """The service account of the pod that this runs in. Raises ClientConfigError outside of one."""
    environment = os.environ if environment is None else environment
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
    token = folder / "token"
    if not host or not port or not token.exists():
        raise ClientConfigError(
            f"this isn't a pod: there is no KUBERNETES_SERVICE_HOST, or no {token}; name a kubeconfig"
        )
    namespace = folder / "namespace"
    return ClientConfig(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        ca_file=folder / "ca.crt",
        token_file=token,
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
    )


def load_kubeconfig(path: str | Path | None = None, *, context: str = "") -> ClientConfig:
    """A context of a kubeconfig, the current one unless named. Raises ClientConfigError."""
    merged = _merged(_files(path))
    name = context or _text(merged.get("current-context"))
    if not name:
        raise ClientConfigError(f"{_names(merged)}: there is no current-context; name one with context=…")
    chosen = _named(merged, "contexts", name, "context")
    cluster = _named(merged, "clusters", _text(chosen.get("cluster")), "cluster")
    user_name = _text(chosen.get("user"))
    user = _named(merged, "users", user_name, "user") if user_name else _Section({}, Path())
    return _config(cluster, user, _text(chosen.get("namespace")) or "default")


class _Section(dict[str, Any]):
    """A cluster, user or context, with the file that it is from."""

    def __init__(self, tree: _Tree, file: Path) -> None:
        super().__init__(tree)
        self.file = file

    def path(self, key: str) -> Path | None:
        value = _text(self.get(key))
        return self.file.parent / value if value else None

    def data(self, key: str) -> bytes:
        value = _text(self.get(key))
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise ClientConfigError(f"{self.file}: {key} isn't base64") from None


def _files(path: str | Path | None) -> Sequence[Path]:
    if path is not None:
        return [Path(path).expanduser()]
    listed = [Path(one) for one in os.environ.get("KUBECONFIG", "").split(os.pathsep) if one]
    # As kubectl: of several files, those that aren't there are left out.
    return [one for one in listed if one.exists() or len(listed) == 1] or [Path.home() / ".kube" / "config"]


def _merged(files: Sequence[Path]) -> _Tree:
    merged: _Tree = {"files": files, "clusters": {}, "users": {}, "contexts": {}}
    for file in files:
        tree = _read(file)
        if _text(tree.get("current-context")):
            merged.setdefault("current-context", tree["current-context"])
        for plural, singular in (("clusters", "cluster"), ("users", "user"), ("contexts", "context")):
            for item in tree.get(plural) or ():
                if not isinstance(item, dict) or not isinstance(item.get(singular) or {}, dict):
                    raise ClientConfigError(f"{file}: {plural}: each is a mapping with name and {singular}")
                merged[plural].setdefault(item.get("name"), _Section(item.get(singular) or {}, file))
    return merged


def _read(file: Path) -> _Tree:
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
        raise ClientConfigError(f"{file}: this is no kubeconfig")
    for plural in ("clusters", "users", "contexts"):
        if not isinstance((tree or {}).get(plural) or [], list):
            raise ClientConfigError(f"{file}: {plural} is a list")
    return tree or {}


def _named(merged: _Tree, plural: str, name: str, singular: str) -> _Section:
    section: _Section | None = merged[plural].get(name)
    if section is None:
        known = ", ".join(str(one) for one in merged[plural]) or "none"
        raise ClientConfigError(f"{_names(merged)}: there is no {singular} {name!r}; there is: {known}")
    return section


def _names(merged: _Tree) -> str:
    return ", ".join(map(str, merged["files"]))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _config(cluster: _Section, user: _Section, namespace: str) -> ClientConfig:
    server = _text(cluster.get("server"))
    if not server.startswith(("http://", "https://")):
        raise ClientConfigError(f"{cluster.file}: server: {server!r} is no URL of a server")
    as_user = _text(user.get("as"))
    groups = tuple(one for one in user.get("as-groups") or () if isinstance(one, str))
    return ClientConfig(
        server=server,
        ca_file=cluster.path("certificate-authority"),
        ca_data=cluster.data("certificate-authority-data"),
        insecure=cluster.get("insecure-skip-tls-verify") is True,
        tls_server_name=_text(cluster.get("tls-server-name")),
        proxy_url=_text(cluster.get("proxy-url")),
        cert_file=user.path("client-certificate"),
        cert_data=user.data("client-certificate-data"),
        key_file=user.path("client-key"),
        key_data=user.data("client-key-data"),
        token=_text(user.get("token")),
        token_file=user.path("tokenFile"),
        username=_text(user.get("username")),
        password=_text(user.get("password")),
        exec_plugin=_exec(user),
        oidc=_oidc(user),
        user=User(as_user, _text(user.get("as-uid")), groups) if as_user else None,
        namespace=namespace,
    )


def _exec(user: _Section) -> ExecPlugin | None:
    tree = user.get("exec")
    if not isinstance(tree, dict):
        return None
    command = _text(tree.get("command"))
    if not command:
        raise ClientConfigError(f"{user.file}: exec: command is missing")
    if os.sep in command:
        command = str(user.file.parent / command)
    return ExecPlugin(
        command,
        tuple(map(str, tree.get("args") or ())),
        {_text(one.get("name")): _text(one.get("value")) for one in tree.get("env") or () if isinstance(one, dict)},
        _text(tree.get("apiVersion")) or "client.authentication.k8s.io/v1",
        _text(tree.get("installHint")),
        tree.get("provideClusterInfo") is True,
        _text(tree.get("interactiveMode")) or "IfAvailable",
    )


def _oidc(user: _Section) -> OIDCProvider | None:
    provider = user.get("auth-provider")
    if not isinstance(provider, dict):
        return None
    if provider.get("name") != "oidc":
        name = _text(provider.get("name"))
        raise ClientConfigError(f"{user.file}: auth-provider {name!r} isn't known any more: use an exec plugin")
    tree = _Section(provider.get("config") or {}, user.file)
    return OIDCProvider(
        _text(tree.get("idp-issuer-url")),
        _text(tree.get("client-id")),
        _text(tree.get("client-secret")),
        _text(tree.get("id-token")),
        _text(tree.get("refresh-token")),
        tree.path("idp-certificate-authority"),
        tree.data("idp-certificate-authority-data"),
    )
