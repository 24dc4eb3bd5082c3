"""What does it cost to add or change one of 2,000 definitions of 60 fields, and to tell clients of it?

CPU of the change in ms, on the event loop and in all threads; how long the loop was held at most; how long the first
answers after it took, and the memory. The definitions are in 40 groups, then in one. Figures are medians of seven.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

from support.heart import Patient, patient

COUNT = 2_000
TIMES = 7
WORDS = {"add": "add one", "change": "change one", "list": "change one by listing all"}
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def main() -> None:
    for groups in [int(word) for word in sys.argv[1:]] or [40, 1]:
        with tempfile.TemporaryDirectory(prefix="oarlock-bench-") as folder:
            storage = f"sqlite:///{Path(folder) / 'store.db'}"
            print(f"{COUNT:,} definitions in {groups} groups" if groups > 1 else f"{COUNT:,} definitions in one group")
            for what in ("empty", "known"):
                with patient(storage, "support.definitions", str(COUNT), str(groups)) as server:
                    print(f"  start with a store where they are {'un' * (what == 'empty')}known: {ready(server)}")
                    if what == "known":
                        changes(server, groups)


def ready(server: Patient) -> str:
    return f"{server.greeting['ready_s']:.1f} s, RSS {server.server.rss_mb():,.0f} MB"


def changes(server: Patient, groups: int) -> None:
    document = "/openapi/v3/apis/group3.example.com/v1" if groups > 3 else "/openapi/v3/apis/group0.example.com/v1"
    documents = {
        "/openapi/v3": ("/openapi/v3", "application/json"),
        "the group's document": (document, "application/json"),
        "/apis, aggregated": ("/apis", AGGREGATED),
        "/apis": ("/apis", "application/json"),
        "the group's resources": (document.removeprefix("/openapi/v3"), "application/json"),
    }
    for name, (path, accept) in documents.items():
        print(f"  {name}, first: {asked(server, path, accept)}")
    number = 3 if groups > 3 else 0
    for word, numbers in (
        ("add", range(COUNT, COUNT + TIMES)),
        ("change", [number] * TIMES),
        ("list", [number] * TIMES),
    ):
        figures: list[dict[str, float]] = []
        answers: dict[str, list[float]] = {name: [] for name in documents}
        for one in numbers:
            figures.append(server.tell(f"{word} {one}"))
            for name, (path, accept) in documents.items():
                answers[name].append(timed(server, path, accept)[0])
        print(f"  {WORDS[word]}: " + ", ".join(f"{name} {_shown([f[name] for f in figures])}" for name in figures[0]))
        print(f"  {WORDS[word]}, then: " + ", ".join(f"{name} {_shown(took)} ms" for name, took in answers.items()))
    print(f"  RSS {server.server.rss_mb():,.0f} MB")


def _shown(values: list[float]) -> str:
    return f"{statistics.median(values):.1f} (worst {max(values):.1f})"


def timed(server: Patient, path: str, accept: str) -> tuple[float, int]:
    began = time.perf_counter()
    status, body = server.ask("GET", path, accept=accept)
    took = (time.perf_counter() - began) * 1e3
    assert status == 200, (path, status)
    return took, len(body)


def asked(server: Patient, path: str, accept: str) -> str:
    server.rest()
    took, size = timed(server, path, accept)
    held = server.held()
    return f"{took:.1f} ms, {size / 1e6:.1f} MB, loop held {held.cpu_ms:.1f} ms; RSS {server.server.rss_mb():,.0f} MB"


if __name__ == "__main__":
    main()
