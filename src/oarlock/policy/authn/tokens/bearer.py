"""The bearer token of a request, parsed as Kubernetes does (RFC 6750 §2.1, more lenient).

It is in the ``Authorization`` header. A browser can't set that when it opens a WebSocket, so there it may be in
``Sec-WebSocket-Protocol``.
Must not know: what a valid token is. See also: `token_file`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable

from oarlock.meta.context import Notes
from oarlock.policy.authn.authenticator import BadCredentials, Credentials

__all__ = ["SUBPROTOCOLS", "bearer_token", "subprotocol_token", "without_token"]

SUBPROTOCOLS = "sec-websocket-protocol"
PREFIX = "base64url.bearer.authorization.k8s.io."
"""The prefix of a subprotocol's name that carries a token."""

_tokens = re.compile(r"(?:^|,)[ \t]*" + re.escape(PREFIX) + "[^,]*")

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


def subprotocol_token(credentials: Credentials) -> str | None:
    """The token among the subprotocols that a WebSocket request offers; None without one. Raises BadCredentials.

    There must be another subprotocol, for the answer to choose: a token is never sent back. Source: k8s.io/apiserver
    ``authentication/request/websocket``.
    """
    lines = credentials.values(SUBPROTOCOLS)
    if not any(PREFIX in line for line in lines) or credentials.headers.get("upgrade", "").lower() != "websocket":
        return None
    protocols = [protocol.strip() for protocol in ",".join(lines).split(",", MAX_OFFERED)]
    if len(protocols) > MAX_OFFERED:
        raise BadCredentials(f"more than {MAX_OFFERED} subprotocols offered beside a token")
    tokens = [protocol.removeprefix(PREFIX) for protocol in protocols if protocol.startswith(PREFIX)]
    if len(tokens) > 1:
        raise BadCredentials("multiple base64.bearer.authorization tokens specified")
    if not tokens or not tokens[0]:
        return None
    if len(tokens) == len(protocols):
        raise BadCredentials("missing additional subprotocol")
    try:
        encoded = tokens[0].encode()
        if b"=" in encoded:
            raise binascii.Error("padding")
        return base64.b64decode(encoded + b"=" * (-len(encoded) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeError) as error:
        raise BadCredentials("invalid base64.bearer.authorization token encoding") from error


def without_token(lines: Iterable[str]) -> list[str]:
    """The values of ``Sec-WebSocket-Protocol`` lines without the tokens among them; no line is left empty."""
    cleaned = (_tokens.sub("", line).strip(", \t") for line in lines)
    return [line for line in cleaned if line]
