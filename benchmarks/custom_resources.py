"""What do custom resources cost? `oarlock up` with 2,000 definitions, and the verbs of one of them.

The first part installs definitions of 60 fields one after the other, each with an object as soon as that can be
created; how long the event loop was held is what the slowest of many small requests beside it waited for. The second is
one resource with 30 fields, three rules and a status, used by a user whom a Role lets in: server CPU per operation, 16
in flight, HTTP/1.1. ``definitions 200`` or ``resource`` runs one part.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import threading
import time
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Any

from support.control_plane import Administrator, control_plane
from support.load import Figure, Load, fill, median_of
from support.wardle import Server

COUNT = 2_000
OBJECTS = 512
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SENSORS = "/apis/load.example.com/v1/namespaces/default/sensors"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def definition(group: str, plural: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"spec": spec, "status": {"type": "object", "properties": {}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [{**version, "subresources": {"status": {}}}],
        },
    }


# Definitions -------------------------------------------------------------------------------------------------------


def numbered(number: int, note: str = "") -> dict[str, Any]:
    """One of thousands: 60 fields, 20 groups."""
    field = {"type": "string", "pattern": "^[a-z0-9-]*$", "maxLength": 63, "description": f"A setting.{note}"}
    spec = {"type": "object", "properties": {f"field{n}": field for n in range(60)}}
    return definition(f"group{number % 20}.example.com", f"things{number}", f"Thing{number}", spec)


def place(number: int) -> str:
    return f"/apis/group{number % 20}.example.com/v1/namespaces/default/things{number}"


class Prober:
    """Asks for a small thing all the time, from a thread; `longest_ms` is what it waited at most."""

    def __init__(self, server: Server) -> None:
        self._asks = Administrator(server)
        self._ended = threading.Event()
        self._times: list[float] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while True:
            begun = time.perf_counter()
            self._asks.ask("GET", "/livez")
            self._times.append(time.perf_counter() - begun)
            if self._ended.wait(0.002):
                return

    def longest_ms(self) -> str:
        self._ended.set()
        self._thread.join()
        ordered = sorted(self._times)
        return f"{ordered[-1] * 1e3:.0f} ms (99.9 % within {ordered[int(len(ordered) * 0.999)] * 1e3:.0f})"


def install(admin: Administrator, number: int) -> tuple[float, float]:
    """Seconds from the answer to the definition to the first object; and of the definition's own request."""
    begun = time.perf_counter()
    admin.create(DEFINITIONS, numbered(number))
    answered = time.perf_counter()
    body = {"apiVersion": f"group{number % 20}.example.com/v1", "kind": f"Thing{number}", "metadata": {"name": "a"}}
    while admin.ask("POST", place(number), body)[0] != 201:
        if time.perf_counter() - answered > 30:
            raise SystemExit(f"definition {number} isn't served after 30 s")
        time.sleep(0.001)
    return time.perf_counter() - answered, answered - begun


def definitions(count: int) -> None:
    with tempfile.TemporaryDirectory(prefix="oarlock-bench-") as temporary:
        folder = Path(temporary)
        with control_plane(folder) as server:
            admin = Administrator(server)
            print(f"start: {server.ready_s:.2f} s, RSS {server.rss_mb():.0f} MB")
            prober, cpu = Prober(server), server.cpu_s()
            begun = time.perf_counter()
            times = [install(admin, number) for number in range(count)]
            used, elapsed = server.cpu_s() - cpu, time.perf_counter() - begun
            last = times[-100:]
            print(f"{count:,} definitions with an object each: {used:.1f} s CPU, {elapsed:.1f} s, probing included")
            print(f"  longest wait beside it: {prober.longest_ms()}")
            for what, at in (("definition answered to first object", 0), ("the definition's request", 1)):
                series = [one[at] * 1e3 for one in last]
                print(f"  last 100, {what}: median {statistics.median(series):.1f} ms, most {max(series):.1f} ms")
            print(f"  RSS {server.rss_mb():,.0f} MB")
            documents(server, admin, count)
        begun = time.perf_counter()
        with control_plane(folder) as server:
            admin = Administrator(server)
            for number in (0, count - 1):
                while admin.ask("GET", f"{place(number)}/a")[0] != 200:
                    time.sleep(0.01)
            print(
                f"restart: the last one served after {time.perf_counter() - begun:.1f} s, RSS {server.rss_mb():,.0f} MB"
            )


def documents(server: Server, admin: Administrator, count: int) -> None:
    """How long documents take at first, and after one definition has changed."""
    for moment in ("at first", "after one changed"):
        if moment == "after one changed":
            _, data = admin.ask("GET", f"{DEFINITIONS}/{numbered(7)['metadata']['name']}")
            changed = json.loads(data)
            changed["spec"]["versions"] = numbered(7, " Changed.")["spec"]["versions"]
            status, answer = admin.ask("PUT", f"{DEFINITIONS}/{changed['metadata']['name']}", changed)
            assert status == 200, answer
        for path, accept in (("/openapi/v3", "*/*"), ("/apis", AGGREGATED), ("/openapi/v2", "application/json")):
            prober, begun = Prober(server), time.perf_counter()
            status, data = admin.ask("GET", path, accept=accept)
            took = (time.perf_counter() - begun) * 1e3
            print(
                f"  {path} {moment}: {took:,.1f} ms, {len(data):,} bytes, longest wait beside it {prober.longest_ms()}"
            )
    print(f"  RSS then {server.rss_mb():,.0f} MB with {count:,}")


# One resource ------------------------------------------------------------------------------------------------------


def sensors() -> dict[str, Any]:
    """30 fields of all kinds, 2 defaults and 3 rules."""
    text = {"type": "string", "pattern": "^[a-zA-Z0-9 .:/-]*$", "maxLength": 128}
    fields: dict[str, Any] = {f"text{n}": text for n in range(12)}
    fields |= {f"count{n}": {"type": "integer", "minimum": 0, "maximum": 100_000} for n in range(5)}
    fields |= {f"flag{n}": {"type": "boolean"} for n in range(3)}
    port = {"name": {"type": "string", "maxLength": 20}, "port": {"type": "integer"}}
    fields |= {
        "mode": {"type": "string", "enum": ["Auto", "Manual", "Off"], "default": "Auto"},
        "level": {"type": "integer", "default": 3},
        "ratio": {"type": "number", "minimum": 0},
        "minimum": {"type": "integer"},
        "maximum": {"type": "integer"},
        "since": {"type": "string", "format": "date-time"},
        "target": {"x-kubernetes-int-or-string": True},
        "settings": {
            "type": "object",
            "maxProperties": 20,
            "additionalProperties": {"type": "string", "maxLength": 64},
        },
        "names": {"type": "array", "maxItems": 20, "items": {"type": "string", "maxLength": 64}},
        "ports": {
            "type": "array",
            "maxItems": 20,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": port},
        },
    }
    spec = {
        "type": "object",
        "properties": fields,
        "required": ["text0"],
        "x-kubernetes-validations": [
            {"rule": "self.minimum <= self.maximum", "message": "minimum is above maximum"},
            {"rule": "self.ports.all(p, p.port > 0 && p.port < 65536)", "message": "a port is out of range"},
            {"rule": "self.mode != 'Off' || self.count0 == 0", "message": "nothing is counted when it is off"},
        ],
    }
    return definition("load.example.com", "sensors", "Sensor", spec)


def sensor(name: str, number: int, version: str = "") -> bytes:
    spec: dict[str, Any] = {f"text{n}": f"some text of field {n} of it" for n in range(12)}
    spec |= {f"count{n}": n for n in range(5)} | {f"flag{n}": n > 0 for n in range(3)}
    spec |= {"count1": number % 1000, "ratio": 0.25, "minimum": 1, "maximum": 9, "since": "2026-01-01T00:00:00Z"}
    spec |= {"target": "50%", "settings": {"colour": "red", "size": "large"}, "names": ["one", "two", "three"]}
    spec["ports"] = [{"name": "http", "port": 80}, {"name": "https", "port": 443}]
    metadata = {"name": name, **({"resourceVersion": version} if version else {})}
    tree = {"apiVersion": "load.example.com/v1", "kind": "Sensor", "metadata": metadata, "spec": spec}
    return json.dumps(tree, separators=(",", ":")).encode()


def allow(admin: Administrator) -> None:
    """Let the user of the load work with sensors."""
    rules = [{"apiGroups": ["load.example.com"], "resources": ["sensors"], "verbs": ["*"]}]
    head = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/"
    admin.create(f"{roles}roles", {**head, "kind": "Role", "metadata": {"name": "bench"}, "rules": rules})
    who = [{"kind": "User", "name": "bench", "apiGroup": "rbac.authorization.k8s.io"}]
    role = {"kind": "Role", "name": "bench", "apiGroup": "rbac.authorization.k8s.io"}
    binding = {**head, "kind": "RoleBinding", "metadata": {"name": "bench"}, "subjects": who, "roleRef": role}
    admin.create(f"{roles}rolebindings", binding)


def resource() -> None:
    load, media = Load(most=20_000), "application/json"
    with control_plane() as server:
        admin = Administrator(server)
        admin.create(DEFINITIONS, sensors())
        allow(admin)
        while admin.ask("GET", SENSORS)[0] != 200:
            time.sleep(0.01)
        fill(server, lambda n: ("POST", SENSORS, sensor(f"old-{n}", n), media), OBJECTS)
        print(median_of(server, lambda n: ("GET", f"{SENSORS}/old-{n % OBJECTS}", b"", ""), load).line("GET"))
        series = iter(range(1_000_000))
        create = median_of(server, lambda n: ("POST", SENSORS, sensor(f"new-{next(series)}", n), media), load)
        print(create.line("CREATE"))
        print(updates(server, admin, load).line("UPDATE"))
        merge = lambda n: (  # noqa: E731 (as short as the others)
            *("PATCH", f"{SENSORS}/old-{n % OBJECTS}", b'{"spec":{"count1":%d}}' % (n % 1000)),
            "application/merge-patch+json",
        )
        print(median_of(server, merge, load).line("merge PATCH"))
        print(median_of(server, applied, load).line("APPLY"))
    with control_plane() as server:
        admin = Administrator(server)
        admin.create(DEFINITIONS, sensors())
        allow(admin)
        while admin.ask("GET", SENSORS)[0] != 200:
            time.sleep(0.01)
        fill(server, lambda n: ("POST", SENSORS, sensor(f"old-{n}", n), media), 1_000)
        size = len(admin.ask("GET", f"{SENSORS}/old-1")[1])
        one = replace(load, in_flight=1, most=500)
        print(median_of(server, lambda n: ("GET", SENSORS, b"", ""), one).line(f"LIST of 1,000 of {size:,} bytes"))


def applied(n: int) -> tuple[str, str, bytes, str]:
    name = f"old-{n % OBJECTS}"
    body = (
        b'{"apiVersion":"load.example.com/v1","kind":"Sensor","metadata":{"name":"%s","labels":{"tier":"top"},'
        b'"annotations":{"example.com/by":"bench"}},"spec":{"count2":%d}}' % (name.encode(), n % 1000)
    )
    return "PATCH", f"{SENSORS}/{name}?fieldManager=applier&force=true", body, "application/apply-patch+yaml"


def updates(server: Server, admin: Administrator, load: Load) -> Figure:
    """PUTs, each with the resourceVersion that the PUT before it on that object returned."""
    items = json.loads(admin.ask("GET", SENSORS)[1])["items"]
    free = deque((i["metadata"]["name"], i["metadata"]["resourceVersion"]) for i in items)
    busy: dict[int, str] = {}

    def update(n: int) -> tuple[str, str, bytes, str]:
        name, version = free.popleft()
        busy[n] = name
        return "PUT", f"{SENSORS}/{name}", sensor(name, n, version), "application/json"

    def seen(n: int, body: bytes) -> None:
        free.append((busy.pop(n), json.loads(body)["metadata"]["resourceVersion"]))

    return median_of(server, update, replace(load, seen=seen))


def main() -> None:
    words = sys.argv[1:]
    if not words or words[0] == "definitions":
        definitions(int(words[1]) if len(words) > 1 else COUNT)
    if not words or words[0] == "resource":
        resource()


if __name__ == "__main__":
    main()
