"""Waiting for a future that others wait for too."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

T = TypeVar("T")


def shared(future: asyncio.Future[T]) -> asyncio.Future[T]:
    """A future that ends as `future` does. Cancelling it, as when its waiter is cancelled, leaves `future` alone.

    A failure is raised for those who wait. When all of them have given up it isn't logged, unlike that of
    `asyncio.shield`: the work is one for all who want its result, so nobody misses it. The caller keeps a reference to
    `future`.
    """
    if future.done():
        return future
    follower: asyncio.Future[T] = future.get_loop().create_future()

    def settle(ended: asyncio.Future[Any]) -> None:
        error = None if ended.cancelled() else ended.exception()  # also marks it as retrieved
        if follower.done():
            return
        if ended.cancelled():
            follower.cancel()
        elif error is not None:
            follower.set_exception(error)
        else:
            follower.set_result(ended.result())

    future.add_done_callback(settle)
    return follower
