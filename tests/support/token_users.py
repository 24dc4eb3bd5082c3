"""Requests authenticated by static tokens, as with ``--token-auth-file``."""

from __future__ import annotations

from collections.abc import Iterable

from oarlock.meta.context import User
from oarlock.policy.authn.tokens.bearer_tokens import BearerTokens
from oarlock.policy.authn.tokens.token_file import TokenFile
from oarlock.testing.clock import VirtualClock

__all__ = ["by_token"]


def by_token(tokens: Iterable[tuple[str, User]]) -> BearerTokens:
    """Authenticates these tokens as these users."""
    return BearerTokens([TokenFile(tokens)], VirtualClock())
