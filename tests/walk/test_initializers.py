"""Initializers: a new object is unseen until each has had its turn, and whoever creates it waits for the end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from walk_kit import failure, walk

from oarlock import Admission, APIServer, DeclarationError, Denied, Invalid, Model, Resource, Review
from oarlock.controllers.controller import Controller
from oarlock.meta.context import User
from oarlock.policy.authz.authorizer import Authorizer, Decision
from oarlock.storage.sqlite.backend import SqliteBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.server import Answer, InMemory

PRICES, STOCK = "prices.shop.example.com", "stock.shop.example.com"
ORDERS = "/apis/shop.example.com/v1/namespaces/default/orders"
SEEN = "?includeUninitialized=true"


class OrderSpec(Model):
    """What is wanted."""

    count: int = 1
    cents: int = 0


class Order(Resource, group="shop.example.com", version="v1", initializers=[PRICES, STOCK], status_subresource=True):
    """Something that somebody wants."""

    spec: OrderSpec = OrderSpec()
    status: OrderSpec | None = None


class Plain(Resource, group="shop.example.com", version="v1"):
    """It waits for nobody."""


class Prices(Controller[Order], initializer=PRICES):
    async def initialize(self, obj: Order) -> None:
        if obj.spec.count > 100:
            raise Denied("so many aren't sold")
        if obj.spec.count < 1:
            raise Invalid("spec.count", obj.spec.count, "at least one")
        obj.spec.cents = 250 * obj.spec.count


class Stock(Controller[Order], initializer=STOCK):
    async def initialize(self, obj: Order) -> None:
        obj.metadata.labels["cents-then"] = str(obj.spec.cents)


def order(name: str = "a", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "shop.example.com/v1", "kind": "Order", "metadata": {"name": name}, "spec": spec}


def shop(*controllers: Any, **more: Any) -> APIServer:
    return APIServer(serve=[Order, Plain], controllers=controllers, **more)


async def pending(api: InMemory, name: str = "a") -> list[str]:
    found = await api.get(f"{ORDERS}/{name}{SEEN}")
    assert found.status == 200, found.json
    return [one["name"] for one in found.json["metadata"].get("initializers", {}).get("pending", [])]


async def begun(api: InMemory, body: dict[str, Any], path: str = ORDERS) -> asyncio.Task[Answer]:
    """A create that waits: the object is stored."""
    creating = asyncio.create_task(api.post(path, body))
    while not creating.done():
        await asyncio.sleep(0.01)
        found = await api.get(f"{ORDERS}/{body['metadata']['name']}{SEEN}")
        if found.status == 200:
            break
    return creating


async def removed(api: InMemory, name: str = "a") -> Answer:
    """The first pending initializer has its turn."""
    left = (await api.get(f"{ORDERS}/{name}{SEEN}")).json["metadata"]["initializers"]["pending"][1:]
    return await api.patch(f"{ORDERS}/{name}", {"metadata": {"initializers": {"pending": left} if left else None}})


@walk
async def test_the_object_is_created_when_all_have_had_their_turn_in_order() -> None:
    async with InMemory(shop(Stock(), Prices())) as api:
        created = await api.post(ORDERS, order(count=3))
        assert created.status == 201
        assert created.json["spec"]["cents"] == 750
        assert created.json["metadata"]["labels"] == {"cents-then": "750"}
        assert "initializers" not in created.json["metadata"]
        assert (await api.get(f"{ORDERS}/a")).json == created.json


@walk
async def test_a_server_runs_them_in_process() -> None:
    async with InMemory(shop()) as api:
        creating = await begun(api, order())
        assert await pending(api) == [PRICES, STOCK]
        assert (await api.get(f"{ORDERS}/a")).status == 404
        assert (await api.get(ORDERS)).json["items"] == []
        assert len((await api.get(ORDERS + SEEN)).json["items"]) == 1
        assert (await removed(api)).status == 200
        assert not creating.done()
        assert await pending(api) == [STOCK]
        assert (await api.get(f"{ORDERS}/a?resourceVersion=0")).status == 404
        assert (await removed(api)).status == 200
        created = await creating
        assert created.status == 201
        assert created.json == (await api.get(f"{ORDERS}/a")).json
        assert len((await api.get(ORDERS)).json["items"]) == 1


@walk
async def test_pages_and_selectors_have_no_uninitialized_objects() -> None:
    async with InMemory(shop()) as api:
        for name in ("a", "b", "c", "d"):
            body = order(name)
            body["metadata"]["labels"] = {"app": "x"}
            await api.post(ORDERS + SEEN, body)
        for name in ("b", "d"):
            await removed(api, name)
            await removed(api, name)
        for _ in range(3):
            listed = (await api.get(f"{ORDERS}?labelSelector=app=x")).json
            assert [one["metadata"]["name"] for one in listed["items"]] == ["b", "d"]
        first = (await api.get(f"{ORDERS}?limit=1")).json
        assert [one["metadata"]["name"] for one in first["items"]] == ["b"]
        assert "remainingItemCount" not in first["metadata"]
        rest = (await api.get(f"{ORDERS}?limit=5&continue={first['metadata']['continue']}")).json
        assert [one["metadata"]["name"] for one in rest["items"]] == ["d"]
        assert (await api.get(f"{ORDERS}?fieldSelector=metadata.name=a")).json["items"] == []
        seen = (await api.get(f"{ORDERS}{SEEN}&limit=1")).json
        assert seen["metadata"]["remainingItemCount"] == 3


@walk
async def test_watches_are_told_of_an_object_when_it_is_initialized() -> None:
    async with InMemory(shop()) as api, api.watch(ORDERS) as events, api.watch(ORDERS + SEEN) as all_events:
        creating = await begun(api, order())
        await removed(api)
        await removed(api)
        created = (await creating).json
        added = await events.next()
        assert added == ("ADDED", created)
        assert [(await all_events.next())[0] for _ in range(3)] == ["ADDED", "MODIFIED", "MODIFIED"]
        await api.delete(f"{ORDERS}/a")
        assert (await events.next())[0] == "DELETED"


@walk
async def test_a_watch_is_told_nothing_of_an_object_that_never_was_initialized() -> None:
    async with InMemory(shop()) as api, api.watch(ORDERS) as events:
        await api.post(ORDERS + SEEN, order("a"))
        await api.delete(f"{ORDERS}/a")
        await api.post(ORDERS + SEEN, order("b"))
        await removed(api, "b")
        await removed(api, "b")
        assert (await events.next())[1]["metadata"]["name"] == "b"


@walk
async def test_an_initializer_refuses() -> None:
    async with InMemory(shop(Prices(), Stock())) as api:
        refused = await api.post(ORDERS, order(count=101))
        assert failure(refused)[:2] == (403, "Forbidden")
        assert "so many aren't sold" in refused.json["message"]
        invalid = await api.post(ORDERS, order("b", count=0))
        assert invalid.status == 422
        assert invalid.json["details"]["causes"][0]["field"] == "spec.count"
        assert (await api.get(ORDERS + SEEN)).json["items"] == []
        assert (await api.post(ORDERS, order(count=1))).status == 201


@walk
async def test_a_create_that_nobody_initializes_ends_by_its_deadline_and_the_object_stays() -> None:
    async with InMemory(shop()) as api:
        late = await api.post(f"{ORDERS}?timeout=5s", order())
        assert failure(late)[:2] == (504, "Timeout")
        assert (
            "server has timed out waiting for the initialization of orders.shop.example.com a" in late.json["message"]
        )
        assert await pending(api) == [PRICES, STOCK]
        assert (await api.post(ORDERS, order())).status == 409


@walk
async def test_a_create_whose_object_is_deleted_meanwhile_fails() -> None:
    async with InMemory(shop()) as api:
        creating = await begun(api, order())
        assert (await api.delete(f"{ORDERS}/a")).status == 200
        assert failure(await creating)[:2] == (500, "InternalError")


@walk
async def test_applies_and_creates_that_want_to_see_it() -> None:
    async with InMemory(shop(Prices(), Stock())) as api:
        at_once = await api.post(ORDERS + SEEN, order("a"))
        assert [one["name"] for one in at_once.json["metadata"]["initializers"]["pending"]] == [PRICES, STOCK]
        applied = await api.request(
            "PATCH",
            f"{ORDERS}/b?fieldManager=me",
            order("b", count=2),
            {"content-type": "application/apply-patch+yaml"},
        )
        assert (applied.status, applied.json["spec"]["cents"]) == (201, 500)


@walk
async def test_a_dry_run_waits_for_nobody() -> None:
    async with InMemory(shop()) as api:
        assert (await api.post(f"{ORDERS}?dryRun=All", order())).status == 201
        assert (await api.get(f"{ORDERS}/a{SEEN}")).status == 404


@pytest.mark.parametrize(
    ("initializers", "told"),
    [
        ({"pending": [{"name": PRICES}]}, "only the first may be"),
        ({"pending": [{"name": STOCK}, {"name": PRICES}]}, "only the first may be"),
        ({"pending": [{"name": PRICES}, {"name": STOCK}, {"name": "x.y.z"}]}, "only the first may be"),
        (None, "only the first may be"),
        ({"pending": [{"name": PRICES}, {"name": STOCK}], "result": {"status": "Success"}}, "supported values"),
    ],
)
def test_initializers_are_removed_in_order(initializers: Any, told: str) -> None:
    @walk
    async def refused() -> None:
        async with InMemory(shop()) as api:
            await api.post(ORDERS + SEEN, order())
            answer = await api.patch(f"{ORDERS}/a", {"metadata": {"initializers": initializers}})
            assert answer.status == 422
            assert told in answer.json["message"]
            assert await pending(api) == [PRICES, STOCK]

    refused()


@walk
async def test_an_initialized_object_never_waits_again() -> None:
    async with InMemory(shop(Prices(), Stock())) as api:
        await api.post(ORDERS, order())
        again = await api.patch(f"{ORDERS}/a", {"metadata": {"initializers": {"pending": [{"name": PRICES}]}}})
        assert again.status == 422
        assert "field is immutable once initialization has completed" in again.json["message"]
        empty = await api.patch(f"{ORDERS}/a", {"metadata": {"initializers": {"pending": []}}})
        assert (empty.status, "initializers" in empty.json["metadata"]) == (200, False)


class Verbs(Authorizer):
    """Lets alice do everything but initialize."""

    async def decide(self, user: User, target: Any) -> Decision:
        if user.name == "alice" and target.verb == "initialize":
            return Decision.deny()
        return Decision.allow()


@walk
async def test_who_may_not_initialize_sees_and_changes_nothing_of_it() -> None:
    async with InMemory(shop(authorizer=Verbs())) as api:
        alice = api.client(User("alice"))
        path = f"{ORDERS}/a"
        await api.post(ORDERS + SEEN, order())
        for where in (path, ORDERS):
            with pytest.raises(Exception, match="cannot initialize resource"):
                await alice.request("GET", where, query=(("includeUninitialized", "true"),))
        patch = {"metadata": {"labels": {"a": "b"}}}
        with pytest.raises(Exception, match="update to uninitialized resource denied"):
            await alice.patch("shop.example.com/v1/Order", "a", patch, namespace="default")
        with pytest.raises(Exception, match="update to uninitialized resource denied"):
            await alice.patch("shop.example.com/v1/Order", "a", patch, namespace="default", subresource="status")
        body = order("b")
        body["metadata"]["initializers"] = {"pending": []}
        with pytest.raises(Exception, match="create with initializers denied"):
            await alice.request("POST", ORDERS, body)


@walk
async def test_who_may_initialize_names_others_or_none() -> None:
    async with InMemory(shop()) as api:
        none, other, many = order("a"), order("b"), order("c")
        none["metadata"]["initializers"] = {"pending": []}
        other["metadata"]["initializers"] = {"pending": [{"name": "mine.example.com"}]}
        many["metadata"]["initializers"] = {"pending": [{"name": f"n{n}.example.com"} for n in range(33)]}
        assert (await api.post(ORDERS, none)).status == 201
        await api.post(ORDERS + SEEN, other)
        assert await pending(api, "b") == ["mine.example.com"]
        assert (await api.post(ORDERS, many)).status == 422
        other["metadata"] = {"name": "d", "initializers": {"pending": [{"name": "no name"}]}}
        assert (await api.post(ORDERS, other)).status == 422


class Skipped(Admission[Order]):
    async def mutate(self, review: Review[Order]) -> None:
        review.object.metadata.annotations["seen"] = review.operation


@walk
async def test_admission_is_asked_about_each_turn() -> None:
    async with InMemory(shop(Prices(), Stock(), admission=[Skipped()])) as api:
        created = await api.post(ORDERS, order())
        assert created.json["metadata"]["annotations"] == {"seen": "UPDATE"}


@walk
async def test_deleting_a_collection_takes_along_what_waits() -> None:
    async with InMemory(shop()) as api:
        await api.post(ORDERS + SEEN, order())
        await api.delete(ORDERS)
        assert (await api.get(ORDERS + SEEN)).json["items"] == []


@pytest.mark.anyio
async def test_what_waited_before_a_restart_waits_after_it_and_is_initialized_then(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    async with InMemory(shop(), backend=SqliteBackend(store, VirtualClock())) as api:
        await api.post(ORDERS + SEEN, order())
    async with InMemory(shop(), backend=SqliteBackend(store, VirtualClock())) as api:
        assert (await api.get(f"{ORDERS}/a")).status == 404
        assert await pending(api) == [PRICES, STOCK]
    async with (
        InMemory(shop(Prices(), Stock()), backend=SqliteBackend(store, VirtualClock())) as api,
        api.watch(ORDERS) as events,
    ):
        assert (await events.next())[1]["spec"]["cents"] == 250


@walk
async def test_other_resources_have_no_such_field() -> None:
    async with InMemory(shop()) as api:
        plain = {"apiVersion": "shop.example.com/v1", "kind": "Plain", "metadata": {"name": "a"}}
        plain["metadata"]["initializers"] = {"pending": [{"name": PRICES}]}  # type: ignore[index]
        created = await api.post(ORDERS.replace("orders", "plains"), plain)
        assert "initializers" not in created.json["metadata"]


def test_a_name_is_a_domain_and_used_once() -> None:
    for names in (["prices"], ["a.b.c", "a.b.c"]):
        with pytest.raises(DeclarationError):
            type("Wrong", (Resource,), {}, group="shop.example.com", version="v1", initializers=names)
