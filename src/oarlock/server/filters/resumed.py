"""`Resumed`: the rest of a coroutine that was begun by hand, to be awaited. See also: `audit`, which begins one."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from typing import Any, Generic, TypeVar

__all__ = ["Resumed"]

T = TypeVar("T")


class Resumed(Generic[T]):
    """Goes on with `rest`, which has asked to wait for `waits_for`, and returns what it returns."""

    __slots__ = ("_rest", "_waits_for")

    def __init__(self, rest: Coroutine[Any, Any, T], waits_for: Any) -> None:
        self._rest = rest
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, T]:
        rest, waits_for = self._rest, self._waits_for
        while True:
            error: BaseException | None = None
            value = None
            try:
                value = yield waits_for
            except GeneratorExit:
                rest.close()
                raise
            except BaseException as caught:
                error = caught
            try:
                waits_for = rest.send(value) if error is None else rest.throw(error)
            except StopIteration as done:
                result: T = done.value
                return result
