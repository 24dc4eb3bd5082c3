"""What was worked out before, kept within a bound of bytes. Must not know: what it keeps. Next: `settled`."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["Remembered"]

T = TypeVar("T")

_MOST_BYTES = 1024 * 1024
_ONE_BYTES = 8 * 1024


class Remembered(Generic[T]):
    """Values by key, each put with the bytes of the text it was made of. The oldest go first.

    What is made of a text takes some ten times its bytes, so `most_bytes` of texts bound the memory: clients that
    send something else each time can't fill it. A text of more than `one_bytes` isn't kept.
    """

    __slots__ = ("_kept", "_most_bytes", "_one_bytes", "_used", "get")

    def __init__(self, most_bytes: int = _MOST_BYTES, one_bytes: int = _ONE_BYTES) -> None:
        self._kept: dict[Hashable, tuple[T, int]] = {}
        self._most_bytes = most_bytes
        self._one_bytes = one_bytes
        self._used = 0
        self.get = self._kept.get
        """The value under a key, with its bytes; None for none."""

    def put(self, key: Hashable, value: T, size: int) -> None:
        """Keep `value`, which nobody may change from now on."""
        if size > self._one_bytes or key in self._kept:
            return
        self._used += size
        self._kept[key] = value, size
        while self._used > self._most_bytes:
            oldest = next(iter(self._kept))
            self._used -= self._kept.pop(oldest)[1]
