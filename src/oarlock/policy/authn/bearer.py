"""The bearer token of a request, as Kubernetes reads the ``Authorization`` header (RFC 6750 §2.1, more lenient).

A browser can't set that header when it opens a WebSocket, so there the token may be among the subprotocols it offers.
Must not know: what a valid token is. Next: `token_file`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping

from oarlock.meta.context import Notes

__all__ = ["OFFERED_TOKEN", "TokenError", "bearer_token", "offered_token"]

OFFERED_TOKEN = "base64url.bearer.authorization.k8s.io."
"""What the name of a subprotocol begins with that carries a token."""

MAX_OFFERED = 64
EXTRA_SPACE = "the provided Authorization header contains extra space before the bearer token, and is ignored"


def bearer_token(header: str, notes: Notes | None = None) -> str | None:
    """The token; None for another scheme, an empty token, or two spaces before it, about which `notes` is told."""
    parts = header.strip(" \t").split(" ", 2)
    if len(parts) < 2 or parts[0].lower() != "bearer":
        return None
    if parts[1]:
        return parts[1]
    if len(parts) == 3 and notes is not None:
        notes.warn(EXTRA_SPACE)
    return None


class TokenError(Exception):
    """A token was offered in a way that isn't understood; the text says what is wrong."""


def offered_token(headers: Mapping[str, str]) -> str | None:
    """The token among the subprotocols a WebSocket client offers; None without one. Raises TokenError.

    There must be another subprotocol beside it, which the answer can name: a token is never sent back.
    Source: k8s.io/apiserver ``authentication/request/websocket``.
    """
    offered = headers.get("sec-websocket-protocol", "")
    if OFFERED_TOKEN not in offered or headers.get("upgrade", "").lower() != "websocket":
        return None
    protocols = [protocol.strip() for protocol in offered.split(",", MAX_OFFERED)]
    if len(protocols) > MAX_OFFERED:
        raise TokenError(f"more than {MAX_OFFERED} subprotocols offered beside a token")
    tokens = [protocol.removeprefix(OFFERED_TOKEN) for protocol in protocols if protocol.startswith(OFFERED_TOKEN)]
    if len(tokens) > 1:
        raise TokenError("multiple base64.bearer.authorization tokens specified")
    if not tokens or not tokens[0]:
        return None
    if len(tokens) == len(protocols):
        raise TokenError("missing additional subprotocol")
    try:
        encoded = tokens[0].encode()
        return base64.b64decode(encoded + b"=" * (-len(encoded) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeError) as error:
        raise TokenError("invalid base64.bearer.authorization token encoding") from error
