"""What a deletion leaves, and which owner references are one, by cases of our own."""

from __future__ import annotations

from typing import Any

import pytest
from walk_kit import GROUP, TICKETS, fleet, made, path, walk

from oarlock import APIServer, Resource
from oarlock.testing.server import InMemory

KEPT = "walk.example.com/kept"


class Anchor(Resource, group=GROUP, version="v1"):
    """What belongs to it goes with it, unless a deletion says otherwise."""


class Wreck(Resource, group=GROUP, version="v1", gc_default="orphan"):
    """What belongs to it stays, unless a deletion says otherwise."""


@pytest.mark.parametrize(
    ("plural", "options", "before", "after"),
    [
        ("anchors", {}, [], None),
        ("anchors", {}, [KEPT], [KEPT]),
        ("anchors", {"propagationPolicy": "Background"}, [], None),
        ("anchors", {"propagationPolicy": "Background"}, ["foregroundDeletion"], None),
        ("anchors", {"propagationPolicy": "Foreground"}, [], ["foregroundDeletion"]),
        ("anchors", {"propagationPolicy": "Foreground"}, [KEPT, "orphan"], [KEPT, "foregroundDeletion"]),
        ("anchors", {"propagationPolicy": "Orphan"}, ["foregroundDeletion"], ["orphan"]),
        ("anchors", {"orphanDependents": True}, [KEPT], [KEPT, "orphan"]),
        ("anchors", {"orphanDependents": False}, ["orphan"], None),
        ("wrecks", {}, [], ["orphan"]),
        ("wrecks", {"propagationPolicy": "Background"}, [], None),
        ("wrecks", {"orphanDependents": False}, [KEPT], [KEPT]),
    ],
)
@walk
async def test_which_finalizers_a_deletion_leaves(
    plural: str, options: dict[str, Any], before: list[str], after: list[str] | None
) -> None:
    where = path(plural, version="v1")
    async with InMemory(APIServer(serve=[Anchor, Wreck], garbage_collection="external")) as api:
        await made(api, where, {"metadata": {"name": "x", "finalizers": before}})
        assert (await api.delete(f"{where}/x", options)).status in (200, 202)
        left = await api.get(f"{where}/x")
        assert (None if left.status == 404 else left.json["metadata"]["finalizers"]) == after


@walk
async def test_an_owner_is_listed_once() -> None:
    def owner(uid: str, **more: Any) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "Dock", "name": "d", "uid": uid, **more}

    api, _ = fleet()
    async with api:
        sent = [owner("1"), owner("2"), owner("1"), owner("2", controller=True)]
        tree = await made(api, TICKETS, {"metadata": {"name": "x", "ownerReferences": sent}})
        assert tree["metadata"]["ownerReferences"] == [owner("1"), owner("2"), owner("2", controller=True)]
