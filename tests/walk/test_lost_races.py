"""A write that lost a race is made again from what the client sent, never from what the first attempt made of it.

Each attempt settles the tree in place (unknown fields go, defaults come, `default` and `prepare` run), and none of
these need give the same when it meets its own result.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from apply_kit import APPLY, JSON_PATCH, MERGE, OLD_ONE, ONE, STRATEGIC, V1, V1BETA1, Barge, OldBarge, canal
from walk_kit import Racing, walk

from oarlock import Context, StoredCollection
from oarlock.testing.server import Answer

KEY = "/registry/apply.example.com/barges/default/one"
FIRST: dict[str, Any] = {
    "apiVersion": V1,
    "kind": "Barge",
    "metadata": {"name": "one"},
    "spec": {"cargo": "coal", "holds": [{"name": "bow"}], "notes": {"a": "b"}},
    "status": {"phase": "new"},
}


class Barges(StoredCollection[Barge]):
    """Their hook makes something else of what it has made before."""

    def prepare(self, new: Barge, old: Barge | None, ctx: Context) -> None:
        new.spec.crew = [*new.spec.crew, "mate"]
        for hold in new.spec.holds:
            hold.tons *= 2


def spec(**more: Any) -> dict[str, Any]:
    return {
        "cargo": "salt",
        "holds": [{"name": "stern", "odd": 1}, {"name": "mid", "tons": 3}],
        "odd": {"x": 1},
        **more,
    }


def operations(*listed: tuple[str, str, Any]) -> list[dict[str, Any]]:
    return [{"op": op, "path": path, "value": value} for op, path, value in listed]


def patch(media: str, where: str, body: Any) -> tuple[str, str, str, Any]:
    return "PATCH", where, media, body


def config(api_version: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": "Barge", "metadata": {"name": "one"}, **fields}


FORCED = "?fieldManager=m&force=true"
SCALE_SPEC = {"replicas": 3, "odd": 1}
STATUS = {"status": {"phase": "afloat", "conditions": [{"type": "Ready", "odd": 1}], "odd": 1}}
PARTS = [
    *operations(("add", "/spec/holds/-", {"name": "stern", "odd": 1}), ("add", "/metadata/labels", {"a": "b"})),
    {"op": "copy", "from": "/spec/notes", "path": "/metadata/annotations"},
    *operations(("add", "/spec/odd", {"x": [1]})),
]
OLD_SPEC = {"load": "x", "odd": 1}
SCALE = {"metadata": {"name": "one", "namespace": "default"}, "spec": {"replicas": 3}}
WRITES = {
    "put of a scale": ("PUT", f"{ONE}/scale", "", SCALE),
    "json patch": patch(JSON_PATCH, ONE, operations(("replace", "/spec", spec()))),
    "json patch of parts": patch(JSON_PATCH, ONE, PARTS),
    "json patch in another version": patch(JSON_PATCH, OLD_ONE, operations(("replace", "/spec", OLD_SPEC))),
    "json patch of a status": patch(JSON_PATCH, f"{ONE}/status", operations(("add", "/status", STATUS["status"]))),
    "json patch of a scale": patch(JSON_PATCH, f"{ONE}/scale", operations(("add", "/spec", SCALE_SPEC))),
    "merge patch": patch(MERGE, ONE, {"spec": spec()}),
    "merge patch of a status": patch(MERGE, f"{ONE}/status", STATUS),
    "merge patch of a scale": patch(MERGE, f"{ONE}/scale", {"spec": SCALE_SPEC}),
    "strategic merge patch": patch(STRATEGIC, ONE, {"spec": spec()}),
    "strategic merge patch of a status": patch(STRATEGIC, f"{ONE}/status", STATUS),
    "apply": patch(APPLY, ONE + FORCED, config(V1, spec={"cargo": "salt", "holds": [{"name": "mid"}]})),
    "apply in another version": patch(APPLY, OLD_ONE + FORCED, config(V1BETA1, spec={"load": "salt"})),
    "apply of a status": patch(APPLY, f"{ONE}/status{FORCED}", config(V1, status={"conditions": [{"type": "Ready"}]})),
}


def rival(tree: Any, attempt: int) -> Any:
    """What another writer did meanwhile touches nothing of what is written."""
    tree["metadata"]["finalizers"] = [f"x.io/{attempt}"]
    return tree


async def outcome(write: tuple[str, str, str, Any], races: int) -> tuple[Answer, Any, int]:
    """The answer, the object then without what the rival wrote, and how many attempts it took."""
    api, _, backend = canal(Barges, OldBarge)
    async with api:
        assert (await api.post(ONE.rpartition("/")[0], FIRST)).status == 201
        racing = Racing(backend, KEY, races, rival)
        method, where, media, body = write
        if method == "PUT":
            answer = await api.put(where, body)
        else:
            answer = await api.patch(where, body, media)
        tree = (await api.get(ONE)).json
        for name in ("uid", "resourceVersion", "creationTimestamp", "managedFields", "finalizers"):
            tree["metadata"].pop(name, None)
        return answer, tree, racing.attempts


@pytest.mark.parametrize("name", WRITES)
@walk
async def test_what_is_written_and_told_is_what_it_is_without_a_race(name: str) -> None:
    write = WRITES[name]
    answer, tree, attempts = await outcome(write, 0)
    assert answer.status == 200, answer.body
    assert attempts == 1
    raced, raced_tree, attempts = await outcome(write, 2)
    assert raced.status == 200, raced.body
    assert attempts == 3
    assert raced_tree == tree
    assert raced.headers.get("warning") == answer.headers.get("warning")
    if "odd" in json.dumps(write[3]):
        assert "unknown field" in raced.headers["warning"]
