"""The bearer token in the ``Authorization`` header, parsed as Kubernetes does (RFC 6750 §2.1, more lenient).

A browser can't set that header when it opens a WebSocket; there the token may be in ``Sec-WebSocket-Protocol``.
Must not know: what a valid token is. See also: `token_file`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping

from oarlock.meta.context import Notes

__all__ = ["OFFERED_TOKEN", "TokenError", "bearer_token", "offered_token"]

OFFERED_TOKEN = "base64url.bearer.authorization.k8s.io."
"""The prefix of a subprotocol's name that carries a token."""

MAX_OFFERED = 64
EXTRA_SPACE = "the provided Authorization header contains extra space before the bearer token, and is ignored"


def bearer_token(header: str, notes: Notes | None = None) -> str | None:
    """The token; None for another scheme, an empty token, or two spaces before it; `notes` then gets a warning."""
    parts = header.strip(" \t").split(" ", 2)
    if len(parts) < 2 or parts[0].lower() != "bearer":
        return None
    if parts[1]:
        return parts[1]
    if len(parts) == 3 and notes is not None:
        notes.warn(EXTRA_SPACE)
    return None


class TokenError(Exception):
    """A token in a subprotocol that can't be read; the text says what is wrong."""


def offered_token(headers: Mapping[str, str]) -> str | None:
    """The token among the subprotocols of a WebSocket request; None without one. Raises TokenError.

    There must be another subprotocol, for the answer to choose: a token is never sent back. Source: k8s.io/apiserver
    ``authentication/request/websocket``.
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
