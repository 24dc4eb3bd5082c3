"""Options of authorization: who may do what."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from oarlock.server.options.option import OptionGroup, Problem, option
from oarlock.server.options.types import StringListType

__all__ = ["ALWAYS_ALLOW", "ALWAYS_DENY", "RBAC", "AuthorizationOptions"]

ALWAYS_ALLOW, ALWAYS_DENY, RBAC = "AlwaysAllow", "AlwaysDeny", "RBAC"
MODES = (ALWAYS_ALLOW, ALWAYS_DENY, RBAC)
NOT_HERE = {"ABAC": "write an Authorizer instead", "Node": "there are no kubelets here; leave it out"}


def _mode(text: str) -> str:
    """A way to decide. Raises ValueError."""
    if text in NOT_HERE:
        raise ValueError(f"there is no mode {text}: {NOT_HERE[text]}")
    if text not in MODES:
        raise ValueError(f"{text} is not one of {', '.join(MODES)}")
    return text


def _path(text: str) -> str:
    """A path of a URL, which may end with ``*``. Raises ValueError."""
    if not text.startswith("/") or "*" in text[:-1]:
        raise ValueError(f"{text} is not a path; write /healthz, or /healthz/* for all below it")
    return text


@dataclass(frozen=True, kw_only=True, repr=False)
class AuthorizationOptions(OptionGroup):
    title = "Authorization"

    authorization_mode: tuple[str, ...] = option(
        (),
        StringListType("MODES", _mode),
        "Who may do what, in this order: AlwaysAllow, AlwaysDeny, RBAC; AlwaysAllow unless given or decided otherwise.",
    )
    authorization_always_allow_paths: tuple[str, ...] = option(
        (),
        StringListType("PATHS", _path),
        "Let everybody who is let in ask for these paths, /healthz/* for all below; none unless given.",
    )

    def check(self) -> Iterator[Problem]:
        if len(set(self.authorization_mode)) < len(self.authorization_mode):
            yield Problem("authorization_mode", "names one mode twice")
