"""The API server's own tables of deletions and owner references, sent to a whole server."""

from __future__ import annotations

from typing import Any

from walk_kit import GROUP, TICKETS, fleet, made, path, walk

from oarlock import APIServer, Resource
from oarlock.testing.server import InMemory

MISC = "misc.json"
GO_NAMES = {
    "metav1.FinalizerOrphanDependents": "orphan",
    "metav1.FinalizerDeleteDependents": "foregroundDeletion",
    "metav1.DeletePropagationBackground": "Background",
    "metav1.DeletePropagationForeground": "Foreground",
    "metav1.DeletePropagationOrphan": "Orphan",
}
FINALIZERS = {
    "podWithOrphanFinalizer": ["foo.com/x", "orphan", "bar.com/y"],
    "podWithOtherFinalizers": ["foo.com/x", "bar.com/y"],
    "podWithNoFinalizer": [],
    "podWithOnlyOrphanFinalizer": ["orphan"],
}


class Barrel(Resource, group=GROUP, version="v1", gc_default="orphan"):
    """Its dependents stay unless a deletion says otherwise."""

    litres: int = 1


class Crane(Resource, group=GROUP, version="v1"):
    """Its dependents go with it unless a deletion says otherwise."""

    tons: int = 1


def plain(value: Any) -> Any:
    """Go's constants as what they are."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    return GO_NAMES[value["$go"]] if isinstance(value, dict) else value


async def finalizers_after(api: InMemory, case: dict[str, Any], there: list[str]) -> list[str] | None:
    """Delete an object with these finalizers as the case says: what it has then, None when it is gone."""
    where = path("barrels" if "Orphan" in case["strategy"]["$type"] else "cranes", version="v1")
    tree = await made(api, where, {"metadata": {"generateName": "x-", "finalizers": there}})
    name = tree["metadata"]["name"]
    options = case["options"] or {}
    given = {"orphanDependents": options.get("OrphanDependents"), "propagationPolicy": options.get("PropagationPolicy")}
    body = {key: plain(value) for key, value in given.items() if value is not None}
    answer = await api.delete(f"{where}/{name}", body)
    assert answer.status in (200, 202), answer
    left = await api.get(f"{where}/{name}")
    if left.status == 404:
        return None
    again = await api.delete(f"{where}/{name}", body)
    assert again.json == left.json  # which is no write
    finalizers: list[str] = left.json["metadata"]["finalizers"]
    return finalizers


def test_which_finalizers_a_deletion_leaves(shared_vectors: Any) -> None:
    groups = shared_vectors(MISC)["groups"]

    @walk
    async def run() -> None:
        async with InMemory(APIServer(serve=[Barrel, Crane], garbage_collection="external")) as api:
            for case in groups["delete_orphan"]:
                left = await finalizers_after(api, case, FINALIZERS[case["pod"]["$call"]])
                expected = None if case["expectNotFound"] else plain(case["updatedFinalizers"])
                assert left == expected, case
            for case in groups["delete_propagation"]:
                left = await finalizers_after(api, case, plain(case.get("existingFinalizers") or []))
                expected = None if case.get("expectedNotFound") else plain(case["expectedFinalizers"])
                assert left == expected, case

    run()


def test_which_owner_references_are_the_same(shared_vectors: Any) -> None:
    cases = shared_vectors(MISC)["groups"]["fieldmgr_dedup_owner_refs"]

    def owners(listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
        names = {"APIVersion": "apiVersion", "Kind": "kind", "Name": "name", "UID": "uid", "Controller": "controller"}
        names["BlockOwnerDeletion"] = "blockOwnerDeletion"
        return [{names[key]: value for key, value in owner.items() if key in names} for owner in listed]

    @walk
    async def run() -> None:
        api, _ = fleet()
        async with api:
            for case in cases:
                sent = {"generateName": "x-", "ownerReferences": owners(case["ownerReferences"])}
                tree = await made(api, TICKETS, {"metadata": sent})
                assert tree["metadata"]["ownerReferences"] == owners(case["expected"]), case["name"]

    run()
