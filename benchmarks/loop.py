"""How long does one piece of work hold the event loop? The longest pause between two beats of a server's loop, in ms.

For each case the median and the worst of three: as far as the server was working meanwhile, and by the clock, which
knows what else the machine did. Parts can be named: idle, lists, writes, catalogs.
"""

from __future__ import annotations

import http.client
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from support.heart import Held, Patient, patient
from support.load import fill
from support.wardle import FLUNDERS, OTHER_VERSION, TOKEN, flunder

LEDGERS = "/apis/loop.example.com/v1/namespaces/default/ledgers"
OLD_LEDGERS = "/apis/loop.example.com/v1beta1/namespaces/default/ledgers"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
OPENAPI_V2 = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
OPENAPI_V3 = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"
APPLY, MERGE, STRATEGIC, STEPS = (
    "application/apply-patch+yaml",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/json-patch+json",
)
TIMES = 3
OBJECTS = 50_000
ITEMS = 5_000
DEFINITIONS = 500

Ask = Callable[[int], tuple[int, Any]]
Case = tuple[str, Ask]


def measure(server: Patient, what: str, ask: Ask) -> None:
    held: list[Held] = []
    took: list[float] = []
    status = 0
    for number in range(TIMES):
        server.rest()
        began = time.monotonic()
        status, _ = ask(number)
        took.append(time.monotonic() - began)
        held.append(server.held())
    own, clock = ([getattr(one, name) for one in held] for name in ("cpu_ms", "wall_ms"))
    print(
        f"{what}: {statistics.median(own):.1f} ms (worst {max(own):.1f}; by the clock {statistics.median(clock):.1f}, "
        f"worst {max(clock):.1f}); answered {status} in {statistics.median(took) * 1e3:.0f} ms",
        flush=True,
    )


def idle(server: Patient) -> Iterator[Case]:
    def nothing(_: int) -> tuple[int, bytes]:
        time.sleep(2)
        return 0, b""

    yield "nothing, for 2 s", nothing


def lists(server: Patient) -> Iterator[Case]:
    made = iter(range(OBJECTS))
    fill(server.server, lambda n: ("POST", FLUNDERS, flunder(f"o-{next(made):05d}", n), "application/json"), OBJECTS)

    def get(path: str, **headers: str) -> Ask:
        return lambda _: server.ask("GET", path, **headers)

    yield f"LIST {OBJECTS:,}", get(FLUNDERS)
    yield f"LIST {OBJECTS:,} in the version that isn't stored", get(OTHER_VERSION)
    yield f"LIST {OBJECTS:,} as Table", get(FLUNDERS, accept=TABLE)
    yield f"LIST {OBJECTS:,} as PartialObjectMetadata", get(FLUNDERS, accept=METADATA)
    yield f"LIST {OBJECTS:,}, gzip", get(FLUNDERS, accept_encoding="gzip")
    yield f"LIST {OBJECTS:,} by a label", get(f"{FLUNDERS}?labelSelector=bucket%3Db7")
    yield f"LIST {OBJECTS:,} by a set of labels", get(f"{FLUNDERS}?labelSelector=bucket%20notin%20(b7,b8)")
    yield f"LIST {OBJECTS:,}, a page of 500", get(f"{FLUNDERS}?limit=500")
    yield f"LIST {OBJECTS:,}, 500 by a label", get(f"{FLUNDERS}?limit=500&labelSelector=bucket%3Db7")
    yield "LIST 1,000 as YAML", get(f"{FLUNDERS}?limit=1000", accept="application/yaml")
    yield "LIST 10,000, indented", get(f"{FLUNDERS}?limit=10000&pretty=true")
    yield f"watch of {OBJECTS:,} initial objects", lambda _: _watched(server)
    yield "/metrics", get("/metrics")
    yield f"deletecollection of {OBJECTS // TIMES:,}", lambda n: server.ask("DELETE", _third(n))


def _third(number: int) -> str:
    """The URL of a third of the objects."""
    buckets = ",".join(f"b{n}" for n in range(100) if n % TIMES == number)
    return f"{FLUNDERS}?labelSelector=bucket%20in%20({buckets})"


def _watched(server: Patient) -> tuple[int, int]:
    """Open a watch, read what is there, leave."""
    connection = http.client.HTTPSConnection("localhost", server.server.port, context=server.server.tls("http/1.1"))
    connection.request("GET", f"{FLUNDERS}?watch=true&resourceVersion=0", headers={"authorization": f"Bearer {TOKEN}"})
    answer = connection.getresponse()
    seen = 0
    while seen < OBJECTS:
        seen += answer.read1(1 << 20).count(b'{"type":"ADDED"')
    connection.close()
    return answer.status, seen


def ledger(name: str, count: int = ITEMS, value: str = "value-of-the-item", *, version: str = "v1") -> bytes:
    field = "entries" if version == "v1" else "rows"
    entries = [{"name": f"item-{n:05d}", "value": value, "port": n} for n in range(count)]
    head = {"apiVersion": f"loop.example.com/{version}", "kind": "Ledger", "metadata": {"name": name}}
    return json.dumps({**head, "spec": {field: entries}}, separators=(",", ":")).encode()


def writes(server: Patient) -> Iterator[Case]:
    some = f"{ITEMS:,} keyed items"

    def post(path: str, make: Callable[[int], bytes]) -> Ask:
        bodies = [make(n) for n in range(TIMES)]
        return lambda n: server.ask("POST", path, bodies[n])

    def put(n: int) -> tuple[int, bytes]:
        return server.ask("PUT", f"{LEDGERS}/a{n}", changed[n])

    def patch(where: str, media: str, body: Any) -> Ask:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return lambda n: server.ask("PATCH", where.format(n=n), data.replace(b"NAME", b"b%d" % n), media)

    yield f"create of {some}", post(LEDGERS, lambda n: ledger(f"a{n}"))
    version = [json.loads(server.ask("GET", f"{LEDGERS}/a{n}")[1])["metadata"]["resourceVersion"] for n in range(TIMES)]
    changed = [
        ledger(f"a{n}", value="other").replace(b'"metadata":{', b'"metadata":{"resourceVersion":"%s",' % v.encode())
        for n, v in enumerate(version)
    ]
    yield f"update of {some}", put
    yield (
        f"create of {some} in the version that isn't stored",
        post(OLD_LEDGERS, lambda n: ledger(f"o{n}", version="v1beta1")),
    )
    yield f"one label of {some}, merge patch", patch(LEDGERS + "/a{n}", MERGE, {"metadata": {"labels": {"a": "b"}}})
    yield (
        f"{some}, strategic merge patch",
        patch(
            LEDGERS + "/a{n}",
            STRATEGIC,
            {"spec": {"entries": [{"name": f"item-{n:05d}", "port": 1} for n in range(ITEMS)]}},
        ),
    )
    yield (
        f"{some}, JSON patch",
        patch(
            LEDGERS + "/a{n}",
            STEPS,
            [{"op": "replace", "path": f"/spec/entries/{n}/port", "value": 2} for n in range(ITEMS)],
        ),
    )
    apply = patch(LEDGERS + "/b{n}?fieldManager=bench", APPLY, ledger("NAME"))
    yield f"apply that creates {some}", apply
    yield f"apply of {some}", patch(LEDGERS + "/b{n}?fieldManager=bench", APPLY, ledger("NAME", value="new"))
    yield (
        f"apply of {some} that another manager owns",
        patch(LEDGERS + "/b{n}?fieldManager=two&force=true", APPLY, ledger("NAME", value="newer")),
    )
    yield f"GET of {some} as Table", lambda n: server.ask("GET", f"{LEDGERS}/a{n}", accept=TABLE)
    yield f"GET of {some} in the other version", lambda n: server.ask("GET", f"{OLD_LEDGERS}/b{n}")
    yield f"delete of {some}", lambda n: server.ask("DELETE", f"{LEDGERS}/a{n}")
    yield "create of 1.1 MB", post(LEDGERS, lambda n: ledger(f"c{n}", 17_000))
    yield "create of 1.5 MB of text", post(LEDGERS, lambda n: ledger(f"d{n}", 1, "x" * 1_500_000))
    yield "create of 2.9 MB", post(LEDGERS, lambda n: ledger(f"e{n}", 45_000))
    yield "create of 2.9 MB of empty lists", post(LEDGERS, lambda n: b'{"spec":{"x":[' + b"[]," * 960_000 + b"[]]}}")
    keys = ",".join(f'"k{n:06d}":""' for n in [*range(1, 40_000), 0])
    labelled = f'{{"metadata":{{"name":"NAME","annotations":{{{keys}}}}}}}'.encode()
    yield (
        "create of 40,000 annotations, the last out of order",
        post(LEDGERS, lambda n: labelled.replace(b"NAME", b"f%d" % n)),
    )


def catalogs(server: Patient) -> Iterator[Case]:
    def get(path: str, **headers: str) -> Ask:
        return lambda _: server.ask("GET", path, **headers)

    def replaced(*words: str) -> Ask:
        return lambda _: (200, server.tell(f"replace {DEFINITIONS} {' '.join(words)}"))

    def changed(ask: Ask) -> Ask:
        """With nothing remembered: all of what is served has just been replaced."""

        def again(n: int) -> tuple[int, Any]:
            server.tell(f"replace {DEFINITIONS} anew")
            server.rest()
            return ask(n)

        return again

    many = f"{DEFINITIONS} definitions"
    yield f"replace by {many}", replaced("anew")
    yield f"replace of one of {many}", replaced("changed")
    yield f"/openapi/v3 of {many}, first", changed(get("/openapi/v3"))
    yield f"/openapi/v3, every document of {many}, first", changed(lambda _: _documents(server))
    yield f"/openapi/v3, every document of {many}, protobuf", changed(lambda _: _documents(server, accept=OPENAPI_V3))
    yield f"/openapi/v2 of {many}, first", changed(get("/openapi/v2"))
    yield f"/openapi/v2 of {many}, again", get("/openapi/v2")
    yield f"/openapi/v2 of {many}, protobuf, first", changed(get("/openapi/v2", accept=OPENAPI_V2))
    yield f"/openapi/v2 of {many}, gzip", get("/openapi/v2", accept_encoding="gzip")
    yield f"/apis of {many}, first", changed(get("/apis"))


def _documents(server: Patient, **headers: str) -> tuple[int, bytes]:
    status, index = server.ask("GET", "/openapi/v3")
    for document in json.loads(index)["paths"].values():
        status, _ = server.ask("GET", document["serverRelativeURL"], **headers)
    return status, b""


PARTS = {part.__name__: part for part in (idle, writes, catalogs, lists)}


def main() -> None:
    for name in sys.argv[1:] or PARTS:
        with patient() as server:
            for what, ask in PARTS[name](server):
                measure(server, what, ask)


if __name__ == "__main__":
    main()
