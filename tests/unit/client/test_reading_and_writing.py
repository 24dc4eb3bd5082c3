"""A client reads and writes objects, typed and as trees, the same in the server's process and over HTTP."""

from __future__ import annotations

import asyncio

import pytest
from boats import GROUP, Boat, BoatSpec, BoatStatus, Harbour, OldBoat, tree

from oarlock import ObjectMeta, errors
from oarlock.client.client import Client

pytestmark = pytest.mark.anyio
BOATS = f"{GROUP}/v1/Boat"


def boat(name: str, crew: int = 1) -> Boat:
    return Boat(metadata=ObjectMeta(name=name, namespace="default"), spec=BoatSpec(crew=crew))


async def test_a_typed_object_comes_back_as_it_is_stored(client: Client) -> None:
    created = await client.create(boat("a", 3))
    assert isinstance(created, Boat)
    assert created.metadata.uid
    found = await client.get(Boat, "a", namespace="default")
    assert found == created
    old = await client.get(OldBoat, "a", namespace="default")
    assert old.people == 3


async def test_a_kind_named_by_its_version_gives_trees(client: Client) -> None:
    await client.create(tree("a", crew=2))
    found = await client.get(BOATS, "a", namespace="default")
    assert found["spec"]["crew"] == 2
    assert [one["metadata"]["name"] async for one in client.list(BOATS)] == ["a"]
    with pytest.raises(errors.NotFound, match="the server has no Ship"):
        await client.get(f"{GROUP}/v1/Ship", "a")
    with pytest.raises(errors.NotFound):
        await client.get("nothing.example.com/v1/Boat", "a")
    with pytest.raises(ValueError, match="isn't a kind"):
        await client.get("Boat", "a")


async def test_errors_are_those_of_the_server(client: Client) -> None:
    await client.create(boat("a"))
    with pytest.raises(errors.AlreadyExists) as exists:
        await client.create(boat("a"))
    assert exists.value.code == 409
    assert exists.value.details == {"name": "a", "group": GROUP, "kind": "boats"}
    with pytest.raises(errors.NotFound, match='"b" not found'):
        await client.get(Boat, "b", namespace="default")
    with pytest.raises(errors.InvalidObject) as invalid:
        await client.create(tree("c", crew=-1))
    assert invalid.value.details is not None
    assert invalid.value.details["causes"][0]["field"] == "spec.crew"


async def test_a_namespace_that_is_missing_is_told_before_anything_is_sent(client: Client) -> None:
    with pytest.raises(ValueError, match="set its namespace"):
        await client.get(Boat, "a")
    with pytest.raises(ValueError, match="set its namespace"):
        await client.create(Boat(metadata=ObjectMeta(name="a"), spec=BoatSpec()))
    harbour = await client.create(Harbour(metadata=ObjectMeta(name="h"), berths=2))
    assert (await client.get(Harbour, "h")).berths == harbour.berths == 2


async def test_an_update_that_is_too_late_is_a_conflict(client: Client) -> None:
    first = await client.create(boat("a"))
    first.spec.crew = 2
    await client.update(first)
    first.spec.crew = 3
    with pytest.raises(errors.Conflict):
        await client.update(first)
    assert (await client.get(Boat, "a", namespace="default")).spec.crew == 2


async def test_a_change_is_repeated_on_the_newest_object_and_keeps_what_the_class_lacks(client: Client) -> None:
    await client.create(boat("a"))
    calls = []

    def hire(found: Boat) -> None:
        calls.append(found.spec.crew)
        found.spec.crew += 1

    await asyncio.gather(*(client.change(Boat, "a", hire, namespace="default") for _ in range(4)))
    assert (await client.get(Boat, "a", namespace="default")).spec.crew == 5
    assert len(calls) >= 4
    unchanged = await client.change(Boat, "a", lambda found: None, namespace="default")
    assert unchanged.spec.crew == 5

    def rename(found: dict[str, object]) -> None:
        found["metadata"]["labels"] = {"x": "y"}  # type: ignore[index]

    changed = await client.change(BOATS, "a", rename, namespace="default")  # type: ignore[arg-type]
    assert changed["metadata"]["labels"] == {"x": "y"}  # type: ignore[index]


async def test_status_and_scale_are_subresources(client: Client) -> None:
    await client.create(boat("a"))

    def arrived(found: Boat) -> None:
        found.status = BoatStatus(crew=7)
        found.spec.crew = 99

    changed = await client.change(Boat, "a", arrived, namespace="default", subresource="status")
    assert changed.status == BoatStatus(crew=7)
    assert changed.spec.crew == 1
    scale = await client.scale(Boat, "a", 4, namespace="default")
    assert scale["spec"]["replicas"] == 4
    assert (await client.get(Boat, "a", namespace="default", subresource="scale"))["status"]["replicas"] == 7


async def test_patches_and_apply(client: Client) -> None:
    applied = await client.apply(tree("a", crew=2), field_manager="x")
    assert applied["spec"]["crew"] == 2
    with pytest.raises(errors.FieldConflict):
        await client.apply(tree("a", crew=3), field_manager="y")
    forced = await client.apply(boat("a", 3), field_manager="y", force=True)
    assert forced.spec.crew == 3
    merged = await client.patch(Boat, "a", {"spec": {"crew": 5}}, namespace="default")
    assert merged.spec.crew == 5
    replaced = await client.patch(
        Boat, "a", [{"op": "replace", "path": "/spec/crew", "value": 6}], type="json", namespace="default"
    )
    assert replaced.spec.crew == 6


async def test_a_list_comes_in_pages_and_only_what_is_selected(client: Client) -> None:
    for number in range(7):
        labels = {"even": str(number % 2 == 0).lower()}
        metadata = ObjectMeta(name=f"b{number}", namespace="default", labels=labels)
        await client.create(Boat(metadata=metadata, spec=BoatSpec()))
    names = [one.metadata.name async for one in client.list(Boat, page_size=3)]
    assert names == [f"b{number}" for number in range(7)]
    even = client.list(Boat, namespace="default", label_selector="even=true", page_size=2)
    assert [one.metadata.name async for one in even] == ["b0", "b2", "b4", "b6"]
    await client.delete_collection(Boat, namespace="default", label_selector="even=true")
    assert len([one async for one in client.list(BOATS)]) == 3


async def test_a_deleted_object_is_gone_unless_a_precondition_fails(client: Client) -> None:
    await client.create(boat("a"))
    with pytest.raises(errors.Conflict):
        await client.delete(Boat, "a", namespace="default", uid="another")
    await client.delete(Boat, "a", namespace="default")
    with pytest.raises(errors.NotFound):
        await client.delete(Boat, "a", namespace="default")


async def test_a_dry_run_writes_nothing(client: Client) -> None:
    await client.create(boat("a"), dry_run=True)
    assert [one async for one in client.list(Boat)] == []


async def test_a_watch_begins_with_what_exists_and_goes_on(client: Client) -> None:
    created = await client.create(boat("a"))
    events = client.watch(Boat, namespace="default")
    try:
        first = await anext(events)
        assert (first.type, first.object) == ("ADDED", created)
        await client.delete(Boat, "a", namespace="default")
        second = await anext(events)
        assert (second.type, second.object.metadata.name) == ("DELETED", "a")
        assert int(second.resource_version) > int(first.resource_version)
    finally:
        await events.aclose()


async def test_many_requests_at_once_are_the_first(client: Client) -> None:
    async def create(number: int) -> None:
        await client.create(Harbour(metadata=ObjectMeta(name=f"h{number}")))

    await asyncio.gather(*(create(number) for number in range(20)))
    assert len([one async for one in client.list(Harbour)]) == 20
