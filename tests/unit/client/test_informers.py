"""An informer is the same over HTTP and in the process of the server: what it has, and what it tells."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from boats import GROUP, Boat, Harbour, OldBoat, boat_server, tree
from broken_transport import BreakingTransport, Whole, boat, breaking, no_sleep, until

from oarlock import APIServer, Authorizer, Decision, ObjectMeta, Target, User, errors
from oarlock.client import Client, Informer
from oarlock.client.informers.informer import NotRunning
from oarlock.client.informers.remote_objects import RemoteObjects
from oarlock.client.keywords import RetryPolicy
from oarlock.client.kinds import ResourceRef
from oarlock.client.transport import TransportError
from oarlock.meta.kinds import GroupResource
from oarlock.registry.read.cached_objects import CachedObjects
from oarlock.testing import InMemory

pytestmark = pytest.mark.anyio

EXPIRED = b'{"kind":"Status","code":410,"reason":"Expired","message":"too old"}'
NO_WATCH_LIST = b'{"kind":"Status","code":422,"reason":"Invalid","message":"sendInitialEvents is forbidden"}'


def crew_of(found: Boat | None) -> int | None:
    return None if found is None else found.spec.crew


@pytest.fixture(params=["cache", "watch list", "list and watch"])
async def client(request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    """A client whose informers get their objects in each of the ways there are."""
    async with InMemory(boat_server()) as api, api.client() as steady:
        if request.param == "cache":
            yield steady
            return
        transport = BreakingTransport(steady.transport)
        transport.has_watch_list = request.param == "watch list"
        yield Client(transport, retries=RetryPolicy(sleep=no_sleep))


async def test_it_has_what_exists_and_follows(client: Client) -> None:
    await client.create(boat("a", 1))
    changes: list[tuple[int | None, int | None]] = []
    boats = client.informer(Boat, namespace="default")
    boats.add_handler(lambda old, new: changes.append((crew_of(old), crew_of(new))))
    boats.add_index("crew", lambda found: [str(found.spec.crew)])
    async with boats:
        await boats.synced()
        assert changes == [(None, 1)]
        assert len(boats) == 1
        await client.change(Boat, "a", lambda found: setattr(found.spec, "crew", 2), namespace="default")
        await until(lambda: len(changes) == 2)
        await client.create(boat("b", 2))
        await client.create(boat("c", 2, "elsewhere"))
        await until(lambda: len(boats) == 2)
        assert sorted(one.metadata.name for one in boats.by_index("crew", "2")) == ["a", "b"]
        assert boats.by_index("crew", "1") == []
        assert boats.get("c", "elsewhere") is None
        await client.delete(Boat, "a", namespace="default")
        await until(lambda: len(boats) == 1)
        assert crew_of(boats.get("b", "default")) == 2
        assert boats.get("b", "default") is boats.get("b", "default")
        assert boats.get("a", "default") is None
        await until(lambda: len(changes) == 4)
    assert changes == [(None, 1), (1, 2), (None, 2), (2, None)]


async def test_a_selector_is_entered_and_left(client: Client) -> None:
    await client.create(boat("a", 1, port="oslo"))
    await client.create(boat("b", 2, port="bergen"))
    changes: list[tuple[int | None, int | None]] = []
    in_oslo = client.informer(Boat, label_selector="port=oslo")
    named_b = client.informer(Boat, field_selector="metadata.name=b")
    in_oslo.add_handler(lambda old, new: changes.append((crew_of(old), crew_of(new))))
    async with in_oslo, named_b:
        await in_oslo.synced()
        await named_b.synced()
        assert [one.metadata.name for one in in_oslo] == ["a"]
        assert ([one.metadata.name for one in named_b], len(named_b)) == (["b"], 1)
        assert in_oslo.get("b", "default") is None

        def to(port: str) -> Callable[[Boat], object]:
            return lambda found: setattr(found.metadata, "labels", {"port": port})

        await client.change(Boat, "a", to("bergen"), namespace="default")
        await client.change(Boat, "b", to("oslo"), namespace="default")
        await until(lambda: len(changes) == 3)
        assert changes == [(None, 1), (1, None), (None, 2)]
        assert ([one.metadata.name for one in in_oslo], len(in_oslo)) == (["b"], 1)


async def test_other_versions_trees_and_kinds_of_the_cluster(client: Client) -> None:
    await client.create(boat("a", 7))
    await client.create(Harbour(metadata=ObjectMeta(name="h"), berths=3))
    old, trees = client.informer(OldBoat), client.informer(f"{GROUP}/v1beta1/Boat")
    harbours = client.informer(Harbour)
    async with old, trees, harbours:
        for one in (old, trees, harbours):
            await one.synced()
        before, harbour = old.get("a", "default"), harbours.get("h")
        assert before is not None
        assert before.people == 7
        found = trees.get("a", "default")
        assert found is not None
        assert (found["kind"], found["apiVersion"], found["people"]) == ("Boat", f"{GROUP}/v1beta1", 7)
        assert harbour is not None
        assert harbour.berths == 3


async def test_a_handler_that_comes_later_is_told_of_what_is_here(client: Client) -> None:
    for number in range(600):
        await client.create(boat(f"b{number:03}", number % 5))
    async with client.informer(Boat) as boats:
        await boats.synced()
        names: list[str] = []
        boats.add_handler(lambda old, new: names.append(new.metadata.name if new and not old else "?"))
        boats.add_index("crew", lambda found: [str(found.spec.crew)])
        assert len(boats.by_index("crew", "3")) == 120
        await boats.synced()
        await client.create(boat("later"))
        await until(lambda: len(names) == 601)
    assert sorted(names) == sorted([*(f"b{number:03}" for number in range(600)), "later"])


async def test_a_handler_and_an_index_that_fail_stop_nothing(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    boats = client.informer(Boat)
    boats.add_handler(lambda old, new: 1 / 0)
    boats.add_index("none", lambda found: [str(1 // 0)])
    async with boats:
        await client.create(tree("a", crew=1))
        await until(lambda: len(boats) == 1)
        await boats.synced()
        assert boats.by_index("none", "1") == []
        with pytest.raises(KeyError):
            boats.by_index("nome", "1")
    assert "a handler of the informer of Boat failed" in caplog.text
    assert "an index of the informer of Boat failed" in caplog.text


async def test_what_is_not_there_is_told(client: Client) -> None:
    async with client.informer(f"{GROUP}/v1/Raft") as rafts:
        with pytest.raises(errors.NotFound, match="no Raft"):
            await rafts.synced()
    async with client.informer(Boat, field_selector="spec.colour=red") as boats:
        with pytest.raises(errors.BadRequest, match=r"spec\.colour"):
            await boats.synced()


async def test_which_way_it_takes(client: Client) -> None:
    async with client.informer(Boat) as boats:
        await boats.synced()
        in_process = not isinstance(client.transport, BreakingTransport)
        assert isinstance(boats._source, CachedObjects if in_process else RemoteObjects)


async def test_a_user_who_may_not_list_gets_nothing_from_the_cache() -> None:
    class OnlyAdmins(Authorizer):
        async def decide(self, user: User, target: Target) -> Decision:
            return Decision.allow() if {"admins", "system:masters"} & set(user.groups) else Decision.deny()

    async with InMemory(APIServer(serve=[Boat], authorizer=OnlyAdmins())) as api:
        for client in (api.client(User("eve")), api.client().as_user(User("eve"))):
            async with client.informer(Boat) as boats:
                with pytest.raises(errors.Forbidden, match="forbidden"):
                    await boats.synced()
        async with api.client(User("ann", groups=("admins",))).informer(Boat) as boats:
            await boats.synced()


async def test_reading_before_the_start_is_a_mistake() -> None:
    boats = Informer(Boat)
    for read in (lambda: boats.get("a"), lambda: list(boats), lambda: len(boats)):
        with pytest.raises(NotRunning, match="informers="):
            read()
    with pytest.raises(NotRunning, match=r"client\.informer"):
        async with boats:
            pass


async def test_what_has_ended_is_not_waited_for(client: Client) -> None:
    async with client.informer(Boat) as boats:
        await boats.synced()
    with pytest.raises(NotRunning, match="has stopped"):
        await boats.synced()


# What only happens over a network


async def test_an_informer_asks_again_after_a_410_and_tells_the_difference() -> None:
    async with breaking() as (client, transport, steady):
        for name in "abc":
            await steady.create(boat(name))
        changes: list[tuple[str, str]] = []

        def delivered(old: Boat | None, new: Boat | None) -> None:
            known = new or old
            assert known is not None
            changes.append((known.metadata.name, "gone" if new is None else "new" if old is None else "changed"))

        boats = client.informer(Boat)
        boats.add_handler(delivered)
        async with boats:
            await boats.synced()
            del changes[:]
            transport.refusals = [Whole(410, EXPIRED)]
            await transport.cut()
            await steady.delete(Boat, "a", namespace="default")
            await steady.change(Boat, "b", lambda found: setattr(found.spec, "crew", 9), namespace="default")
            await steady.create(boat("d"))
            await until(lambda: len(changes) == 3)
        assert sorted(changes) == [("a", "gone"), ("b", "changed"), ("d", "new")]


async def test_an_object_that_does_not_fit_is_left_out_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with breaking() as (client, transport, steady):
        await steady.create(boat("a"))
        page = (
            b'{"metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"x","namespace":"n",'
            b'"resourceVersion":"1"},"spec":{"crew":"many"}}]}'
        )
        transport.refusals = [Whole(422, NO_WATCH_LIST), Whole(200, page)]
        delivered: list[Any] = []
        boats = client.informer(Boat)
        boats.add_handler(lambda old, new: delivered.append(new))
        async with boats:
            await boats.synced()
            assert boats.get("x", "n") is None
            await until(lambda: len(boats) == 2)
            assert [one.metadata.name for one in boats] == ["a"]
            await boats.synced()
        assert [one.metadata.name for one in delivered] == ["a"]
        assert "Boat n/x: left out of its informer" in caplog.text


async def test_an_informer_that_may_not_list_says_so() -> None:
    async with breaking() as (client, transport, _):
        transport.refusals = [Whole(403, b"not you")]
        async with client.informer(Boat) as boats:
            with pytest.raises(errors.Forbidden, match="not you"):
                await boats.synced()


async def test_a_server_that_is_not_there_yet_is_waited_for() -> None:
    async with breaking() as (client, transport, steady):
        await steady.create(boat("a"))
        transport.refusals = [TransportError("nobody there", sent=False) for _ in range(30)]
        async with client.informer(f"{GROUP}/v1/Boat") as boats:
            await boats.synced()
            assert len(boats) == 1


async def test_informers_in_the_process_of_the_server_share_the_trees_that_they_show() -> None:
    kind = f"{GROUP}/v1/Boat"
    told: list[list[Any]] = [[], []]
    async with InMemory(boat_server()) as api, api.client() as client:
        first, second = api.client().informer(kind), api.client().informer(kind)
        first.add_handler(lambda *pair: told[0].append(pair))
        second.add_handler(lambda *pair: told[1].append(pair))
        async with first, second:
            await client.create(boat("a", 1))
            await until(lambda: len(told[0]) == len(told[1]) == 1)
            assert first.get("a", "default") is second.get("a", "default")
            await client.change(Boat, "a", lambda found: setattr(found.spec, "crew", 2), namespace="default")
            await until(lambda: len(told[0]) == len(told[1]) == 2)
            await client.delete(Boat, "a", namespace="default")
            await until(lambda: len(told[0]) == len(told[1]) == 3)
    (_, made), (before, changed), (last, gone) = told[0]
    assert (before["spec"]["crew"], changed["spec"]["crew"]) == (1, 2)
    assert made is before
    assert changed is last
    assert gone is None
    for one, other in zip(*told, strict=True):
        assert one[0] is other[0]
        assert one[1] is other[1]


async def test_messages_name_a_resource_that_no_class_declares() -> None:
    boats: Any = ResourceRef(GroupResource("harbor.example.com", "boats"), "v1", "Boat", namespaced=True)
    with pytest.raises(NotRunning, match=r"informer of harbor\.example\.com/v1/Boat"):
        Informer(boats).get("ann")
