"""What does a write cost? Server CPU per durable CREATE, UPDATE, PATCH and APPLY, 16 in flight, HTTP/1.1.

Every write brings managedFields up to date. The patches change an annotation; the apply owns five fields by force,
changes one of them, and is to an object that somebody else made. GET is there to compare machines by.
"""

from __future__ import annotations

import json
import re
import urllib.request
from collections import deque
from dataclasses import replace

from support.load import Figure, Load, fill, median_of
from support.wardle import FLUNDERS, TOKEN, Server, flunder, wardle

OBJECTS = 512
_VERSION = re.compile(rb'"resourceVersion":"([0-9]+)"')
PATCHES = {"merge": "application/merge-patch+json", "strategic": "application/strategic-merge-patch+json"}


def main() -> None:
    load = Load(most=40_000)
    with wardle() as server:
        series = iter(range(1_000_000))

        def create(n: int) -> tuple[str, str, bytes, str]:
            number = next(series)
            return "POST", FLUNDERS, flunder(f"new-{number}", number), "application/json"

        print(median_of(server, create, load).line("CREATE, 16 in flight"))
        fill(server, lambda n: ("POST", FLUNDERS, flunder(f"old-{n}", n), "application/json"), OBJECTS)
        print(updates(server, load).line("UPDATE, 16 in flight"))

        for kind, media in PATCHES.items():

            def patch(n: int, media: str = media) -> tuple[str, str, bytes, str]:
                body = b'{"metadata":{"annotations":{"example.com/n":"%d"}}}' % n
                return "PATCH", f"{FLUNDERS}/old-{n % OBJECTS}", body, media

            print(median_of(server, patch, load).line(f"{kind} PATCH, 16 in flight"))
        print(median_of(server, apply, load).line("APPLY, 16 in flight"))
        get = median_of(server, lambda n: ("GET", f"{FLUNDERS}/old-{n % OBJECTS}", b"", ""), load)
        print(get.line("for comparison, GET, 16 in flight"))


def apply(n: int) -> tuple[str, str, bytes, str]:
    """The request of the nth apply, to one of the objects called old."""
    name = f"old-{n % OBJECTS}"
    body = (
        b'{"apiVersion":"wardle.example.com/v1alpha1","kind":"Flunder","metadata":{"name":"%s",'
        b'"annotations":{"example.com/applied":"%d","example.com/by":"bench"},"labels":{"applied":"yes","tier":"top"}},'
        b'"spec":{"referenceType":"Flunder"}}' % (name.encode(), n)
    )
    return "PATCH", f"{FLUNDERS}/{name}?fieldManager=bench-applier&force=true", body, "application/apply-patch+yaml"


def updates(server: Server, load: Load, runs: int = 3) -> Figure:
    """PUTs, each carrying the resourceVersion that the PUT before it on that object returned."""
    listed = urllib.request.Request(
        f"https://localhost:{server.port}{FLUNDERS}", headers={"authorization": f"Bearer {TOKEN}"}
    )
    with urllib.request.urlopen(listed, context=server.tls()) as answer:
        items = json.load(answer)["items"]
    free = deque(
        (i["metadata"]["name"], i["metadata"]["resourceVersion"]) for i in items if i["metadata"]["name"][:3] == "old"
    )
    busy: dict[int, str] = {}

    def update(n: int) -> tuple[str, str, bytes, str]:
        name, version = free.popleft()
        busy[n] = name
        body = flunder(name, n).replace(b'"metadata":{', b'"metadata":{"resourceVersion":"%s",' % version.encode())
        return "PUT", f"{FLUNDERS}/{name}", body, "application/json"

    def seen(n: int, body: bytes) -> None:
        free.append((busy.pop(n), _VERSION.search(body)[1].decode()))

    return median_of(server, update, replace(load, seen=seen), runs)


if __name__ == "__main__":
    main()
