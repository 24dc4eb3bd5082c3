"""Counts the files and functions of oarlock that one request runs through, by verb.

    python tools/trace_requests.py             a table of GET, LIST, CREATE, PATCH, DELETE and WATCH
    python tools/trace_requests.py PATCH       the files that a PATCH runs through, with their functions

A control plane in memory serves config maps. Each verb is warmed up, then traced once; what only a test has (the
kit, the transport in memory) isn't counted, nor is what other tasks do meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from types import FrameType
from typing import Any

import oarlock
from oarlock import ControlPlane
from oarlock.testing import InMemory, VirtualClock

ROOT = os.path.dirname(oarlock.__file__) + os.sep
OF_TESTS = ("testing/", "server/local/")
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"

OF_THE_REQUEST: ContextVar[bool] = ContextVar("of the request", default=False)
"""Whether the current task was begun by the request that is traced."""

Found = dict[str, set[str]]
"""The functions that ran, by the path of their file below ``src/oarlock``."""


def traced(found: Found) -> Callable[[FrameType, str, Any], None]:
    """A trace function for `sys.settrace` that notes every function of oarlock in `found`."""

    def note(frame: FrameType, event: str, argument: Any) -> None:
        file = frame.f_code.co_filename
        if OF_THE_REQUEST.get() and file.startswith(ROOT) and not file[len(ROOT) :].startswith(OF_TESTS):
            found[file[len(ROOT) :]].add(frame.f_code.co_qualname)

    return note


async def run_through(request: Callable[[], Awaitable[Any]]) -> Found:
    """What `request` runs through, once it has been sent three times before."""
    for _ in range(3):
        await request()
    found: Found = defaultdict(set)

    async def noted() -> None:
        OF_THE_REQUEST.set(True)
        await request()

    sys.settrace(traced(found))
    try:
        await asyncio.create_task(noted())
    finally:
        sys.settrace(None)
    return dict(found)


async def trace_verbs() -> dict[str, Found]:
    """What each verb runs through, on the config maps of a control plane in memory."""
    async with InMemory(ControlPlane(), clock=VirtualClock()) as api:
        numbers = iter(range(1_000_000))
        await api.post(CONFIG_MAPS, {"metadata": {"name": "traced"}, "data": {"a": "0"}})
        for number in range(5):
            await api.post(CONFIG_MAPS, {"metadata": {"name": f"deleted-{number}"}})
        doomed = iter(range(5))

        async def watch() -> None:
            async with api.watch(CONFIG_MAPS) as events:
                await events.next()

        return {
            "GET": await run_through(lambda: api.get(f"{CONFIG_MAPS}/traced")),
            "LIST": await run_through(lambda: api.get(CONFIG_MAPS)),
            "CREATE": await run_through(
                lambda: api.post(CONFIG_MAPS, {"metadata": {"name": f"new-{next(numbers)}"}, "data": {"a": "0"}})
            ),
            "PATCH": await run_through(lambda: api.patch(f"{CONFIG_MAPS}/traced", {"data": {"a": str(next(numbers))}})),
            "DELETE": await run_through(lambda: api.delete(f"{CONFIG_MAPS}/deleted-{next(doomed)}")),
            "WATCH": await run_through(watch),
        }


def counts(found: Found) -> tuple[int, int]:
    """How many files, and how many functions."""
    return len(found), sum(map(len, found.values()))


def main() -> None:
    verbs = asyncio.run(trace_verbs())
    for verb in sys.argv[1:]:
        for file, functions in sorted(verbs[verb].items()):
            print(f"{file}: {', '.join(sorted(functions))}")
    if not sys.argv[1:]:
        print(f"{'':8}{'files':>8}{'functions':>12}")
        for verb, found in verbs.items():
            files, functions = counts(found)
            print(f"{verb:8}{files:8}{functions:12}")


if __name__ == "__main__":
    main()
