"""What tracking managed fields costs an update of an object of 1 KB, and what an apply of it costs, in µs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from oarlock.codec import json
from oarlock.patch.apply.schema import object_type
from oarlock.patch.apply.tracking import FieldManager, FieldTracker
from oarlock.schema.structural.nodes import parse

_TEXT = {"type": "string"}
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "apiVersion": _TEXT,
        "kind": _TEXT,
        "metadata": {"type": "object"},
        "spec": {
            "type": "object",
            "properties": {
                "reference": _TEXT,
                "replicas": {"type": "integer"},
                "paused": {"type": "boolean"},
                "template": {"type": "object", "additionalProperties": _TEXT},
                "ports": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "properties": {"name": _TEXT, "port": {"type": "integer"}}},
                },
                "zones": {"type": "array", "x-kubernetes-list-type": "set", "items": _TEXT},
            },
        },
        "status": {
            "type": "object",
            "properties": {"ready": {"type": "integer"}, "message": _TEXT},
        },
    },
}
_VERSION = "wardle.example.com/v1"


def _object() -> dict[str, Any]:
    """About 1 KB of JSON, managedFields not counted."""
    return {
        "apiVersion": _VERSION,
        "kind": "Flunder",
        "metadata": {
            "name": "flunder-1",
            "namespace": "default",
            "uid": "51ec8ff2-fed9-4177-b69d-cad35c1d9802",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {f"example.com/label-{n}": f"value-{n}" for n in range(6)},
            "annotations": {"example.com/note": "x" * 200},
        },
        "spec": {
            "reference": "fischer-1",
            "replicas": 3,
            "paused": False,
            "template": {f"key-{n}": f"some value {n}" for n in range(8)},
            "ports": [{"name": f"port-{n}", "port": 8000 + n} for n in range(4)],
            "zones": ["a", "b", "c"],
        },
        "status": {"ready": 2, "message": "two of three are ready"},
    }


def _measure(name: str, run: Callable[[Any], object], prepare: Callable[[], Any]) -> None:
    """The best of a few rounds; preparing isn't counted."""
    best = float("inf")
    for _ in range(20):
        prepared = [prepare() for _ in range(200)]
        begin = time.perf_counter()
        for one in prepared:
            run(one)
        best = min(best, (time.perf_counter() - begin) / len(prepared))
    print(f"{name:<58} {best * 1e6:7.1f} µs")


def main() -> None:
    tracker = FieldTracker({_VERSION: object_type(parse(_SCHEMA))})

    def writer(manager: str, subresource: str = "") -> FieldManager:
        return FieldManager(manager, _VERSION, "2026-01-02T00:00:00Z", subresource)

    fresh = json.encode(_object())
    live = tracker.update(None, _object(), writer("creator"))
    changed = {**live, "spec": {**live["spec"], "paused": True}}
    live = tracker.update(live, changed, writer("controller"))
    live["status"] = {**live["status"], "ready": 1}
    stored = json.encode(live)
    print(f"{'the object, with its managedFields':<58} {len(fresh)} and {len(stored)} bytes")

    def two() -> tuple[Any, Any]:
        return json.decode(stored), json.decode(stored)

    def without() -> tuple[Any, Any]:
        before, after = two()
        after["metadata"].pop("managedFields")
        after["spec"]["replicas"] = 4
        return before, after

    def replicas() -> tuple[Any, Any]:
        before, after = two()
        after["spec"]["replicas"] = 4
        return before, after

    def status() -> tuple[Any, Any]:
        before, after = two()
        after["status"] = {"ready": 3, "message": "all are ready"}
        return before, after

    def labels() -> tuple[Any, Any]:
        before, after = two()
        after["metadata"]["labels"] = {"example.com/label-9": "new"}
        after["spec"]["ports"] = after["spec"]["ports"][1:]
        return before, after

    def update(manager: str, subresource: str = "") -> Callable[[Any], object]:
        who = writer(manager, subresource)
        return lambda pair: tracker.update(pair[0], pair[1], who)

    _measure("create", lambda new: tracker.update(None, new, writer("creator")), lambda: json.decode(fresh))
    _measure("update, nothing changed", update("controller"), two)
    _measure("update, one field", update("controller"), replicas)
    _measure("update, one field, managedFields not sent", update("controller"), without)
    _measure("update of the status", update("controller", "status"), status)
    _measure("update, labels and a list item", update("somebody"), labels)

    config = json.decode(fresh)
    for name in ("uid", "creationTimestamp"):
        del config["metadata"][name]
    del config["status"]
    config["spec"]["paused"] = True
    who = writer("applier")
    applied = tracker.apply(json.decode(stored), config, who)
    stored = json.encode(applied)
    less = json.decode(json.encode(config))
    del less["spec"]["ports"][0], less["metadata"]["labels"]["example.com/label-3"]
    less["spec"]["reference"] = "fischer-2"

    def one() -> Any:
        return json.decode(stored)

    _measure("apply, creating", lambda _: tracker.apply(None, config, who), one)
    _measure("apply, nothing changed", lambda live: tracker.apply(live, config, who), one)
    _measure(
        "apply, one field changed, an item and a label dropped",
        lambda live: tracker.apply(live, less, who, force=True),
        one,
    )


if __name__ == "__main__":
    main()
