"""The bearer token of a request, as Kubernetes reads the ``Authorization`` header (RFC 6750 §2.1, more lenient).

Must not know: what a valid token is. Next: `token_file`.
"""

from __future__ import annotations

from oarlock.meta.context import Notes

__all__ = ["bearer_token"]

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
