"""`KnownHeads`: the heads of requests that came before, so that the same one is taken apart once.

Most clients send the same headers with every request, and only the path changes. A head is known by all its bytes
beside the path, so what is remembered is exactly what taking it apart again would give.

Must not know: HTTP/1, HTTP/2. See also: `http1_input`, `http2_headers`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

from oarlock.meta.dataclass import dataclass

__all__ = ["Http1Head", "Http2Head", "KnownHeads"]

MOST_BYTES = 512 * 1024
LONGEST_BYTES = 4096
OVERHEAD_BYTES = 2048  # what a head of some ten headers takes besides its text, which is kept twice

T = TypeVar("T")


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


class KnownHeads(Generic[T]):
    """The heads of all connections of a listener, in at most `MOST_BYTES`. When it is full it begins anew.

    A client that sends ever new heads costs others a parse now and then, nothing more.
    """

    __slots__ = ("_bytes", "_heads", "get")

    def __init__(self) -> None:
        self._heads: dict[Hashable, T] = {}
        self._bytes = 0
        self.get = self._heads.get

    @property
    def bytes(self) -> int:
        """About what is kept."""
        return self._bytes

    def put(self, key: Hashable, size: int, head: T) -> None:
        """Remember `head`, whose text has `size` bytes."""
        if size > LONGEST_BYTES or key in self._heads:
            return
        self._bytes += 2 * size + OVERHEAD_BYTES
        if self._bytes > MOST_BYTES:
            self._heads.clear()
            self._bytes = 2 * size + OVERHEAD_BYTES
        self._heads[key] = head
