"""Options of authentication: who is let in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from oarlock.server.options.option import OptionGroup, Problem, option
from oarlock.server.options.types import BooleanType, PathType, StringListType

__all__ = ["AuthenticationOptions"]


def _exact_path(text: str) -> str:
    """A path of a URL without wildcards. Raises ValueError."""
    if not text.startswith("/") or "*" in text:
        raise ValueError(f"{text} is not an exact path; write /livez,/readyz,/healthz")
    return text


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
    anonymous_auth: bool = option(False, BooleanType(), "Only false is taken: see --anonymous-paths.")
    write_kubeconfig: Path | None = option(
        None, PathType(), "Write a kubeconfig here; in --data-dir unless given, if a token is made."
    )

    def check(self) -> Iterator[Problem]:
        if self.anonymous_auth:
            yield Problem("anonymous_auth", "is not supported: name the paths anybody may read in `anonymous_paths`")
