"""A certificate with its key and the names it is for, as ``--tls-sni-cert-key`` has it. See also: `sni`."""

from __future__ import annotations

from pathlib import Path

from oarlock.meta.dataclass import dataclass

__all__ = ["NamedPair", "parse_named_pair"]


@dataclass(frozen=True, slots=True)
class NamedPair:
    """A certificate, its key, and the names it is for; without names those in the certificate."""

    certificate: Path
    key: Path
    names: tuple[str, ...] = ()


def parse_named_pair(text: str) -> NamedPair:
    """``certificate,key`` or ``certificate,key:name,*.name``. Raises ValueError."""
    files, _, names = text.partition(":")
    pair = [part.strip() for part in files.split(",")]
    if len(pair) != 2 or not all(pair):
        raise ValueError(f"{text} is no pair of files; write cert.pem,key.pem or cert.pem,key.pem:*.example.com")
    listed = tuple(name.strip().lower() for name in names.split(",") if name.strip())
    for name in listed:
        if "*" in name.removeprefix("*."):
            raise ValueError(f"{name} is no name; * stands for the first label only, as in *.example.com")
    return NamedPair(Path(pair[0]), Path(pair[1]), listed)
