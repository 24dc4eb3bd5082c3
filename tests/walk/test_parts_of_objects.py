"""Subresources that change some fields of an object (`part`): what a write to one may change, and what others may."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from walk_kit import GROUP, failure, path, walk

from oarlock import (
    Admission,
    APIServer,
    Context,
    Denied,
    FieldError,
    Invalid,
    ListMap,
    Model,
    ObjectMeta,
    Resource,
    Review,
    Spoke,
    StoredCollection,
    VirtualCollection,
    errors,
    part,
)
from oarlock.registry.hooks.object_hooks import served_from
from oarlock.schema import crd
from oarlock.testing.server import Answer, InMemory

APPLY = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"


class Condition(Model):
    """What was decided."""

    type: str
    by: str = ""


class LeaveSpec(Model):
    """What is asked for."""

    days: int
    note: str = ""
    finalizers: list[str] = []
    seats: int = 2


class LeaveStatus(Model):
    """What came of it."""

    days_left: int = 0
    conditions: Annotated[list[Condition], ListMap("type")] = []


class Leave(Resource, group=GROUP, version="v1", plural="leaves", status_subresource=True):
    """Somebody wants to be away."""

    spec: LeaveSpec
    status: LeaveStatus | None = None


class OldSpec(Model):
    """The same, before there were seats and finalizers."""

    days: int
    note: str = ""


class OldLeave(Spoke[Leave], version="v1beta1", status_subresource=True):
    """The older version."""

    spec: OldSpec
    status: LeaveStatus | None = None

    def to_hub(self) -> Leave:
        return Leave(
            metadata=self.metadata, spec=LeaveSpec(days=self.spec.days, note=self.spec.note), status=self.status
        )

    @classmethod
    def from_hub(cls, hub: Leave) -> OldLeave:
        return cls(metadata=hub.metadata, spec=OldSpec(days=hub.spec.days, note=hub.spec.note), status=hub.status)


class Leaves(StoredCollection[Leave]):
    """Leaves are approved by others than those who ask."""

    approval = part("approval", fields=["status.conditions"])
    finalize = part("finalize", fields=["spec.finalizers"], versions=["v1"])
    seating = part("seating", fields=[".spec.seats"], shared=True, versions=["v1"])

    def prepare(self, new: Leave, old: Leave | None, ctx: Context) -> None:
        new.metadata.annotations["prepared"] = ctx.target.subresource or "object"

    def validate(self, new: Leave, old: Leave | None, ctx: Context) -> Iterator[FieldError]:
        if new.spec.days < 0:
            yield Invalid("spec.days", new.spec.days, "nobody is away for less than a day")
        if new.status is not None and len(new.status.conditions) > 2:
            yield Invalid("status.conditions", len(new.status.conditions), "two are enough")

    @approval.prepare
    def _sign(self, new: Leave, old: Leave, ctx: Context) -> None:
        for condition in new.status.conditions if new.status is not None else ():
            condition.by = condition.by or ctx.user.name

    @approval.validate
    def _check(self, new: Leave, old: Leave, ctx: Context) -> Iterator[FieldError]:
        for condition in new.status.conditions if new.status is not None else ():
            if condition.type not in ("Approved", "Denied"):
                yield Invalid("status.conditions", condition.type, "Approved or Denied")


class NoDenials(Admission[Leave], operations=["UPDATE"], subresources=["approval"]):
    """Nobody is denied a leave."""

    async def validate(self, review: Review[Leave]) -> None:
        status = review.object.status
        conditions = status.conditions if status is not None and review.subresource == "approval" else []
        if any(condition.type == "Denied" for condition in conditions):
            raise Denied("nobody is denied a leave")


class Meddler(Admission[Leave], operations=["UPDATE"], subresources=["", "status"]):
    """Changes everything it is shown."""

    async def mutate(self, review: Review[Leave]) -> None:
        leave = review.object
        leave.spec.days += 1
        leave.metadata.labels["meddled"] = review.subresource or "object"
        leave.status = LeaveStatus(days_left=leave.spec.days, conditions=[Condition(type="Approved", by="nobody")])


def server() -> InMemory:
    return InMemory(APIServer(serve=[Leaves, OldLeave], admission=[NoDenials()]))


def leave(**fields: Any) -> dict[str, Any]:
    tree: dict[str, Any] = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Leave",
        "metadata": {"name": "a"},
        "spec": {"days": 3},
    }
    for name, value in fields.items():
        tree[name] = {**tree.get(name, {}), **value}
    return tree


LEAVES, A = path("leaves", version="v1"), path("leaves", "a", version="v1")
APPROVED = {"conditions": [{"type": "Approved"}]}


async def put(s: InMemory, where: str, change: dict[str, Any]) -> Answer:
    """PUT what is there with the changed sections."""
    live = (await s.get(A)).json
    return await s.put(where, {**live, **{name: {**live.get(name, {}), **value} for name, value in change.items()}})


def owners(tree: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(e["manager"], e.get("subresource", "")): e["fieldsV1"] for e in tree["metadata"]["managedFields"]}


@walk
async def test_a_put_changes_the_fields_of_the_part_alone() -> None:
    async with server() as s:
        await s.post(LEAVES, leave())
        answer = await put(
            s,
            f"{A}/approval",
            {"metadata": {"labels": {"x": "y"}}, "spec": {"days": 99}, "status": {**APPROVED, "daysLeft": 7}},
        )
        assert answer.status == 200
        tree = answer.json
        assert tree["status"]["conditions"] == [{"type": "Approved", "by": "admin"}]
        assert tree["spec"]["days"] == 3
        assert "labels" not in tree["metadata"]
        assert tree["status"].get("daysLeft", 0) == 0
        assert tree["metadata"]["generation"] == 1
        assert tree["metadata"]["annotations"]["prepared"] == "approval"
        assert (await s.get(f"{A}/approval")).json == tree
        assert (await s.get(A)).json == tree


@walk
async def test_nothing_else_changes_the_fields_of_a_part() -> None:
    async with server() as s:
        made = await s.post(LEAVES, leave(spec={"finalizers": ["x"], "seats": 5}, status=APPROVED))
        assert made.status == 201
        assert "status" not in made.json
        assert "finalizers" not in made.json["spec"]
        assert made.json["spec"]["seats"] == 5  # shared
        changed = await put(s, A, {"spec": {"finalizers": ["x"], "days": 4, "seats": 6}, "status": APPROVED})
        assert changed.json["spec"] == {"days": 4, "note": "", "seats": 6}
        assert "status" not in changed.json
        status = await put(s, f"{A}/status", {"status": {**APPROVED, "daysLeft": 1}})
        assert status.json["status"] == {"daysLeft": 1}
        await put(s, f"{A}/approval", {"status": APPROVED})
        status = await put(s, f"{A}/status", {"status": {"conditions": [], "daysLeft": 2}})
        assert [c["type"] for c in status.json["status"]["conditions"]] == ["Approved"]
        assert status.json["status"]["daysLeft"] == 2


@walk
async def test_admission_changes_no_more_than_the_write_may() -> None:
    async with InMemory(APIServer(serve=[Leaves, OldLeave], admission=[Meddler()])) as s:
        await s.post(LEAVES, leave())
        changed = await put(s, A, {"spec": {"days": 5}})
        assert changed.json["spec"]["days"] == 6
        assert changed.json["metadata"]["labels"] == {"meddled": "object"}
        assert "status" not in changed.json
        status = await put(s, f"{A}/status", {"status": {"daysLeft": 1}})
        assert status.json["spec"]["days"] == 6
        assert status.json["metadata"]["labels"] == {"meddled": "object"}
        assert status.json["status"] == {"daysLeft": 7}


@walk
async def test_generation_counts_changes_of_spec() -> None:
    async with server() as s:
        await s.post(LEAVES, leave())
        assert (await put(s, f"{A}/finalize", {"spec": {"finalizers": ["x"]}})).json["metadata"]["generation"] == 2
        assert (await put(s, f"{A}/seating", {"spec": {"seats": 9}})).json["metadata"]["generation"] == 3
        assert (await put(s, f"{A}/approval", {"status": APPROVED})).json["metadata"]["generation"] == 3


@walk
async def test_patches_of_each_kind_change_the_part_alone() -> None:
    async with server() as s:
        await s.post(LEAVES, leave())
        merge = {"spec": {"days": 9, "finalizers": ["m"]}, "metadata": {"annotations": {"x": "y"}}}
        answer = await s.patch(f"{A}/finalize", merge)
        assert answer.json["spec"] == {"days": 3, "note": "", "seats": 2, "finalizers": ["m"]}
        assert "x" not in answer.json["metadata"]["annotations"]
        operations = [
            {"op": "replace", "path": "/spec/days", "value": 9},
            {"op": "add", "path": "/spec/finalizers/-", "value": "j"},
        ]
        answer = await s.patch(f"{A}/finalize", operations, JSON_PATCH)
        assert (answer.json["spec"]["days"], answer.json["spec"]["finalizers"]) == (3, ["m", "j"])
        answer = await s.patch(f"{A}/finalize", {"spec": {"finalizers": None}})
        assert "finalizers" not in answer.json["spec"]
        assert failure(await s.patch(f"{A}/finalize", {"spec": {"finalizers": 3}}))[0] in (400, 422)


@walk
async def test_an_apply_owns_the_fields_of_the_part_alone() -> None:
    async with server() as s:
        await s.post(LEAVES, leave(spec={"note": "sun"}))
        config = leave(spec={"days": 9}, status=APPROVED)
        answer = await s.patch(f"{A}/approval?fieldManager=boss", config, APPLY)
        assert answer.status == 200
        assert answer.json["spec"]["days"] == 3
        owned = owners(answer.json)
        assert owned["boss", "approval"] == {
            "f:status": {"f:conditions": {'k:{"type":"Approved"}': {".": {}, "f:type": {}}}}
        }
        refused = await s.patch(f"{A}/approval?fieldManager=other", leave(status={"conditions": []}), APPLY)
        assert refused.status == 200
        missing = await s.patch(
            path("leaves", "b", version="v1") + "/approval?fieldManager=boss", leave(metadata={"name": "b"}), APPLY
        )
        assert missing.status == 404


@walk
async def test_managed_fields_say_through_which_part() -> None:
    async with server() as s:
        await s.post(f"{LEAVES}?fieldManager=me", leave(spec={"finalizers": ["x"]}))
        tree = (await s.get(A)).json
        assert "f:finalizers" not in json.dumps(tree["metadata"]["managedFields"])
        answer = await s.patch(f"{A}/finalize?fieldManager=it", {"spec": {"finalizers": ["x"], "days": 9}})
        assert owners(answer.json)["it", "finalize"] == {"f:spec": {"f:finalizers": {}}}
        entry = next(e for e in answer.json["metadata"]["managedFields"] if e["manager"] == "it")
        assert (entry["operation"], entry["subresource"]) == ("Update", "finalize")


@walk
async def test_hooks_of_a_part_and_of_the_collection_run() -> None:
    async with server() as s:
        await s.post(LEAVES, leave())
        answer = await put(s, f"{A}/approval", {"status": {"conditions": [{"type": "Maybe"}]}})
        assert answer.status == 422
        assert [cause["message"] for cause in answer.json["details"]["causes"]] == [
            'Invalid value: "Maybe": Approved or Denied'
        ]
        many = [{"type": "Approved"}, {"type": "Denied"}, {"type": "Maybe"}]
        answer = await put(s, f"{A}/approval", {"status": {"conditions": many}})
        assert len(answer.json["details"]["causes"]) == 2
        answer = await put(s, f"{A}/approval", {"status": {"conditions": [{"type": "Denied"}]}})
        assert answer.status == 403
        assert (await put(s, f"{A}/finalize", {"spec": {"finalizers": ["x"]}})).status == 200  # hooks of no other part


@walk
async def test_preconditions_and_dry_runs() -> None:
    async with server() as s:
        live = (await s.post(LEAVES, leave())).json
        answer = await s.put(f"{A}/approval?dryRun=All", {**live, "status": APPROVED})
        assert answer.json["status"]["conditions"][0]["type"] == "Approved"
        assert "status" not in (await s.get(A)).json
        await s.patch(A, {"spec": {"days": 5}})
        assert (await s.put(f"{A}/approval", {**live, "status": APPROVED})).status == 409
        live["metadata"] = {**live["metadata"], "uid": "other", "resourceVersion": ""}
        assert (await s.put(f"{A}/approval", live)).status in (409, 422)
        assert (
            await s.put(path("leaves", "b", version="v1") + "/approval", leave(metadata={"name": "b"}))
        ).status == 404


@walk
async def test_other_methods_and_other_versions() -> None:
    async with server() as s:
        await s.post(LEAVES, leave())
        assert (await s.post(f"{A}/approval", leave())).status == 405
        assert (await s.delete(f"{A}/approval")).status == 405
        old = path("leaves", "a", version="v1beta1")
        assert (await s.get(f"{old}/finalize")).status == 404
        answer = await s.patch(f"{old}/approval", {"status": APPROVED, "spec": {"days": 9}})
        assert answer.status == 200
        assert answer.json["spec"]["days"] == 3
        assert (await s.get(A)).json["status"]["conditions"][0]["type"] == "Approved"


@walk
async def test_a_write_through_a_version_without_the_field_leaves_it_alone() -> None:
    async with server() as s:
        await s.post(LEAVES, leave())
        await s.patch(f"{A}/finalize", {"spec": {"finalizers": ["x"]}})
        await s.patch(path("leaves", "a", version="v1beta1"), {"spec": {"days": 8}})
        assert (await s.get(A)).json["spec"] == {"days": 8, "note": "", "seats": 2, "finalizers": ["x"]}


@walk
async def test_discovery_and_openapi_have_the_parts() -> None:
    async with server() as s:
        found = {one["name"]: one for one in (await s.get(f"/apis/{GROUP}/v1")).json["resources"]}
        assert found["leaves/approval"]["verbs"] == ["get", "patch", "update"]
        assert found["leaves/approval"]["kind"] == "Leave"
        old = {one["name"] for one in (await s.get(f"/apis/{GROUP}/v1beta1")).json["resources"]}
        assert "leaves/finalize" not in old
        assert "leaves/approval" in old
        paths = (await s.get(f"/openapi/v3/apis/{GROUP}/v1")).json["paths"]
        approval = paths[f"/apis/{GROUP}/v1/namespaces/{{namespace}}/leaves/{{name}}/approval"]
        assert {"get", "put", "patch"} <= set(approval)
        assert "post" not in approval
        assert "Leave" in json.dumps(approval["put"]["requestBody"])


def test_a_definition_as_a_dict_has_parts_too() -> None:
    definition = served_from([Leaves, OldLeave])[0].definition
    assert crd.parse(crd.print_definition(definition)) == definition


class Desk(Resource, group=GROUP, version="v1", plural="desks"):
    """Kept by somebody else."""

    room: str = ""
    owner: str = ""


DESKS: dict[str, Desk] = {}


class Desks(VirtualCollection[Desk]):
    """Who sits where is said by others than those who set up desks."""

    seating = part("seating", fields=["owner"])

    async def get(self, name: str, ctx: Context) -> Desk | None:
        return DESKS.get(name)

    async def create(self, new: Desk, ctx: Context) -> Desk:
        DESKS[new.metadata.name] = new
        return new

    async def update(self, new: Desk, expected_version: str, ctx: Context) -> Desk:
        if new.metadata.name not in DESKS:
            raise errors.NotFound()
        DESKS[new.metadata.name] = new
        return new

    @seating.validate
    def _check(self, new: Desk, old: Desk, ctx: Context) -> Iterator[FieldError]:
        if old.owner and new.owner:
            yield Invalid("owner", new.owner, f"{old.owner} sits there")


@walk
async def test_virtual_resources_have_parts() -> None:
    DESKS.clear()
    DESKS["a"] = Desk(metadata=ObjectMeta(name="a", namespace="default"), room="r1")
    desk = path("desks", "a", version="v1")
    async with InMemory(APIServer(serve=[Desks])) as s:
        answer = await s.patch(f"{desk}/seating", {"owner": "anna", "room": "r2"})
        assert (answer.json["owner"], answer.json["room"]) == ("anna", "r1")
        answer = await s.patch(desk, {"owner": "bert", "room": "r3"})
        assert (answer.json["owner"], answer.json["room"]) == ("anna", "r3")
        assert (await s.patch(f"{desk}/seating", {"owner": "bert"})).status == 422
        body = {"apiVersion": f"{GROUP}/v1", "kind": "Desk", "metadata": {"name": "b"}, "owner": "x"}
        made = await s.post(path("desks", version="v1"), body)
        assert made.json.get("owner", "") == ""


@pytest.mark.parametrize("count", [60_000])
@walk
async def test_hostile_bodies_are_confined_as_well(count: int) -> None:
    async with server() as s:
        await s.post(LEAVES, leave())
        body = {"spec": {"finalizers": [f"f{i}" for i in range(count)], "days": "x" * 10}, "metadata": "no"}
        assert (await s.patch(f"{A}/finalize", body)).status in (400, 422)
        deep: Any = 1
        for _ in range(150):
            deep = {"status": deep}
        assert (await s.patch(f"{A}/approval", deep)).status in (200, 400, 422)
        assert (await s.get(A)).json["spec"] == {"days": 3, "note": "", "seats": 2}
