"""What does the schema cost a write? Prints µs for each step on a typical object of about 1 KB.

Run: python benchmarks/schema_pipeline.py
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from oarlock.meta.json_trees import copy_json
from oarlock.schema.compiled import CompiledVersion, compile_version
from oarlock.schema.definition import Names, ResourceDefinition, VersionDefinition
from oarlock.schema.validation.objectmeta import validate_object_meta

ROUNDS = 2000
REPEATS = 7

_CONTAINER: dict[str, Any] = {
    "type": "object",
    "required": ["name", "image"],
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 63},
        "image": {"type": "string"},
        "pullPolicy": {"type": "string", "enum": ["Always", "IfNotPresent", "Never"], "default": "IfNotPresent"},
        "args": {"type": "array", "items": {"type": "string"}, "x-oarlock-omit-empty": True},
        "env": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "value": {"type": "string", "x-oarlock-omit-empty": True}},
            },
        },
        "ports": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "port": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 65535},
                    "protocol": {"type": "string", "default": "TCP"},
                },
            },
        },
    },
}

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
        "spec": {
            "type": "object",
            "required": ["replicas"],
            "properties": {
                "replicas": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 100, "default": 1},
                "reference": {"type": "string", "pattern": "^[a-z0-9-]*$", "x-oarlock-omit-empty": True},
                "paused": {"type": "boolean", "default": False},
                "selector": {"type": "object", "additionalProperties": {"type": "string"}},
                "containers": {"type": "array", "items": _CONTAINER},
            },
        },
        "status": {
            "type": "object",
            "properties": {
                "phase": {"type": "string", "enum": ["Pending", "Running", "Failed"]},
                "readyReplicas": {"type": "integer", "format": "int32"},
                "conditions": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["type", "status"],
                        "properties": {
                            "type": {"type": "string"},
                            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                            "reason": {"type": "string"},
                            "message": {"type": "string"},
                            "lastTransitionTime": {"type": "string", "format": "date-time"},
                        },
                    },
                },
            },
        },
    },
}

OBJECT: dict[str, Any] = {
    "apiVersion": "bench.example.com/v1",
    "kind": "Thing",
    "metadata": {
        "name": "thing-000123",
        "namespace": "default",
        "uid": "d7ae9a9e-993d-4311-887a-23f02dd9bfc5",
        "resourceVersion": "123456",
        "creationTimestamp": "2026-11-20T13:11:09Z",
        "labels": {"app": "thing", "app.kubernetes.io/part-of": "bench"},
        "annotations": {"example.com/note": "a note of some words"},
    },
    "spec": {
        "replicas": 3,
        "reference": "other-thing",
        "selector": {"app": "thing"},
        "containers": [
            {
                "name": "main",
                "image": "registry.example.com/thing:1.2.3",
                "args": ["--verbose", "--port=8080"],
                "env": [{"name": "MODE", "value": "production"}, {"name": "LEVEL", "value": "info"}],
                "ports": [{"port": 8080}, {"port": 9090, "protocol": "TCP"}],
            }
        ],
    },
    "status": {
        "phase": "Running",
        "readyReplicas": 3,
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "AllReplicasReady",
                "message": "3 of 3 replicas are ready",
                "lastTransitionTime": "2026-11-20T13:12:10Z",
            }
        ],
    },
}


def compiled(*, typed: bool) -> CompiledVersion:
    version = VersionDefinition("v1", SCHEMA, selectable=(".spec.reference", ".status.phase"))
    names = Names("things", "Thing")
    definition = ResourceDefinition("bench.example.com", names, "Namespaced", (version,), "v1", "v1", typed=typed)
    return compile_version(definition, "v1")


def measure(step: Callable[[Any], object]) -> float:
    """µs per call, the best of several rounds; each call gets a tree of its own."""
    best = float("inf")
    for _ in range(REPEATS):
        trees = [copy_json(OBJECT) for _ in range(ROUNDS)]
        start = time.perf_counter()
        for tree in trees:
            step(tree)
        best = min(best, time.perf_counter() - start)
    return best / ROUNDS * 1e6


def main() -> None:
    print(f"object: {len(json.dumps(OBJECT, separators=(',', ':')))} bytes")
    for typed in (True, False):
        version = compiled(typed=typed)
        steps: dict[str, Callable[[Any], object]] = {
            "misfits": version.misfits,
            "prune": version.prune,
            "normalize": version.normalize,
            "default": version.default,
        }
        print("typed" if typed else "custom resource")
        figures = {name: measure(step) for name, step in steps.items()}
        for name, figure in figures.items():
            print(f"  {name:20} {figure:6.2f} µs")
        print(f"  {'together':20} {sum(figures.values()):6.2f} µs")
        print(f"  {'validate':20} {measure(version.validate):6.2f} µs")
        print(f"  {'selectable_values':20} {measure(version.selectable_values):6.2f} µs")

    def metadata(tree: Any) -> object:
        return validate_object_meta(tree["metadata"], namespaced=True, name_rule="dns-subdomain")

    print(f"validate_object_meta   {measure(metadata):6.2f} µs")


if __name__ == "__main__":
    main()
