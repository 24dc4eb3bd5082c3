"""A server in a process of its own that serves many definitions, and changes one when it is told to.

The child (``python -m support.definitions FOLDER PORT STORAGE COUNT GROUPS``) answers one line of JSON to each line on
its stdin. Its definitions come from JSON, as those that are objects in a store would.
"""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import uvloop

from oarlock import APIServer
from oarlock.client.clock import SystemClock
from oarlock.endpoints.catalog import Catalog
from oarlock.registry.served import Served
from oarlock.schema.crd import parse
from oarlock.server.assembly.lifecycle import serve_until_signal
from oarlock.server.config import ServerConfig
from support.heart import ObservedServer

MEMORY_BYTES = 6 * 1024**3


def definition(number: int, groups: int, note: str = "") -> Served:
    """A resource of 60 fields, as a CustomResourceDefinition of medium size has."""
    return Served(parse(json.loads(json.dumps(_crd(number, groups, note)))))


def _crd(number: int, groups: int, note: str) -> dict[str, Any]:
    parts = {f"part{n}": {"type": "object", "description": "A part.", "properties": _part()} for n in range(5)}
    spec = {"type": "object", "description": f"What the user wants.{note}", "properties": parts}
    entry = {key: _leaf("string") for key in ("type", "status", "reason", "message", "lastTransitionTime")}
    conditions = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {"type": "object", "required": ["type", "status"], "properties": entry},
    }
    fields = {"phase": _leaf("string"), "observedGeneration": _leaf("integer"), "conditions": conditions}
    schema = {"type": "object", "properties": {"spec": spec, "status": {"type": "object", "properties": fields}}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}],
    }
    group = group_of(number, groups)
    names = {"plural": f"kinds{number}", "kind": f"Kind{number}", "singular": f"kind{number}"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"kinds{number}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def _part() -> dict[str, Any]:
    texts = {f"setting{n}": {**_leaf("string"), "maxLength": 63} for n in range(5)}
    return {
        **texts,
        "replicas": {**_leaf("integer"), "minimum": 0},
        "enabled": _leaf("boolean"),
        "tags": {"type": "array", "items": {"type": "string"}, "description": "Tags of this part."},
        "mode": {**_leaf("string"), "enum": ["Fast", "Safe", "Both"], "default": "Safe"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Labels of it."},
    }


def _leaf(kind: str) -> dict[str, Any]:
    return {"type": kind, "description": "What this field of the object is for, in a short sentence."}


def group_of(number: int, groups: int) -> str:
    return f"group{number % groups}.example.com"


class _Child(ObservedServer):
    def __init__(self, server: APIServer, definitions: list[Served], groups: int) -> None:
        super().__init__(server)
        self._definitions = definitions
        self._groups = groups

    def greeting(self) -> dict[str, float]:
        return {"ready_s": time.monotonic() - START}

    async def command(self, word: str, *arguments: str) -> None:
        self.changes += 1
        number = int(arguments[0])
        changed = definition(number, self._groups, f" Changed {self.changes} times.")
        gc.collect()
        await asyncio.sleep(0.05)
        self.heart.rest()
        on_loop, everywhere, began = time.thread_time(), time.process_time(), time.monotonic()
        if word == "list":
            entries = [*self._definitions[:number], changed, *self._definitions[number + 1 :]]
            await self.server.replace(Catalog.of(entries))
        else:
            await self.server.change(put=[changed])
        took = time.monotonic() - began
        figures = {"loop_ms": (time.thread_time() - on_loop) * 1e3, "all_ms": (time.process_time() - everywhere) * 1e3}
        await asyncio.sleep(0.05)
        held = {"held_ms": self.heart.cpu_s * 1e3, "held_wall_ms": self.heart.wall_s * 1e3}
        self.say({**figures, **held, "took_ms": took * 1e3})


START = time.monotonic()


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    folder, port, count, groups = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[4]), int(sys.argv[5])
    made = [definition(n, groups) for n in range(count)]
    global START
    START = time.monotonic()
    server = APIServer(serve=made)
    config = ServerConfig(secure_port=port, storage=sys.argv[3], data_dir=folder, token_auth_file=folder / "tokens.csv")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve_until_signal(server, config, SystemClock(), _Child(server, made, groups)))


if __name__ == "__main__":
    main()
