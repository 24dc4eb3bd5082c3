"""Who is let in, and the kubeconfig that lets you in: token files, client authorities, the generated admin token.

Nobody is let in without a credential, so a server that is given none makes one, readable by its owner only,
and keeps it beside the store for the next start. Must not know: requests. Next: ``policy.authn``.
"""

from __future__ import annotations

import base64
import contextlib
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from oarlock.meta.context import Clock, User
from oarlock.policy.authn.authenticator import Authenticator, Union
from oarlock.policy.authn.certificates import ClientCertificates, load_bundle
from oarlock.policy.authn.token_file import Tokens, parse_token_file
from oarlock.server.config import ServerConfig

__all__ = ["BadFile", "Credentials", "Kubeconfig", "credentials_of", "trusted_by_clients", "write_kubeconfig"]

ADMIN = User("admin", uid="admin", groups=("system:masters",))
TOKEN_BYTES = 32


class BadFile(Exception):
    """A file that was named can't be read or written. The text names it and says why."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """How clients are known, and a token of somebody who may do everything, or of the first there is."""

    authenticator: Authenticator
    token: str
    user: str


def credentials_of(config: ServerConfig, clock: Clock) -> Credentials:
    """Read or make what `config` says. Raises `BadFile`, `TokenFileError`, `CertificateBundleError`."""
    ways: list[Authenticator] = []
    if config.client_ca_file is not None:
        ways.append(ClientCertificates(load_bundle(_read(config.client_ca_file), str(config.client_ca_file)), clock))
    if config.token_auth_file is not None:
        tokens = parse_token_file(_read(config.token_auth_file), str(config.token_auth_file))
        if not tokens and config.client_ca_file is None:
            why = "it holds no token, so nobody would be let in; write one, or give a --client-ca-file"
            raise BadFile(f"{config.token_auth_file}: {why}")
    else:
        tokens = [(_kept_token(config.admin_token), ADMIN)]
    ways.append(Tokens(tokens))
    shown = next((one for one in tokens if "system:masters" in one[1].groups), tokens[0] if tokens else ("", ADMIN))
    return Credentials(Union(ways), shown[0], shown[1].name)


def _kept_token(file: Path) -> str:
    """The token in `file`, made when there is none."""
    try:
        token = file.read_text("ascii").strip()
        if len(token) < TOKEN_BYTES or not token.isprintable() or " " in token:
            raise BadFile(f"{file}: it holds no token; remove it, and a new one will be made")
        if file.stat().st_mode & 0o077:
            file.chmod(0o600)
        return token
    except FileNotFoundError:
        token = secrets.token_urlsafe(TOKEN_BYTES)
        _write(file, token + "\n")
        return token
    except OSError as error:
        raise BadFile(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise BadFile(f"{file}: it holds no token; remove it, and a new one will be made") from None


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """What a client needs to know. `ca` is PEM, None when the system's authorities vouch for the server."""

    url: str
    ca: bytes | None
    user: str
    token: str
    name: str = "oarlock"


def write_kubeconfig(file: Path, kubeconfig: Kubeconfig) -> None:
    """Write a file that kubectl can use as it is, readable by its owner only. Raises `BadFile`."""
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
    _write(file, yaml.safe_dump(tree, sort_keys=False))


def trusted_by_clients(certificate: Path) -> bytes | None:
    """Which certificate of a serving certificate's file clients must trust: its root when it has one, in PEM."""
    last = load_bundle(_read(certificate), str(certificate))[-1]
    return last.public_bytes(Encoding.PEM) if _is_root(last) else None


def _is_root(certificate: x509.Certificate) -> bool:
    return certificate.issuer == certificate.subject


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise BadFile(f"{file}: {error.strerror}") from error


def _write(file: Path, text: str) -> None:
    """Put a whole file in place of the old one; others never see its content."""
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            out.write(text)
        os.replace(temporary, file)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise BadFile(f"{file}: {error.strerror}") from error
