"""Clients choose the patches they send by the OpenAPI documents: what is advertised is what is served, and no more.

kubectl applies with a strategic merge patch where one is advertised, and with a merge patch elsewhere.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from apply_kit import Barge, OldBarge
from walk_kit import everything, walk

from oarlock import APIServer, Context, ObjectMeta, Resource, VirtualCollection
from oarlock.testing.clock import VirtualClock
from oarlock.testing.server import InMemory

STRATEGIC = "application/strategic-merge-patch+json"
KINDS = {
    "application/json-patch+json": [{"op": "test", "path": "/kind", "value": "nothing"}],
    "application/merge-patch+json": {},
    STRATEGIC: {},
    "application/apply-patch+yaml": {},
    "application/apply-patch+cbor": b"\xa0",
}


class Gust(Resource, group="wind.example.com", version="v1"):
    """A gust, which no store keeps."""

    knots: int = 0


class Gusts(VirtualCollection[Gust]):
    """One gust, whatever it's called."""

    async def get(self, name: str, ctx: Context) -> Gust:
        return Gust(metadata=ObjectMeta(name=name, namespace=ctx.target.namespace))

    async def update(self, new: Gust, expected_version: str, ctx: Context) -> Gust:
        return new


def server() -> InMemory:
    fleet = everything().catalog.entries
    return InMemory(APIServer(serve=[*fleet, Barge, OldBarge, Gusts]), clock=VirtualClock())


async def advertised(api: InMemory) -> dict[str, dict[str, set[str]]]:
    """The kinds of patches of each path, by document."""
    found: dict[str, dict[str, set[str]]] = {}
    index = (await api.get("/openapi/v3")).json["paths"]
    for name in ["v2", *(f"v3/{name}" for name in index)]:
        document = (await api.get(f"/openapi/{name}")).json
        for path, item in document["paths"].items():
            if "patch" in item:
                operation = item["patch"]
                kinds = operation["consumes"] if name == "v2" else operation["requestBody"]["content"]
                found.setdefault(name[:2], {})[path] = set(kinds)
    return found


@walk
async def test_both_documents_say_what_the_server_takes() -> None:
    async with server() as api:
        said = await advertised(api)
        assert said["v2"] == said["v3"]
        assert {path.rpartition("}")[2] for path in said["v2"]} == {"", "/status", "/scale"}
        for path, kinds in said["v2"].items():
            where = path.replace("{namespace}", "default").replace("{name}", "one")
            for kind, body in KINDS.items():
                answer = await api.patch(f"{where}?fieldManager=m", body, kind)
                served = answer.status != 415
                assert served == (kind in kinds)
                if not served:
                    assert set(json.loads(answer.body)["message"].rpartition(": ")[2].split(", ")) == kinds


@pytest.mark.parametrize(
    ("resource", "takes"),
    [("boats", True), ("boats/{name}/status", True), ("barges/{name}/scale", True), ("crates", False), ("gusts", True)],
)
def test_strategic_merges_are_for_declared_types(resource: str, takes: bool) -> None:
    @walk
    async def ask() -> None:
        async with server() as api:
            said = await advertised(api)
            whole = resource if "/" in resource else f"{resource}/{{name}}"
            paths = [path for path in said["v3"] if path.endswith(f"/{whole}")]
            assert paths
            for documents in said.values():
                assert {STRATEGIC in documents[path] for path in paths} == {takes}

    ask()


@walk
async def test_lists_that_are_merged_say_by_what() -> None:
    """A strategic merge patch is made on the client, which reads in the document how the server will merge."""
    async with server() as api:
        definitions: Any = (await api.get("/openapi/v2")).json["definitions"]
        holds = definitions["com.example.apply.v1.BargeSpec"]["properties"]["holds"]
        assert holds["x-kubernetes-patch-strategy"] == "merge"
        assert holds["x-kubernetes-patch-merge-key"] == "name"
        crate = json.dumps([one for name, one in definitions.items() if name.startswith("com.example.walk.v1.Crate")])
        assert "x-kubernetes-patch" not in crate
