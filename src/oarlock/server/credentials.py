"""Static tokens of a server: those of a file, or one that it makes for its administrator; the kubeconfig for clients.

A server that no tokens are given to generates one, readable by its owner only, and keeps it in the data directory.
Must not know: requests. See also: `identities`.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from oarlock.meta.context import User
from oarlock.meta.dataclass import dataclass
from oarlock.policy.authn.certificates import load_bundle
from oarlock.policy.authn.token_file import parse_token_file
from oarlock.server.config import ServerConfig
from oarlock.server.files import locked, write_file

__all__ = ["BadFile", "Kubeconfig", "first_token", "read_file", "tokens_of", "trusted_by_clients", "write_kubeconfig"]

_NO_KUBECONFIG = "it is no kubeconfig, and isn't overwritten; move it away, or give another --write-kubeconfig"
ADMIN = User("admin", uid="admin", groups=("system:masters",))
TOKEN_BYTES = 32


class BadFile(Exception):
    """A file given by the user can't be read or written. The text names it and says why."""


def first_token(tokens: Sequence[tuple[str, User]]) -> tuple[str, User]:
    """An administrator's token if there is one, else the first."""
    return next((one for one in tokens if "system:masters" in one[1].groups), tokens[0] if tokens else ("", ADMIN))


def tokens_of(config: ServerConfig) -> list[tuple[str, User]]:
    """The static tokens of a server: those of its file, or the administrator's, made if there is none yet.

    Raises `BadFile`, `TokenFileError`.
    """
    file = config.token_auth_file
    if file is None:
        return [(_admin_token(config.admin_token), ADMIN)]
    tokens = parse_token_file(read_file(file), str(file))
    if not tokens and config.client_ca_file is None and config.authentication_kubeconfig is None:
        raise BadFile(
            f"{file}: it holds no token, so nobody would be let in; write one, or give a "
            "--client-ca-file or --authentication-kubeconfig"
        )
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


def write_kubeconfig(file: Path, kubeconfig: Kubeconfig) -> bool:
    """Write a kubeconfig, readable by its owner only; what else is in the file stays. Raises `BadFile`.

    Returns whether it is the current context: that of a user who has others isn't changed.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with locked(file.parent):
            tree = _kubeconfig_in(file)
            current = tree.get("current-context")
            added = _kubeconfig_tree(kubeconfig)
            for part in ("clusters", "users", "contexts"):
                name = added[part][0]["name"]
                tree[part] = [*(one for one in tree.get(part) or () if one.get("name") != name), *added[part]]
            if current not in [one.get("name") for one in tree["contexts"]]:
                tree["current-context"] = kubeconfig.name
            write_file(file, yaml.safe_dump(tree, sort_keys=False).encode(), 0o600)
    except OSError as error:
        raise BadFile(f"{file}: {error.strerror}") from error
    return bool(tree["current-context"] == kubeconfig.name)


def _kubeconfig_in(file: Path) -> dict[str, Any]:
    """The kubeconfig that is there; an empty one if there is none."""
    try:
        tree = yaml.safe_load(file.read_bytes())
    except FileNotFoundError:
        tree = None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise BadFile(f"{file}: {_NO_KUBECONFIG}") from None
    tree = {"apiVersion": "v1", "kind": "Config"} if tree is None else tree
    if not isinstance(tree, dict) or tree.get("kind", "Config") != "Config":
        raise BadFile(f"{file}: {_NO_KUBECONFIG}")
    for part in ("clusters", "users", "contexts"):
        entries = tree.get(part) or []
        if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
            raise BadFile(f"{file}: {_NO_KUBECONFIG}")
    return tree


def _kubeconfig_tree(kubeconfig: Kubeconfig) -> dict[str, Any]:
    cluster = {"server": kubeconfig.url}
    if kubeconfig.ca is not None:
        cluster["certificate-authority-data"] = base64.b64encode(kubeconfig.ca).decode()
    name, user = kubeconfig.name, f"{kubeconfig.user}@{kubeconfig.name}"
    return {
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": user, "user": {"token": kubeconfig.token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user, "namespace": "default"}}],
    }


def trusted_by_clients(certificate: Path) -> bytes | None:
    """The certificate in a serving certificate's file that clients must trust, in PEM: its root if it has one."""
    last = load_bundle(read_file(certificate), str(certificate))[-1]
    return last.public_bytes(Encoding.PEM) if _is_root(last) else None


def _is_root(certificate: x509.Certificate) -> bool:
    return certificate.issuer == certificate.subject


def read_file(file: Path) -> bytes:
    """The content of a file that the user named. Raises `BadFile`."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise BadFile(f"{file}: {error.strerror}") from error
