"""Who owns which field after every kind of write, seen in ``metadata.managedFields`` of a whole server."""

from __future__ import annotations

from typing import Any

import pytest
from apply_kit import (
    BARGES,
    GROUP,
    JSON_PATCH,
    MERGE,
    OLD_ONE,
    ONE,
    STRATEGIC,
    V1,
    V1BETA1,
    Barge,
    OldBarge,
    apply,
    barge,
    canal,
    entries,
    owned,
    send,
    time_of,
)
from walk_kit import failure, walk

from oarlock import Admission, Context, Model, Resource, Review, StoredCollection
from oarlock.registry.served import Served
from oarlock.schema.definition import Names, ResourceDefinition, VersionDefinition
from oarlock.testing.server import InMemory

SPEC = {"cargo": "coal", "holds": [{"name": "fore"}], "ports": ["basel"], "crew": ["anna"]}


async def create(api: InMemory, spec: Any = None, query: str = "?fieldManager=maker", **metadata: Any) -> Any:
    answer = await api.post(BARGES + query, barge(SPEC if spec is None else spec, **metadata))
    assert answer.status == 201, answer.body
    return answer.json


async def put(api: InMemory, tree: Any, manager: str, where: str = ONE) -> Any:
    answer = await api.put(f"{where}?fieldManager={manager}", tree)
    assert answer.status == 200, answer.body
    return answer.json


@walk
async def test_who_creates_owns_what_it_sent():
    api, _, _ = canal()
    async with api:
        tree = await create(api, labels={"a": "1"}, finalizers=["x.example.com/a"])
        (entry,) = tree["metadata"]["managedFields"]
        facts = {name: value for name, value in entry.items() if name != "fieldsV1"}
        assert facts == {
            "manager": "maker",
            "operation": "Update",
            "apiVersion": V1,
            "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
        }
        assert owned(tree, "maker", "Update") == {
            "metadata.labels",
            "metadata.labels.a",
            "metadata.finalizers",
            "metadata.finalizers[=x.example.com/a]",
            "spec.cargo",
            "spec.holds",
            "spec.holds[fore]",
            "spec.holds[fore].name",
            "spec.holds[fore].tons",
            "spec.ports",
            "spec.ports[=basel]",
            "spec.crew",
        }


class Mast(Model):
    """One of them."""

    height: int


class Rig(Model):
    """What stands on deck."""

    main: Mast
    mizzen: Mast | None = None
    stays: dict[str, str]


class Schooner(Resource, group=GROUP, version="v1"):
    """A ship of required parts."""

    rig: Rig
    spare: Rig | None = None


@walk
async def test_objects_that_every_object_has_belong_to_nobody_but_what_is_in_them_does():
    """As with Go's structs: those held by value are always there, pointers, maps and lists are somebody's."""
    ships = f"/apis/{V1}/namespaces/default/schooners"
    rig = {"main": {"height": 9}, "mizzen": {"height": 7}, "stays": {"fore": "steel"}}
    api, _, _ = canal(Schooner)
    async with api:
        body = {"metadata": {"name": "one"}, "rig": rig, "spare": rig}
        answer = await api.post(f"{ships}?fieldManager=maker", body)
        assert answer.status == 201
        always = {"rig.main.height", "rig.mizzen", "rig.mizzen.height", "rig.stays", "rig.stays.fore"}
        spare = {path.replace("rig", "spare", 1) for path in always}
        assert owned(answer.json, "maker", "Update") == {*always, *spare, "spare", "spare.main"}


@walk
async def test_objects_of_a_definition_have_no_parts_before_they_are_set():
    """Nothing is known of an untyped object but what it has, so its first writer owns even a required part."""
    schema = {
        "type": "object",
        "required": ["spec"],
        "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
    }
    names = Names("rafts", "Raft")
    raft = ResourceDefinition(
        GROUP, names, "Namespaced", (VersionDefinition("v1", schema),), hub="v1", stored_as="v1", typed=False
    )
    api, _, _ = canal(Served(raft))
    async with api:
        body = {"metadata": {"name": "one"}, "spec": {"size": 1}}
        answer = await api.post(f"/apis/{V1}/namespaces/default/rafts?fieldManager=maker", body)
        assert owned(answer.json, "maker", "Update") == {"spec", "spec.size"}


@walk
async def test_the_status_that_a_create_sends_has_no_owner():
    api, _, _ = canal()
    async with api:
        answer = await api.post(BARGES, {**barge(SPEC), "status": {"phase": "x", "replicas": 3}})
        assert all("f:status" not in entry["fieldsV1"] for entry in answer.json["metadata"]["managedFields"])


@pytest.mark.parametrize(
    ("agent", "manager"),
    [
        ("kubectl/v1.32 (linux/amd64)", "kubectl"),
        ("plain", "plain"),
        ("two words/1", "two words"),
        ("with\x01\x7fcontrols/1", "withcontrols"),
        ("x" * 200 + "/1", "x" * 128),
        ("ä" * 100, "ä" * 64),
        ("é€" * 40, "é€" * 25 + "é"),
        ("/1", "unknown"),
        ("", "unknown"),
    ],
)
def test_a_manager_that_is_not_named_is_the_first_word_of_the_user_agent(agent: str, manager: str) -> None:
    @walk
    async def run() -> None:
        api, _, _ = canal()
        async with api:
            answer = await api.request("POST", BARGES, barge(SPEC), {"user-agent": agent})
            assert answer.status == 201, answer.body
            assert entries(answer.json) == [(manager, "Update")]
            answer = await api.request(
                "POST", f"{BARGES}?fieldManager=named", barge(SPEC, name="two"), {"user-agent": agent}
            )
            assert entries(answer.json) == [("named", "Update")]

    run()


@pytest.mark.parametrize("query", ["x" * 129, "%C3%A4" * 65, "a%07b"])
def test_a_manager_that_cannot_be_a_name_is_refused(query: str) -> None:
    @walk
    async def run() -> None:
        api, _, _ = canal()
        async with api:
            for answer in (
                await api.post(f"{BARGES}?fieldManager={query}", barge(SPEC)),
                await api.put(f"{ONE}?fieldManager={query}", barge(SPEC)),
                await api.patch(f"{ONE}?fieldManager={query}", {}),
            ):
                code, _, message = failure(answer)
                assert code == 422
                assert "fieldManager: " in message

    run()


@walk
async def test_an_update_owns_what_it_changes():
    api, clock, _ = canal()
    async with api:
        tree = await create(api)
        clock.advance(60)
        tree["spec"] = {
            **tree["spec"],
            "cargo": "ore",
            "holds": [{"name": "fore", "tons": 1}, {"name": "aft", "tons": 2}],
        }
        tree = await put(api, tree, "other")
        assert owned(tree, "other", "Update") == {
            "spec.cargo",
            "spec.holds[aft]",
            "spec.holds[aft].name",
            "spec.holds[aft].tons",
        }
        assert "spec.cargo" not in owned(tree, "maker", "Update")
        assert (time_of(tree, "maker"), time_of(tree, "other")) == ("2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z")
        clock.advance(60)
        del tree["spec"]["ports"]
        tree = await put(api, tree, "third")
        assert "spec.ports" not in owned(tree, "maker", "Update")
        assert entries(tree)[:2] == [("maker", "Update"), ("other", "Update")]
        assert (await api.get(ONE)).json == tree


PATCHES: dict[str, Any] = {
    JSON_PATCH: [
        {"op": "replace", "path": "/spec/cargo", "value": "ore"},
        {"op": "add", "path": "/spec/holds/-", "value": {"name": "aft"}},
    ],
    MERGE: {"spec": {"cargo": "ore", "holds": [{"name": "fore"}, {"name": "aft"}]}},
    STRATEGIC: {"spec": {"cargo": "ore", "holds": [{"name": "aft"}]}},
}


@pytest.mark.parametrize("media", PATCHES)
def test_a_patch_of_any_kind_owns_what_it_changes(media: str) -> None:
    @walk
    async def run() -> None:
        api, clock, backend = canal()
        async with api:
            await create(api)
            answer = await api.patch(f"{ONE}?fieldManager=other", PATCHES[media], media)
            tree = answer.json
            assert answer.status == 200
            assert owned(tree, "other", "Update") == {
                "spec.cargo",
                "spec.holds[aft]",
                "spec.holds[aft].name",
                "spec.holds[aft].tons",
            }
            before = await backend.current_rev()
            clock.advance(60)
            again = PATCHES[media][:1] if media == JSON_PATCH else PATCHES[media]
            assert (await api.patch(f"{ONE}?fieldManager=other", again, media)).json == tree
            assert await backend.current_rev() == before

    run()


@walk
async def test_who_changes_nothing_owns_nothing_and_writes_nothing():
    api, clock, backend = canal()
    async with api:
        tree = await create(api)
        before = await backend.current_rev()
        clock.advance(60)
        assert await put(api, tree, "other") == tree
        assert (await api.patch(f"{ONE}?fieldManager=another", {"spec": {"cargo": "coal"}})).json == tree
        sent = {**tree, "metadata": {k: v for k, v in tree["metadata"].items() if k != "managedFields"}}
        assert await put(api, sent, "other") == tree
        assert await backend.current_rev() == before


@walk
async def test_changing_back_and_forth_moves_a_field_and_its_time():
    api, clock, _ = canal()
    async with api:
        await create(api, {"cargo": "a"})
        for number in range(6):
            clock.advance(1)
            manager = ("left", "right")[number % 2]
            tree = (await api.patch(f"{ONE}?fieldManager={manager}", {"spec": {"cargo": str(number)}})).json
            assert owned(tree, manager, "Update") == {"spec.cargo"}
            assert entries(tree) == [(manager, "Update")]
            assert time_of(tree, manager) == f"2026-01-01T00:00:0{number + 1}Z"


@walk
async def test_status_has_entries_of_its_own():
    api, _, _ = canal()
    async with api:
        await create(api)
        change = {"status": {"phase": "x", "conditions": [{"type": "Ready"}]}, "spec": {"cargo": "no"}}
        tree = (await api.patch(f"{ONE}/status?fieldManager=maker", change)).json
        assert entries(tree) == [("maker", "Update"), ("maker", "Update/status")]
        (entry,) = (entry for entry in tree["metadata"]["managedFields"] if "subresource" in entry)
        assert list(entry["fieldsV1"]) == ["f:status"]
        tree["status"]["phase"] = "y"
        tree = await put(api, tree, "other", f"{ONE}/status")
        assert owned(tree, "other", "Update") == {"status.phase"}
        tree["spec"]["cargo"] = "ore"
        tree["status"]["phase"] = "ignored"
        tree = await put(api, tree, "other")
        assert tree["status"]["phase"] == "y"
        assert entries(tree).count(("other", "Update")) == 1
        assert owned(tree, "other", "Update") == {"spec.cargo", "status.phase"}


@walk
async def test_scaling_has_an_entry_of_its_own():
    api, _, _ = canal()
    async with api:
        await create(api, {"cargo": "coal", "replicas": 1})
        scale = (await api.patch(f"{ONE}/scale?fieldManager=scaler", {"spec": {"replicas": 2}})).json
        assert "managedFields" not in scale["metadata"]
        tree = (await api.get(ONE)).json
        assert entries(tree) == [("maker", "Update"), ("scaler", "Update/scale")]
        assert owned(tree, "scaler", "Update") == {"spec.replicas"}
        assert owned(tree, "maker", "Update") == {"spec.cargo"}
        scale["spec"]["replicas"] = 3
        await put(api, scale, "another", f"{ONE}/scale")
        tree = (await api.get(ONE)).json
        assert entries(tree) == [("another", "Update/scale"), ("maker", "Update")]
        answer = await send(api, barge({"replicas": 5}))
        assert failure(answer)[2] == (
            'Apply failed with 1 conflict: conflict with "another" with subresource "scale" using '
            "apply.example.com/v1: .spec.replicas"
        )


@pytest.mark.parametrize("reset", [[], [{}]])
@pytest.mark.parametrize("how", ["put", "merge", "json"])
def test_ownership_is_forgotten_on_request_until_somebody_applies(reset: list[Any], how: str) -> None:
    @walk
    async def run() -> None:
        api, _, _ = canal()
        async with api:
            tree = await create(api)
            if how == "put":
                tree["metadata"]["managedFields"] = reset
                answer = await api.put(ONE, tree)
            elif how == "merge":
                answer = await api.patch(ONE, {"metadata": {"managedFields": reset}})
            else:
                change = [{"op": "replace", "path": "/metadata/managedFields", "value": reset}]
                answer = await api.patch(ONE, change, JSON_PATCH)
            assert answer.status == 200
            assert "managedFields" not in answer.json["metadata"]
            answer = await api.patch(ONE, {"spec": {"cargo": "ore"}})
            assert "managedFields" not in answer.json["metadata"]
            tree = await apply(api, {"captain": "Anna"})
            assert entries(tree) == [("m", "Apply"), ("before-first-apply", "Update")]
            assert owned(tree, "m") == {"spec.captain"}
            assert "spec.cargo" in owned(tree, "before-first-apply", "Update")
            assert (await send(api, barge({"cargo": "tin"}))).status == 409

    run()


@walk
async def test_a_status_update_resets_nothing():
    api, _, _ = canal()
    async with api:
        tree = await create(api)
        tree["metadata"]["managedFields"] = []
        after = await put(api, tree, "other", f"{ONE}/status")
        assert entries(after) == [("maker", "Update")]


@walk
async def test_entries_that_a_client_sends_replace_the_live_ones_when_they_can_be_read():
    api, _, _ = canal()
    async with api:
        tree = await create(api)
        tree["metadata"]["managedFields"] = [
            {
                "manager": "somebody",
                "operation": "Apply",
                "apiVersion": V1,
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:spec": {"f:cargo": {}}},
            }
        ]
        tree = await put(api, tree, "other")
        assert entries(tree) == [("somebody", "Apply")]
        tree["metadata"]["managedFields"][0]["fieldsV1"] = {"nonsense": {}}
        after = await put(api, tree, "other")
        assert entries(after) == [("somebody", "Apply")]
        assert owned(after, "somebody") == {"spec.cargo"}
        for wrong in ({"operation": "Paint"}, {"fieldsType": "FieldsV9"}, {"apiVersion": ""}, {"time": "noon"}):
            sent = {**after, "metadata": {**after["metadata"]}}
            sent["metadata"]["managedFields"] = [{**after["metadata"]["managedFields"][0], **wrong}]
            answer = await api.put(f"{ONE}?fieldManager=other", sent)
            assert answer.status in (200, 400, 422), answer.body
            assert entries((await api.get(ONE)).json) == [("somebody", "Apply")]


@walk
async def test_the_oldest_of_many_updaters_become_one():
    api, clock, _ = canal()
    async with api:
        await create(api, {"notes": {}})
        for number in range(14):
            clock.advance(1)
            change = {"spec": {"notes": {f"n{number}": "x"}}}
            tree = (await api.patch(f"{ONE}?fieldManager=u{number:02}", change)).json
        found = entries(tree)
        assert len(found) == 10
        assert found.count(("ancient-changes", "Update")) == 1
        assert {f"spec.notes.n{number}" for number in range(5)} <= owned(tree, "ancient-changes", "Update")
        assert owned(tree, "u13", "Update") == {"spec.notes.n13"}
        everything: set[str] = set().union(*(owned(tree, manager, "Update") for manager, _ in found))
        assert {f"spec.notes.n{number}" for number in range(14)} <= everything
        for number in range(12):
            tree = (await send(api, barge({"notes": {f"a{number}": "x"}}), f"a{number}")).json
        assert sum(operation == "Apply" for _, operation in entries(tree)) == 12


@walk
async def test_an_update_takes_a_field_from_who_applied_it():
    api, _, _ = canal()
    async with api:
        await apply(api, {"cargo": "coal", "captain": "Anna"}, "applier")
        tree = (await api.patch(f"{ONE}?fieldManager=patcher", {"spec": {"cargo": "ore"}})).json
        assert owned(tree, "applier") == {"spec.captain"}
        assert owned(tree, "patcher", "Update") == {"spec.cargo"}
        answer = await send(api, barge({"cargo": "coal", "captain": "Anna"}), "applier")
        assert failure(answer)[2] == (
            'Apply failed with 1 conflict: conflict with "patcher" using apply.example.com/v1: .spec.cargo'
        )
        tree = await apply(api, {"cargo": "ore", "captain": "Anna"}, "applier")
        assert "spec.cargo" in owned(tree, "applier") & owned(tree, "patcher", "Update")


@walk
async def test_the_same_manager_updating_and_applying_has_two_entries():
    api, _, _ = canal()
    async with api:
        await apply(api, {"cargo": "coal"}, "both")
        tree = (await api.patch(f"{ONE}?fieldManager=both", {"spec": {"captain": "Anna"}})).json
        assert entries(tree) == [("both", "Apply"), ("both", "Update")]
        answer = await send(api, barge({"captain": "Berta"}), "both")
        assert failure(answer)[2].endswith('conflict with "both" using apply.example.com/v1: .spec.captain')


@walk
async def test_each_version_an_update_came_in_has_its_entry():
    api, _, _ = canal()
    async with api:
        await create(api, {"cargo": "coal"})
        tree = (await api.patch(f"{OLD_ONE}?fieldManager=maker", {"spec": {"captain": "Anna"}})).json
        assert tree["apiVersion"] == V1BETA1
        found = [(e["manager"], e["apiVersion"]) for e in tree["metadata"]["managedFields"]]
        assert sorted(found) == [("maker", V1), ("maker", V1BETA1)]
        tree = (await api.patch(f"{OLD_ONE}?fieldManager=old", {"spec": {"load": "ore"}})).json
        by = {(e["manager"], e["apiVersion"]): e["fieldsV1"] for e in tree["metadata"]["managedFields"]}
        assert by["old", V1BETA1] == {"f:spec": {"f:load": {}}}
        assert "f:cargo" not in by.get(("maker", V1), {}).get("f:spec", {})


class Undoes(StoredCollection[Barge]):
    """Barges carry coal, whatever was asked for."""

    def prepare(self, new: Barge, old: Barge | None, ctx: Context) -> None:
        new.spec.cargo = "coal"


class StoredOld(Undoes, stored_as=OldBarge, loses=["spec"]):
    """The same, stored in a version that can't say everything."""


@pytest.mark.parametrize(
    ("served", "where"),
    [((Undoes,), ONE), ((Undoes, OldBarge), OLD_ONE), ((StoredOld,), ONE), ((StoredOld,), OLD_ONE)],
)
def test_what_a_hook_undoes_is_no_write_however_often(served: tuple[Any, ...], where: str) -> None:
    @walk
    async def run() -> None:
        api, clock, backend = canal(*served)
        async with api:
            await create(api, {"captain": "Anna"})
            name = "cargo" if where == ONE else "load"
            assert (
                await api.patch(f"{where}?fieldManager=other", {"spec": {name: "ore", "captain": "B"}})
            ).status == 200
            tree = (await api.get(where)).json
            before = await backend.current_rev()
            clock.advance(60)
            answer = await api.patch(f"{where}?fieldManager=other", {"spec": {name: "ore"}})
            assert answer.json == tree
            sent = {**tree, "spec": {**tree["spec"], name: "tin"}}
            assert await put(api, sent, "other", where) == tree
            answer = await api.patch(f"{where}?fieldManager=other&dryRun=All", {"spec": {name: "ore"}})
            assert answer.json == tree
            assert await backend.current_rev() == before
            changed = (await api.patch(f"{where}?fieldManager=other", {"spec": {name: "ore", "captain": "C"}})).json
            assert time_of(changed, "other") == "2026-01-01T00:01:00Z"

    run()


class Raft(Resource, group=GROUP, version="v1", unconditional_update=True, create_on_update=True):
    """What PUT makes, and overwrites."""

    wood: str = ""
    rope: str = ""


class Rafts(StoredCollection[Raft]):
    """All of them are of balsa."""

    def prepare(self, new: Raft, old: Raft | None, ctx: Context) -> None:
        new.wood = "balsa"


@walk
async def test_a_put_that_creates_owns_what_it_sent_and_again_is_no_write():
    api, clock, backend = canal(Rafts)
    where = f"/apis/{V1}/namespaces/default/rafts/r"
    async with api:
        body = {"apiVersion": V1, "kind": "Raft", "metadata": {"name": "r"}, "wood": "oak", "rope": "hemp"}
        answer = await api.put(f"{where}?fieldManager=maker", body)
        assert answer.status == 201
        assert owned(answer.json, "maker", "Update") == {"wood", "rope"}
        before = await backend.current_rev()
        clock.advance(60)
        assert await put(api, body, "maker", where) == answer.json
        assert await backend.current_rev() == before
        changed = await put(api, {**body, "rope": "sisal"}, "maker", where)
        assert time_of(changed, "maker") == "2026-01-01T00:01:00Z"


class Labels(Admission[Barge]):
    """Labels everything; nobody asked for the label, so nobody owns it."""

    async def mutate(self, review: Review[Barge]) -> None:
        review.object.metadata.labels["seen"] = "yes"


@walk
async def test_what_admission_adds_belongs_to_nobody():
    api, _, _ = canal(Barge, admission=[Labels()])
    async with api:
        tree = await create(api)
        assert tree["metadata"]["labels"] == {"seen": "yes"}
        assert not any(path.startswith("metadata") for path in owned(tree, "maker", "Update"))
        tree = (await send(api, barge({"captain": "Anna"}, labels={"seen": "yes"}))).json
        assert "metadata.labels.seen" in owned(tree, "m")


@walk
async def test_lists_and_watches_show_the_owners_and_a_deletion_needs_none():
    api, _, _ = canal()
    async with api:
        tree = await create(api)
        assert (await api.get(BARGES)).json["items"][0]["metadata"]["managedFields"] == tree["metadata"][
            "managedFields"
        ]
        metadata = (await api.get(ONE, accept="application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")).json
        assert metadata["metadata"]["managedFields"] == tree["metadata"]["managedFields"]
        assert (await api.delete(ONE)).status == 200
        assert (await apply(api, {"cargo": "coal"}))["metadata"]["uid"] != tree["metadata"]["uid"]


@walk
async def test_a_generated_name_is_owned_by_who_asked_for_it():
    api, _, _ = canal()
    async with api:
        body = barge(SPEC)
        body["metadata"] = {"generateName": "b-"}
        answer = await api.post(f"{BARGES}?fieldManager=maker", body)
        assert entries(answer.json) == [("maker", "Update")]
        assert "metadata.generateName" in owned(answer.json, "maker", "Update")
