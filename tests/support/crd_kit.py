"""Definitions for tests, and waiting for what becomes of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from oarlock.testing import InMemory

GROUP = "names.example.com"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

Tree = dict[str, Any]


def version(name: str = "v1", *, storage: bool = True, **fields: Any) -> Tree:
    """A version whose objects have a spec with a text and a number."""
    spec = {"type": "object", "properties": {"a": {"type": "string"}, "n": {"type": "integer"}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return {"name": name, "served": True, "storage": storage, "schema": schema, **fields}


def definition(plural: str = "plains", kind: str = "Plain", *versions: Tree, group: str = GROUP, **spec: Any) -> Tree:
    """A definition as its author would write it."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [*versions] or [version()],
            **spec,
        },
    }


def conditions(tree: Tree) -> dict[str, tuple[str, str]]:
    """Status and reason of each condition."""
    found = tree["status"]["conditions"] or ()
    return {one["type"]: (one["status"], one["reason"]) for one in found}


async def until(api: InMemory, name: str, holds: Callable[[Tree | None], bool]) -> Tree | None:
    """The definition as soon as `holds` says so of it; None stands for one that isn't there."""
    async with asyncio.timeout(60), api.watch(f"{DEFINITIONS}?fieldSelector=metadata.name%3D{name}") as events:
        answer = await api.get(f"{DEFINITIONS}/{name}")
        tree = answer.json if answer.status == 200 else None
        while not holds(tree):
            kind, tree = await events.next()
            if kind == "DELETED":
                tree = None
        return tree


async def in_time(api: InMemory, path: str, holds: Callable[[Any], bool]) -> Any:
    """What `path` answers as soon as `holds` says so of it, while the virtual clock of the server goes on."""
    async with asyncio.timeout(60):
        while not holds(answer := await api.get(path)):
            await api.clock.run(1)  # type: ignore[attr-defined]
        return answer


async def established(api: InMemory, tree: Tree) -> Tree:
    """Create a definition; returns it when it is established."""
    made = await api.post(DEFINITIONS, tree)
    assert made.status == 201, made.body
    name = tree["metadata"]["name"]
    found = await until(api, name, lambda one: one is not None and conditions(one).get("Established", " ")[0] == "True")
    assert found is not None
    return found


class Shared:
    """A store that outlives the servers on it."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    async def start(self) -> None:
        return None

    async def close(self) -> None:
        return None
