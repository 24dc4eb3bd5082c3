"""The kubeconfig that a server writes for its clients. What else is in the file stays: see `kubeconfig_merge`."""

from __future__ import annotations

import base64
from pathlib import Path

from oarlock.meta.dataclass import dataclass
from oarlock.server.files.credentials import BadFile, locked, write_file


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
