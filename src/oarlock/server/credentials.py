"""Credentials of a server: token file, client CA, generated admin token; and the kubeconfig for clients.

Anonymous access is never allowed, so a server without credentials generates a token, readable by its owner only, and
keeps it in the data directory.
Must not know: requests. See also: ``policy.authn``.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from oarlock.meta.context import Clock, User
from oarlock.policy.authn.authenticator import Authenticator, Union
from oarlock.policy.authn.certificates import CertificateBundleError, ClientCertificates, load_bundle
from oarlock.policy.authn.token_file import TokenFile, TokenFileError, parse_token_file
from oarlock.server.config import ServerConfig
from oarlock.server.files import locked, write_file
from oarlock.server.reloaded_files import ReloadedFiles

__all__ = ["BadFile", "Kubeconfig", "ServerCredentials", "credentials_of", "trusted_by_clients", "write_kubeconfig"]

ADMIN = User("admin", uid="admin", groups=("system:masters",))
TOKEN_BYTES = 32


class BadFile(Exception):
    """A file given by the user can't be read or written. The text names it and says why."""


@dataclass(frozen=True, slots=True)
class ServerCredentials:
    """The authenticator, and a token: an administrator's, or the first in the token file.

    `files` are the files the authenticator was made of; when they change, it is updated.
    """

    authenticator: Authenticator
    token: str
    user: str
    files: tuple[ReloadedFiles, ...] = ()


def credentials_of(config: ServerConfig, clock: Clock) -> ServerCredentials:
    """Load or generate the credentials for `config`. Raises `BadFile`, `TokenFileError`, `CertificateBundleError`."""
    tokens = _tokens(config)  # generates the admin's if there is none yet
    sources: list[tuple[Path, Callable[[], Authenticator]]] = []
    if config.client_ca_file is not None:
        sources.append((config.client_ca_file, partial(_client_certificates, config.client_ca_file, clock)))
    sources.append((config.token_auth_file or config.admin_token, lambda: TokenFile(_tokens(config))))

    def reload(position: int) -> None:
        union.exchange(position, sources[position][1]())

    refusals = (BadFile, TokenFileError, CertificateBundleError)
    files = tuple(ReloadedFiles([file], partial(reload, i), refusals) for i, (file, _) in enumerate(sources))
    union = Union([make() for _, make in sources])
    first = next((one for one in tokens if "system:masters" in one[1].groups), tokens[0] if tokens else ("", ADMIN))
    return ServerCredentials(union, first[0], first[1].name, files)


def _client_certificates(file: Path, clock: Clock) -> Authenticator:
    return ClientCertificates(load_bundle(_read(file), str(file)), clock)


def _tokens(config: ServerConfig) -> list[tuple[str, User]]:
    file = config.token_auth_file
    if file is None:
        return [(_admin_token(config.admin_token), ADMIN)]
    tokens = parse_token_file(_read(file), str(file))
    if not tokens and config.client_ca_file is None:
        raise BadFile(f"{file}: it holds no token, so nobody would be let in; write one, or give a --client-ca-file")
    return tokens


def _admin_token(file: Path) -> str:
    """The token in `file`, generated if there is none. All servers that start at once get the same."""
    try:
        token = _token_in(file)
        if token is None:
            with locked(file.parent):
                token = _token_in(file)
                if token is None:
                    token = secrets.token_urlsafe(TOKEN_BYTES)
                    write_file(file, f"{token}\n".encode(), 0o600)
    except OSError as error:
        raise BadFile(f"{file}: {error.strerror}") from error
    return token


def _token_in(file: Path) -> str | None:
    """The token in `file`, None if there is no such file."""
    try:
        token = file.read_text("ascii").strip()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        token = ""
    if len(token) < TOKEN_BYTES or not token.isprintable() or " " in token:
        raise BadFile(f"{file}: it holds no token; remove it, and a new one will be made")
    if file.stat().st_mode & 0o077:
        file.chmod(0o600)
    return token


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """The content of a kubeconfig. `ca` is PEM, None if the certificate is signed by one of the system's CAs."""

    url: str
    ca: bytes | None
    user: str
    token: str
    name: str = "oarlock"


def write_kubeconfig(file: Path, kubeconfig: Kubeconfig) -> None:
    """Write a kubeconfig, readable by its owner only. Raises `BadFile`."""
    cluster = {"server": kubeconfig.url}
    if kubeconfig.ca is not None:
        cluster["certificate-authority-data"] = base64.b64encode(kubeconfig.ca).decode()
    name, user = kubeconfig.name, f"{kubeconfig.user}@{kubeconfig.name}"
    tree = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": user, "user": {"token": kubeconfig.token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user, "namespace": "default"}}],
        "current-context": name,
    }
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with locked(file.parent):
            write_file(file, yaml.safe_dump(tree, sort_keys=False).encode(), 0o600)
    except OSError as error:
        raise BadFile(f"{file}: {error.strerror}") from error


def trusted_by_clients(certificate: Path) -> bytes | None:
    """The certificate in a serving certificate's file that clients must trust, in PEM: its root if it has one."""
    last = load_bundle(_read(certificate), str(certificate))[-1]
    return last.public_bytes(Encoding.PEM) if _is_root(last) else None


def _is_root(certificate: x509.Certificate) -> bool:
    return certificate.issuer == certificate.subject


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise BadFile(f"{file}: {error.strerror}") from error
