"""The data directory, with what a server generates and needs again at its next start; and its kubeconfig for clients.

    NAME.token        the admin's token (`credentials`)
    NAME.service-accounts.key   signs tokens of service accounts (`token_keys`)
    NAME.kubeconfig   written anew at every start; other entries in it stay (`kubeconfig_merge`)
    NAME.seen         what was seen of the store (`store_mark`)
    pki/              the certificates (``serving.certificates``)

By default it is the folder of the SQLite file. With ``--data-dir`` it is another one, and the token and the
certificates that earlier starts left beside the file are copied into it, so clients notice nothing. They are not moved:
a server that was started without the option, and shares the store, goes on with them. Nothing lies beside a store in
memory: the files of the working directory are another server's.
See also: `config` for the names.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from oarlock.meta.dataclass import dataclass
from oarlock.server.config import ServerConfig
from oarlock.server.files.credentials import BadFile, locked, write_file

log = logging.getLogger("oarlock.server")

_PAIRS = (("ca.key", "ca.crt"), ("tls.key", "tls.crt"))
"""Each key before its certificate: a copy that breaks off after the key is made again at the next start."""


def prepare_data_directory(config: ServerConfig) -> None:
    """Create the data directory, and copy what was left beside the store. Does nothing if no file will be in it.

    A new directory is its owner's only. Raises `BadFile`.
    """
    token, certificates = config.token_auth_file is None, config.cert_dir is None and config.tls_cert_file is None
    keys = bool(config.service_account_issuer) and config.service_account_signing_key_file is None
    if not (token or certificates or keys):
        return
    directory = config.data_directory
    with _as_bad_file(directory):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if directory.stat().st_mode & 0o002:
            log.warning(
                "--data-dir=%s: all users may write in this directory and so become admin: chmod o-w", directory
            )
    if config.data_dir is None or config.in_memory:
        return
    earlier = config.default_data_directory
    if token:
        _copy(earlier, directory, [config.admin_token.name])
    if keys:
        _copy(earlier, directory, [config.service_account_key.name])
    if certificates:
        for pair in _PAIRS:
            _copy(earlier / "pki", directory / "pki", pair)


def _copy(source: Path, target: Path, names: Sequence[str]) -> None:
    """Copy the files `names` unless the last of them is in `target` or not in `source`."""
    if (target / names[-1]).exists() or not (source / names[-1]).exists():
        return
    with _as_bad_file(source), locked(source):
        contents = {name: (source / name).read_bytes() for name in names}
    with _as_bad_file(target):
        target.mkdir(mode=0o700, exist_ok=True)
        with locked(target):
            if (target / names[-1]).exists():
                return  # another server was faster
            for name, content in contents.items():
                write_file(target / name, content, 0o644 if name.endswith(".crt") else 0o600)
    log.warning("%s: copied to %s", " and ".join(str(source / name) for name in names), target)


@contextmanager
def _as_bad_file(directory: Path) -> Iterator[None]:
    """Turn an OSError into `BadFile`."""
    try:
        yield
    except FileExistsError as error:
        raise BadFile(f"{error.filename or directory}: it isn't a directory") from error
    except OSError as error:
        raise BadFile(f"{error.filename or directory}: {error.strerror or error}") from error


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """The content of a kubeconfig. `ca` is PEM, None if the certificate is signed by one of the system's CAs."""

    url: str
    ca: bytes | None
    user: str
    token: str
    name: str = "oarlock"

    def text(self) -> bytes:
        """All of it in YAML."""
        name, user = _quoted(self.name), _quoted(f"{self.user}@{self.name}")
        ca = "" if self.ca is None else base64.b64encode(self.ca).decode()
        lines = (
            "apiVersion: v1",
            "kind: Config",
            "clusters:",
            f"- name: {name}",
            "  cluster:",
            f"    server: {_quoted(self.url)}",
            *((f"    certificate-authority-data: {ca}",) if ca else ()),
            "users:",
            f"- name: {user}",
            "  user:",
            f"    token: {_quoted(self.token)}",
            "contexts:",
            f"- name: {name}",
            "  context:",
            f"    cluster: {name}",
            f"    user: {user}",
            "    namespace: default",
            f"current-context: {name}",
        )
        return "\n".join(lines).encode() + b"\n"


_VALUES = (b"    server", b"    certificate-authority-data", b"    token")


def _same_entries(first: bytes, other: bytes) -> bool:
    """Whether two kubeconfigs of `Kubeconfig.text` differ at most in where the server is, and its credentials."""
    lines, others = first.splitlines(), other.splitlines()
    return len(lines) == len(others) and all(
        line == another or (line.partition(b": ")[0] == another.partition(b": ")[0] in _VALUES)
        for line, another in zip(lines, others, strict=True)
    )


def _quoted(text: str) -> str:
    """A text as YAML has it in double quotes (YAML 1.2 §7.3.1)."""
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    plain = " " <= character <= "~" and character not in ('"', "\\")
    return character if plain else f"\\U{ord(character):08x}"


def write_kubeconfig(file: Path, kubeconfig: Kubeconfig) -> bool:
    """Write a kubeconfig, readable by its owner only; what else is in the file stays. Raises `BadFile`.

    Returns whether it is the current context: that of a user who has others isn't changed.
    """
    text, current = kubeconfig.text(), True
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with locked(file.parent):
            present = file.read_bytes() if file.exists() else text
            if not _same_entries(present, text):
                # Imported here, because it needs YAML, and the file is most often this server's alone.
                from oarlock.server.files.kubeconfig_merge import merged  # noqa: PLC0415 (see above)

                text, current = merged(file, present, text)
            write_file(file, text, 0o600)
    except OSError as error:
        raise BadFile(f"{file}: {error.strerror}") from error
    return current
