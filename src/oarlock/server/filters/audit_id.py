"""Sets ``Audit-Id``, by which an answer is found in the log, and ``Cache-Control`` on every answer.

Source: k8s.io/apiserver ``endpoints/filters`` audit_init and cachecontrol.
"""

from __future__ import annotations

from collections.abc import Callable

from oarlock.endpoints.http import Response

__all__ = ["add_audit_id", "own_audit_id", "uuid_pool"]

NO_CACHE = ("cache-control", "no-cache, private")
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
IDS_AT_ONCE = 256
LONGEST = 1024
"""A longer ``Audit-Id`` is replaced: clients couldn't read the answer."""


def uuid_pool(random: Callable[[int], bytes]) -> Callable[[], str]:
    """Generates version 4 UUIDs, calling `random` for many at once, because the system call is most of the cost."""
    ready: list[str] = []

    def uuid() -> str:
        if not ready:
            digits = random(16 * IDS_AT_ONCE).hex()
            for i in range(0, len(digits), 32):
                d = digits[i : i + 32]
                ready.append(f"{d[:8]}-{d[8:12]}-4{d[13:16]}-{_VARIANT[d[16]]}{d[17:20]}-{d[20:]}")
        return ready.pop()

    return uuid


def own_audit_id(given: str) -> str:
    """The ``Audit-Id`` of a client if it is short printable ASCII, else ``""``: it goes back into a header."""
    return given if len(given) <= LONGEST and given.isascii() and given.isprintable() else ""


def add_audit_id(response: Response, audit_id: str) -> None:
    """Add the headers."""
    headers = response.headers
    for header in headers:
        if header[0] == "cache-control":
            break
    else:
        headers.append(NO_CACHE)
    headers.append(("audit-id", audit_id))
