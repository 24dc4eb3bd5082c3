"""The rows of the one table: what each is, what its server has to have first, and one measurement of it.

The requests are those that the peer was measured with: so many in flight over HTTP/2, on four connections at most,
unless a row says otherwise. A GET asks for one object again and again, as the peer's did.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import watch
import write
from support.load import Load, Make, run
from support.wardle import FLUNDERS, Server, flunder, wardle

SECONDS, WARM_S = 1.5, 0.4
CHANGED = 256
_numbers = itertools.count()
_run = str(int(time.time()))


class Needs(NamedTuple):
    """The server of a row: its name, by which rows share it, and how many objects it has."""

    server: str
    objects: int


@dataclass(frozen=True)
class Row:
    """`runs` measurements are taken in turns with those of the other checkout, and the median counts.

    Memory is measured of both at once: it doesn't depend on who else is at work.
    """

    what: str
    unit: str
    needs: Needs
    measure: Callable[[Server], float]
    runs: int = 3


def created(n: int) -> tuple[str, str, bytes, str]:
    """The request that creates the nth object of a server."""
    return "POST", FLUNDERS, flunder(f"old-{n}", n), "application/json"


def _load(in_flight: int = 16, http2: bool = True, encoding: str = "") -> Load:
    return Load(in_flight=in_flight, seconds=SECONDS, warm_s=WARM_S, http2=http2, accept_encoding=encoding)


def _measured(make: Make, load: Load) -> Callable[[Server], float]:
    return lambda server: run(server, make, load).cpu_us


SIXTEEN, FOUR = _load(), _load(4)


def _get(what: str, query: str = "", load: Load = SIXTEEN) -> Row:
    path = f"{FLUNDERS}/old-7{query}"
    return Row(what, "µs", Needs("few", 1000), _measured(lambda n: ("GET", path, b"", ""), load))


def _list(what: str, needs: Needs, query: str = "", load: Load = FOUR) -> Row:
    return Row(what, "µs", needs, _measured(lambda n: ("GET", FLUNDERS + query, b"", ""), load))


def _create(n: int) -> tuple[str, str, bytes, str]:
    number = next(_numbers)
    return "POST", FLUNDERS, flunder(f"new-{_run}-{number}", number), "application/json"


def _merge_patch(n: int) -> tuple[str, str, bytes, str]:
    number = next(_numbers)
    body = b'{"spec":{"reference":"changed-%d"}}' % number
    return "PATCH", f"{FLUNDERS}/old-{number % CHANGED}", body, write.PATCHES["merge"]


def _apply(n: int) -> tuple[str, str, bytes, str]:
    number = next(_numbers)
    name = f"applied-{number % CHANGED}"
    path = f"{FLUNDERS}/{name}?fieldManager=bench&force=true"
    return "PATCH", path, flunder(name, number), "application/apply-patch+yaml"


def _watch(what: str, http2: bool) -> Row:
    needs = Needs("watched", watch.OBJECTS)
    return Row(what, "µs", needs, lambda server: watch.deliver(server, http2).cpu_us, runs=2)


def _idle(what: str, http2: bool) -> Row:
    needs = Needs(f"idle-{http2}", watch.OBJECTS)
    return Row(what, "MiB", needs, lambda server: watch.idle_mb(server, http2), runs=1)


def _start(server: Server) -> float:
    """With certificates that are there already."""
    folder = server.folder / "start"
    if not folder.exists():
        folder.mkdir()
        with wardle(folder=folder, checkout=server.checkout):
            pass
    with wardle(folder=folder, checkout=server.checkout) as started:
        return started.ready_s * 1e3


def _memory(what: str, objects: int) -> Row:
    return Row(what, "MiB", Needs("filled", objects), Server.rss_mb, runs=1)


FEW, MANY, FULL = Needs("few", 1000), Needs("many", 10_000), Needs("filled", 100_000)
SELECTOR, PAGE = "?labelSelector=bucket%3Db7", "?limit=500"

ROWS: dict[str, Row] = {
    "get-http2": _get("GET, 16 in flight, HTTP/2"),
    "get-http1": _get("GET, 16 in flight, HTTP/1.1", load=_load(http2=False)),
    "get-rv0-http2": _get("GET, resourceVersion=0, HTTP/2", "?resourceVersion=0"),
    "get-rv0-http1": _get("GET, resourceVersion=0, HTTP/1.1", "?resourceVersion=0", _load(http2=False)),
    "get-one": _get("GET, one in flight, HTTP/1.1", load=_load(1, http2=False)),
    "list-1000": _list("LIST of 1,000", FEW),
    "list-1000-gzip": _list("LIST of 1,000, gzip", FEW, load=_load(4, encoding="gzip")),
    "list-1000-selector": _list("LIST, selector for 1 % of 1,000", FEW, SELECTOR),
    "list-10000": _list("LIST of 10,000, HTTP/1.1", MANY, load=_load(1, http2=False)),
    "list-10000-http2": _list("LIST of 10,000, HTTP/2", MANY, load=_load(1)),
    "list-10000-selector": _list("LIST, selector for 1 % of 10,000", MANY, SELECTOR),
    "page-500": _list("page of 500 out of 10,000", MANY, PAGE),
    "create-1": Row("CREATE, one in flight", "µs", Needs("written", 0), _measured(_create, _load(1))),
    "create-16": Row("CREATE, 16 in flight", "µs", Needs("written", 0), _measured(_create, SIXTEEN)),
    "create-64": Row("CREATE, 64 in flight", "µs", Needs("written", 0), _measured(_create, _load(64))),
    "update": Row(
        *("UPDATE, 16 in flight", "µs", Needs("updated", CHANGED)),
        lambda server: write.updates(server, SIXTEEN, runs=1).cpu_us,
    ),
    "merge-patch": Row("merge PATCH, 16 in flight", "µs", Needs("patched", CHANGED), _measured(_merge_patch, SIXTEEN)),
    "apply": Row("APPLY, 16 in flight", "µs", Needs("applied", 0), _measured(_apply, SIXTEEN)),
    "watch-http2": _watch("watch event, 1,000 watchers on 10 HTTP/2 connections", http2=True),
    "watch-1000-connections": _watch("watch event, 1,000 watchers on 1,000 connections", http2=False),
    "start": Row("start to ready (wall time)", "ms", FEW, _start, runs=5),
    "rss-1000": _memory("memory with 1,000 objects", 1000),
    "rss-10000": _memory("memory with 10,000 objects", 10_000),
    "rss-100000": _memory("memory with 100,000 objects", 100_000),
    "page-500-100000": _list("page of 500 out of 100,000", FULL, PAGE),
    "rss-watchers-http2": _idle("memory that 1,000 idle watchers add, 10 HTTP/2 connections", http2=True),
    "rss-watchers-1000": _idle("memory that 1,000 idle watchers add, 1,000 connections", http2=False),
    "rss-after-watches": Row(
        "memory after 12 rounds of 1,000 watch connections", "MiB", Needs("left", 1000), watch.after_rounds_mb, runs=1
    ),
}
"""By name, in the order in which they are measured: what a server holds is asked before it does other work."""
