"""Recursion without stack overflow: generator functions that yield their recursive calls.

An expression may nest 250 levels, and its tree a few times that, which is more than Python's stack allows for
recursive functions. A step is a generator: it yields another step and is sent that one's result. However
deep they go, only `run` is on the stack. Must not know: expressions. See also: `parsing`, `checker`, `compiling` and
`estimate`, which are written that way.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

_Result = TypeVar("_Result")

Steps = Generator[Any, Any, _Result]
"""A step that ends in a result. ``yield from`` is for helpers only: it would nest what `run` lays flat."""


def run(first: Steps[_Result]) -> _Result:
    """The result of a step and all steps that it yields. An exception in one ends all of them."""
    waiting: list[Steps[Any]] = []
    current: Steps[Any] = first
    sent: Any = None
    while True:
        try:
            step = current.send(sent)
        except StopIteration as done:
            sent = done.value
            if not waiting:
                result: _Result = sent
                return result
            current = waiting.pop()
        else:
            waiting.append(current)
            current, sent = step, None
