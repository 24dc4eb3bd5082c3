"""What a reconcile writes is written when it changes something; owners and finalizers are kept in order."""

from __future__ import annotations

from typing import Any

import pytest
from fleet import GROUP, Boat, Flag, Ship, ShipStatus, fleet, ship

from oarlock import ObjectMeta, errors
from oarlock.client import Client
from oarlock.controllers import (
    AlreadyOwned,
    ObjectKey,
    add_finalizer,
    create_or_update,
    owner_reference,
    remove_finalizer,
    set_controller_reference,
    set_owner_reference,
    write_status,
)
from oarlock.controllers.writes import merge_patch_between
from oarlock.testing import VirtualClock

pytestmark = pytest.mark.anyio

MINE = "fleet.example.com/mine"


class Racing:
    """A transport on which somebody else writes just before the next writes of ours."""

    def __init__(self, transport: Any, client: Client, races: int) -> None:
        self.transport = transport
        self.client = client
        self.races = races
        self.writes = 0

    async def send(self, request: Any) -> Any:
        if request.method != "GET":
            self.writes += 1
            if self.races:
                self.races -= 1
                labels = {"race": str(self.races)}
                await self.client.patch(Ship, "a", {"metadata": {"labels": labels}}, namespace="sea")
        return await self.transport.send(request)

    connect = close = send


def racing(client: Client, races: int) -> tuple[Client, list[Racing]]:
    made: list[Racing] = []

    def wrap(transport: Any) -> Racing:
        made.append(Racing(transport, client, races))
        return made[-1]

    return client.over(wrap), made


async def test_an_object_is_created_changed_or_left_alone() -> None:
    async with fleet(VirtualClock()) as client:

        def three(one: Ship) -> None:
            one.spec.boats = 3

        first = await create_or_update(client, ship("a"), three)
        assert (first.outcome, first.object.spec.boats) == ("created", 3)
        assert (await create_or_update(client, ship("a"), three)).outcome == "unchanged"
        await client.patch(Ship, "a", {"spec": {"boats": 5, "flag": "red"}}, namespace="sea")
        third = await create_or_update(client, ship("a"), three)
        assert (third.outcome, third.object.spec.boats, third.object.spec.flag) == ("updated", 3, "red")
        tree = {"apiVersion": f"{GROUP}/v1", "kind": "Boat", "metadata": {"name": "b", "namespace": "sea"}}
        made = await create_or_update(client, tree, lambda one: one.update(oars=4))
        assert (made.outcome, made.object["oars"]) == ("created", 4)


async def test_a_status_is_written_when_it_differs_and_against_the_newest_object() -> None:
    async with fleet(VirtualClock()) as client:
        one = await client.create(ship("a"))
        through, made = racing(client, 2)
        after = await write_status(through, one, ShipStatus(boats=2))
        assert after.status == ShipStatus(boats=2)
        assert made[0].writes == 3
        assert (await write_status(through, after, ShipStatus(boats=2))) is after
        assert made[0].writes == 3
        tree = await client.get(f"{GROUP}/v1/Ship", "a", namespace="sea")
        changed = await write_status(client, tree, {"boats": 0})
        assert changed["status"] == {"boats": 0}
        assert changed["metadata"]["labels"] == {"race": "0"}


def test_the_patch_between_two_trees() -> None:
    before = {"a": 1, "b": {"c": 1, "d": 2}, "e": [1], "g": None}
    after = {"a": 1, "b": {"c": 1, "x": 3}, "e": [2], "f": {}}
    assert merge_patch_between(before, after) == {"b": {"d": None, "x": 3}, "e": [2], "f": {}, "g": None}
    assert merge_patch_between(after, after) == {}


async def test_finalizers_of_others_survive_races() -> None:
    key = ObjectKey("sea", "a")
    async with fleet(VirtualClock()) as client:
        await client.create(ship("a"))
        await client.patch(Ship, "a", {"metadata": {"finalizers": ["x.example.com/theirs"]}}, namespace="sea")
        through, made = racing(client, 2)
        await add_finalizer(through, Ship, key, MINE)
        one = await client.get(Ship, "a", namespace="sea")
        assert one.metadata.finalizers == ["x.example.com/theirs", MINE]
        assert made[0].writes == 3
        await add_finalizer(through, Ship, key, MINE)
        await remove_finalizer(through, Ship, key, MINE, uid="another")
        assert made[0].writes == 3
        await remove_finalizer(through, Ship, key, MINE)
        one = await client.get(Ship, "a", namespace="sea")
        assert one.metadata.finalizers == ["x.example.com/theirs"]
        await client.delete(Ship, "a", namespace="sea")
        await add_finalizer(client, Ship, key, MINE)
        assert (await client.get(Ship, "a", namespace="sea")).metadata.finalizers == ["x.example.com/theirs"]
        await remove_finalizer(client, Ship, key, "x.example.com/theirs")
        await remove_finalizer(client, Ship, key, "x.example.com/theirs")
        with pytest.raises(errors.NotFound):
            await client.get(Ship, "a", namespace="sea")


async def test_an_object_has_one_controller_and_many_owners() -> None:
    async with fleet(VirtualClock()) as client:
        first, second = await client.create(ship("a")), await client.create(ship("b"))
        flag = await client.create(Flag(metadata=ObjectMeta(name="red")))
        boat = set_controller_reference(first, Boat(metadata=ObjectMeta(name="boat", namespace="sea")))
        set_controller_reference(first, boat)
        set_owner_reference(flag, boat)
        assert [(one.name, one.controller) for one in boat.metadata.owner_references] == [("a", True), ("red", None)]
        with pytest.raises(AlreadyOwned, match="sea/boat is controlled by Ship a already"):
            set_controller_reference(second, boat)
        with pytest.raises(ValueError, match="an owner is in the same namespace, or in none"):
            set_controller_reference(first, Boat(metadata=ObjectMeta(name="boat", namespace="land")))
        with pytest.raises(ValueError, match="give an object as the server returned it, with its uid"):
            owner_reference(ship("c"))
        tree: dict[str, Any] = {"metadata": {"name": "x", "namespace": "sea"}}
        owner = await client.get(f"{GROUP}/v1/Ship", "a", namespace="sea")
        assert set_controller_reference(owner, tree)["metadata"]["ownerReferences"] == [
            {
                "apiVersion": f"{GROUP}/v1",
                "kind": "Ship",
                "name": "a",
                "uid": first.metadata.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
        assert (await client.create(boat)).metadata.owner_references[0].uid == first.metadata.uid
