"""`replace` of a definition in use: loaded beside the old one, exchanged in one step, taken back when it fails."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from typing import Any

import pytest
from held_backend import HeldBackend
from walk_kit import BOATS, CRATE_SCHEMA, CRATES, GROUP, boat, crate, everything, failure, made, path, walk

from oarlock import Admission, APIServer, Resource, Review
from oarlock.endpoints.catalog import Catalog
from oarlock.meta.context import Target, User
from oarlock.policy.authz.authorizer import ALLOWED, Authorizer, Decision
from oarlock.registry.served import Served
from oarlock.storage.backend import Unavailable
from oarlock.storage.memory import MemoryBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.server import Answer, Events, InMemory

CRATES_V2 = path("crates", version="v2")


class World:
    """A server of the test resources with some crates in it, and a store that can be held up."""

    def __init__(self, server: APIServer | None = None) -> None:
        clock = VirtualClock()
        self.store = HeldBackend(MemoryBackend(clock=clock))
        self.api = InMemory(server or everything(), backend=self.store, clock=clock)
        self.old = self.api.server.catalog
        self.numbers = itertools.count()
        self.names: set[str] = set()

    async def write(self, where: str = CRATES) -> str:
        """Create a crate and change it: two events."""
        name = f"c{next(self.numbers)}"
        await made(self.api, where, {"metadata": {"name": name}, "spec": {"size": 1}})
        changed = await self.api.patch(f"{where}/{name}", {"spec": {"size": 2}})
        assert changed.status == 200, changed
        self.names.add(name)
        return name

    async def erase(self, name: str) -> None:
        assert (await self.api.delete(f"{CRATES}/{name}")).status == 200
        self.names.discard(name)

    async def listed(self, where: str = CRATES) -> list[str]:
        answer = await self.api.get(where)
        assert answer.status == 200, answer
        return sorted(item["metadata"]["name"] for item in answer.json["items"])

    def with_crates(self, *crates: Served, generation: int = 2) -> Catalog:
        kept = [served for served in self.old.entries if served.definition.names.plural != "crates"]
        return Catalog.of([*kept, *crates], generation)

    def task(self, catalog: Catalog) -> asyncio.Task[None]:
        return asyncio.create_task(self.api.replace(catalog))

    async def state(self) -> dict[str, Any]:
        """What must be as before when a replacement has failed."""
        return {
            "discovery": (await self.api.get(f"/apis/{GROUP}")).body,
            "openapi": (await self.api.get("/openapi/v3")).body,
            "v2": (await self.api.get(CRATES_V2)).status,
            "caches": self.api.parts.storage.cache.resources,
            "ready": [cache.ready for cache in self.api.parts.storage.cache.resources],
            "buffers": dict(self.api.parts.storage.cache._buffers),
            "resources": self.api.parts.resources.live.resources,
        }


CHANGED = crate("v2", versions=("v1", "v2"))


def told(events: Events) -> list[tuple[str, str, int]]:
    return [
        (kind, tree["metadata"]["name"], int(tree["metadata"]["resourceVersion"])) for kind, tree in events.pending()
    ]


@walk
async def test_a_failure_at_any_step_leaves_everything_as_it_was():
    world = World()
    async with world.api:
        for _ in range(3):
            await world.write()
        before = await world.state()
        async with world.api.watch(CRATES) as crates, world.api.watch(BOATS) as boats:
            for number in itertools.count():
                task = world.task(world.with_crates(CHANGED))

                async def refuse(now: int, name: str, at: int = number) -> None:
                    await world.write()
                    if now == at:
                        raise Unavailable(f"the store is away at {name}")

                world.store.attend(task, before=refuse)
                try:
                    await task
                except Unavailable:
                    pass
                else:
                    break
                assert await world.state() == before
                assert not crates.closed
                name = await world.write()
                await world.erase(name)
                assert await world.listed() == sorted(world.names)
                await made(world.api, BOATS, boat(f"b{number}"))
            assert number > 4, "a replacement asks the store for more than that"
            assert crates.closed
            assert not boats.closed
            events = told(crates)
        revs = [rev for _, _, rev in events]
        assert revs == sorted(set(revs))
        assert len([kind for kind, _, _ in events if kind == "DELETED"]) == number
        assert await world.listed(CRATES_V2) == await world.listed() == sorted(world.names)


@walk
async def test_cancelling_at_any_step_leaves_everything_as_it_was():
    world = World()
    async with world.api:
        await world.write()
        before = await world.state()
        async with world.api.watch(CRATES) as crates:
            crates.pending()
            for number in itertools.count():
                task = world.task(world.with_crates(CHANGED))
                reached = asyncio.Event()

                async def stop(now: int, name: str, at: int = number, reached: asyncio.Event = reached) -> None:
                    if now == at:
                        reached.set()
                        await asyncio.Event().wait()

                world.store.attend(task, before=stop)
                waiting = asyncio.create_task(reached.wait())
                await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                if task.done():
                    break
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert await world.state() == before
                assert not crates.closed
                await world.write()
                assert [kind for kind, _, _ in told(crates)] == ["ADDED", "MODIFIED"]
            assert number > 4
        assert await world.listed(CRATES_V2) == sorted(world.names)


@walk
async def test_nothing_is_refused_lost_or_doubled_while_it_is_exchanged():
    world = World()
    async with world.api:
        for _ in range(5):
            await world.write()

        async def meanwhile(number: int, name: str) -> None:
            await world.write()
            await world.erase(await world.write())
            assert await world.listed() == sorted(world.names)
            assert (await world.api.get(f"{CRATES}/c0")).status == 200
            assert not crates.closed, "a watch ends when the new definition is ready, not earlier"

        async with world.api.watch(CRATES) as crates:
            first = told(crates)
            task = world.task(world.with_crates(CHANGED))
            world.store.attend(task, before=meanwhile, after=meanwhile)
            await task
            assert crates.closed
            seen = told(crates)
        async with world.api.watch(f"{CRATES}?resourceVersion={seen[-1][2]}") as crates:
            await world.write()
            await world.write(CRATES_V2)
            seen += told(crates)
        calls = len(world.store.calls)
        assert [kind for kind, _, _ in first] == ["ADDED"] * 5
        expected = ["ADDED", "MODIFIED", "ADDED", "MODIFIED", "DELETED"] * 2 * calls
        assert [kind for kind, _, _ in seen] == [*expected, *["ADDED", "MODIFIED"] * 2]
        revs = [rev for _, _, rev in seen]
        assert revs == sorted(set(revs))
        assert await world.listed() == await world.listed(CRATES_V2) == sorted(world.names)


class Slow(Admission[Resource]):
    """Holds the first change of a crate up until it is told to go on."""

    def __init__(self) -> None:
        self.arrived = asyncio.Event()
        self.go_on = asyncio.Event()
        self.asked = 0

    async def validate(self, review: Review[Resource]) -> None:
        if review.ctx.target.resource == "crates" and review.operation == "UPDATE":
            self.asked += 1
            if self.asked == 1:
                self.arrived.set()
                await self.go_on.wait()


async def overtaken(world: World, slow: Slow, changed: Served) -> Answer:
    """A patch that began with the old definition, and lost its race to one that was made with the new."""
    await made(world.api, CRATES, {"metadata": {"name": "c"}, "spec": {"size": 1}})
    patching = asyncio.create_task(world.api.patch(f"{CRATES}/c", {"metadata": {"labels": {"slow": "yes"}}}))
    await slow.arrived.wait()
    await world.api.replace(world.with_crates(changed))
    assert len(world.api.parts.storage.cache.resources) == 5, "who began with the old definition still has its cache"
    assert (await world.api.patch(f"{CRATES_V2}/c", {"spec": {"size": 7}})).status == 200
    slow.go_on.set()
    answer = await patching
    assert len(world.api.parts.storage.cache.resources) == 4, "with the last request its cache goes"
    return answer


@walk
async def test_a_write_under_way_while_it_is_exchanged_sees_what_was_written_since():
    slow = Slow()
    world = World(everything(admission=[slow]))
    async with world.api:
        still_v1 = replace(CHANGED, definition=replace(CHANGED.definition, stored_as="v1"))
        answer = await overtaken(world, slow, still_v1)
        assert answer.status == 200
        assert answer.json["spec"]["size"] == 7
        assert slow.asked == 3, "the race was lost once"
        assert (await world.api.get(f"{CRATES_V2}/c")).json["metadata"]["labels"] == {"slow": "yes"}


@walk
async def test_a_write_under_way_that_cannot_read_what_was_written_since_is_told_to_try_again():
    slow = Slow()
    world = World(everything(admission=[slow]))
    async with world.api:
        answer = await overtaken(world, slow, CHANGED)
        assert failure(answer)[:2] == (429, "TooManyRequests")
        assert answer.headers["retry-after"] == "1"
        assert (await world.api.patch(f"{CRATES}/c", {"metadata": {"labels": {"slow": "no"}}})).status == 200


class Gatekeeper(Authorizer):
    """An authorizer that takes its time over those who ask for crates, when told to."""

    def __init__(self) -> None:
        self.closed = False
        self.arrived = asyncio.Event()
        self.go_on = asyncio.Event()

    async def decide(self, user: User, target: Target) -> Decision:
        if self.closed and target.resource == "crates":
            self.arrived.set()
            await self.go_on.wait()
        return ALLOWED


@walk
async def test_a_request_that_was_being_authorized_meanwhile_is_answered_by_what_is_served_now():
    gatekeeper = Gatekeeper()
    world = World(everything(authorizer=gatekeeper))
    async with world.api:
        await made(world.api, CRATES, {"metadata": {"name": "c"}, "spec": {"size": 1}})
        for catalog, status in ((world.with_crates(CHANGED), 200), (world.with_crates(), 404)):
            gatekeeper.closed = True
            gatekeeper.arrived.clear()
            gatekeeper.go_on.clear()
            getting = asyncio.create_task(world.api.get(f"{CRATES}/c"))
            await gatekeeper.arrived.wait()
            gatekeeper.closed = False
            await world.api.replace(catalog)
            if status == 200:
                assert (await world.api.patch(f"{CRATES}/c", {"spec": {"size": 9}})).status == 200
            gatekeeper.go_on.set()
            answer = await getting
            assert answer.status == status
            if status == 200:
                assert answer.json["spec"]["size"] == 9


@walk
async def test_a_change_that_leaves_the_stored_form_alone_disturbs_no_watch_and_loads_nothing():
    world = World()
    async with world.api:
        await world.write()
        stricter = {**CRATE_SCHEMA, "properties": {**CRATE_SCHEMA["properties"], "note": {"type": "string"}}}
        old = crate()
        version = replace(old.definition.versions[0], schema=stricter)
        async with world.api.watch(f"{CRATES}?fieldSelector=spec.colour=red") as red, world.api.watch(CRATES) as crates:
            crates.pending()
            task = world.task(world.with_crates(replace(old, definition=replace(old.definition, versions=(version,)))))
            world.store.attend(task)
            await task
            assert [call for call in world.store.calls if call.startswith(("list /registry", "watch"))] == []
            spec = {"size": 1, "colour": "red"}
            shown = await made(world.api, CRATES, {"metadata": {"name": "new"}, "spec": spec, "note": "kept"})
            assert shown["note"] == "kept"
            await world.write()
            assert [tree["metadata"]["name"] for _, tree in red.pending()] == ["new"]
            assert crates.pending()[0] == ("ADDED", shown)
            assert not crates.closed
            await world.api.replace(world.with_crates(crate("v1", versions=("v1", "v2"))))
            assert crates.closed, "a version more is shown by other conversions"
            assert red.closed


@walk
async def test_replacements_are_carried_out_one_after_the_other():
    world = World()
    async with world.api:
        await world.write()
        order: list[str] = []

        async def note(number: int, name: str) -> None:
            order.append(name)
            await asyncio.sleep(0.01)

        first = world.task(world.with_crates(CHANGED))
        world.store.attend(first, before=note)
        second = world.task(world.with_crates(crate(), generation=3))
        third = world.task(world.with_crates(generation=4))
        await asyncio.gather(first, second, third)
        assert order
        assert (await world.api.get(CRATES)).status == 404
        assert [cache.prefix for cache in world.api.parts.storage.cache.resources if "crates" in cache.prefix] == []
