"""Options of authentication: who is let in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from oarlock.server.options.option import OptionGroup, Problem, option
from oarlock.server.options.types import BooleanType, PathType, StringListType

__all__ = ["AuthenticationOptions"]

_token = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 §5.6.2


def _exact_path(text: str) -> str:
    """A path of a URL without wildcards. Raises ValueError."""
    if not text.startswith("/") or "*" in text:
        raise ValueError(f"{text} is not an exact path; write /livez,/readyz,/healthz")
    return text


def _header(text: str) -> str:
    """The name of a header, or the beginning of one, in lower case. Raises ValueError."""
    if not _token.fullmatch(text):
        raise ValueError(f"{text!r} can't be the name of a header")
    return text.lower()


_HEADERS = StringListType("HEADERS", _header)


@dataclass(frozen=True, kw_only=True, repr=False)
class AuthenticationOptions(OptionGroup):
    title = "Authentication"

    client_ca_file: Path | None = option(
        None,
        PathType(),
        "Let clients in with certificates of these authorities (PEM): CN is the user, O its groups.",
    )
    token_auth_file: Path | None = option(
        None, PathType(), 'Let clients in with these tokens, in CSV: token,user,uid,"group1,group2".'
    )
    anonymous_paths: tuple[str, ...] = option(
        (),
        StringListType("PATHS", _exact_path),
        "Let anybody ask for exactly these paths, for example /livez,/readyz,/healthz; none unless given.",
    )
    anonymous_auth: bool = option(
        False,
        BooleanType(),
        "Let requests without credentials in as system:anonymous, on every path; authorization decides then.",
    )
    requestheader_client_ca_file: Path | None = option(
        None,
        PathType(),
        "Believe the user's name in headers of a front proxy that has a certificate of these authorities (PEM).",
    )
    requestheader_allowed_names: tuple[str, ...] = option(
        (), StringListType("NAMES"), "Common names that the front proxy's certificate may have; any unless given."
    )
    requestheader_username_headers: tuple[str, ...] = option(
        ("x-remote-user",),
        _HEADERS,
        "Headers of the front proxy with the user's name, the first of them first.",
    )
    requestheader_uid_headers: tuple[str, ...] = option((), _HEADERS, "Headers of the front proxy with the user's uid.")
    requestheader_group_headers: tuple[str, ...] = option(
        ("x-remote-group",), _HEADERS, "Headers of the front proxy with the user's groups, one a line."
    )
    requestheader_extra_headers_prefix: tuple[str, ...] = option(
        ("x-remote-extra-",), _HEADERS, "Beginnings of the front proxy's headers with more about the user."
    )
    write_kubeconfig: Path | None = option(
        None, PathType(), "Write a kubeconfig here; in --data-dir unless given, if a token is made."
    )

    def check(self) -> Iterator[Problem]:
        if self.anonymous_auth and self.anonymous_paths:
            yield Problem("anonymous_paths", "says less than `anonymous_auth`: give one of them")
        if self.requestheader_client_ca_file is None:
            if self.requestheader_allowed_names:
                yield Problem("requestheader_allowed_names", "give `requestheader_client_ca_file` too")
        elif not self.requestheader_username_headers:
            yield Problem("requestheader_username_headers", "is empty, so the front proxy could name nobody")
        elif self.requestheader_client_ca_file == self.client_ca_file and not self.requestheader_allowed_names:
            yield Problem(
                "requestheader_client_ca_file",
                "is `client_ca_file`, so every client could say it is somebody else: give the front proxy another "
                "authority, or say in `requestheader_allowed_names` who it is",
            )
