"""The heads of requests that came before, so that the same one is taken apart once.

Most clients send the same headers with every request, and only the path changes. A head is known by all its bytes
beside the path, so what is remembered is exactly what taking it apart again would give.

Must not know: HTTP/1, HTTP/2. See also: `http1.input`, `http2.headers`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oarlock.meta.dataclass import dataclass
from oarlock.meta.memo import Memo

__all__ = ["FIELD_BYTES", "Http1Head", "Http2Head", "known_heads"]

FIELD_BYTES = 32
"""What a field counts besides its name and value (RFC 9113 §6.5.2)."""


@dataclass(frozen=True, slots=True)
class Http1Head:
    """Headers of a request with the length of its body, 0 for none. Never changed, so headers are copied."""

    headers: dict[str, str]
    lines: Sequence[tuple[str, str]]
    length: int


@dataclass(frozen=True, slots=True)
class Http2Head:
    """Method and headers of a request; `pseudo` is the number of its pseudo-headers without ``:path``."""

    method: str
    headers: dict[str, str]
    lines: Sequence[tuple[str, str]]
    pseudo: int


def known_heads() -> Memo[Any, Any]:
    """The memory for the heads of one protocol, of all connections of a listener.

    A client that sends ever new heads costs others a parse now and then, nothing more.
    """
    heads: Memo[Any, Any] = Memo(1024 * 1024, entry_bytes=1024, per_byte=8, longest_bytes=4096)
    return heads
