"""DELETE of a collection: many at a time, each by its own rules, and nothing but what was there when it began."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from walk_kit import BOATS, PORTS, Boat, Boats, BoatV1Alpha1, boat, failure, fleet, key, made, walk

from oarlock import Admission, APIServer, Context, Denied, ObjectMeta, Resource, Review, VirtualCollection
from oarlock.registry.served_resource import StoredVerbs
from oarlock.storage.memory import MemoryBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.server import InMemory

AT_A_TIME = StoredVerbs.deletions_at_a_time
COUNT = 3 * AT_A_TIME


class Slow:
    """A store that keeps every deletion waiting for a few turns of the loop; `before` is called with its number."""

    def __init__(self, backend: Any, before: Callable[[int, str], Any] = lambda number, key: None) -> None:
        self.begun: list[str] = []
        self.most = 0
        self._under_way = 0
        real = backend.delete

        async def delete(key: str, *, expect: int) -> Any:
            self.begun.append(key)
            number = len(self.begun)
            self._under_way += 1
            self.most = max(self.most, self._under_way)
            for _ in range(5):
                await asyncio.sleep(0)
            try:
                result = before(number, key)
                if result is not None:
                    await result
                return await real(key, expect=expect)
            finally:
                self._under_way -= 1

        backend.delete = delete


async def ports(api: InMemory, count: int = COUNT) -> list[str]:
    names = [f"p{number:04d}" for number in range(count)]
    for name in names:
        await made(api, PORTS, {"metadata": {"name": name}})
    return names


async def names_at(api: InMemory, path: str) -> list[str]:
    return [item["metadata"]["name"] for item in (await api.get(path)).json["items"]]


@walk
async def test_a_bounded_number_is_deleted_at_a_time():
    api, backend = fleet()
    async with api:
        names = await ports(api)
        slow = Slow(backend)
        answer = await api.delete(PORTS)
        assert answer.status == 200
        assert [item["metadata"]["name"] for item in answer.json["items"]] == names
        assert await names_at(api, PORTS) == []
        assert slow.most == AT_A_TIME
        assert slow.begun == [key("ports", name) for name in names]


@walk
async def test_what_is_created_meanwhile_stays():
    api, backend = fleet()
    async with api:
        await ports(api)

        def create(number: int, key: str) -> Any:
            return api.post(PORTS, {"metadata": {"name": f"new-{number}-{key[-4:]}"}}) if number % 10 == 0 else None

        Slow(backend, create)
        answer = await api.delete(PORTS)
        assert len(answer.json["items"]) == COUNT
        left = await names_at(api, PORTS)
        assert left
        assert all(name.startswith("new-") for name in left)


@walk
async def test_what_somebody_else_deletes_meanwhile_is_no_error():
    api, backend = fleet()
    async with api:
        await ports(api)
        real = backend.delete

        async def rival(key: str) -> None:
            kv, _ = await backend.get(key)
            if kv is not None:
                await real(key, expect=kv.mod_rev)

        Slow(backend, lambda number, key: rival(key) if number % 3 else None)
        assert (await api.delete(PORTS)).status == 200
        assert await names_at(api, PORTS) == []


class Guard(Admission[Boat], operations=["DELETE"]):
    """Says something of every boat, and keeps some. Each review waits, so that many are under way at once."""

    def __init__(self) -> None:
        self.reviewed: list[str] = []

    async def validate(self, review: Review[Boat]) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        self.reviewed.append(review.name)
        review.warn(f"deleting {review.name}")
        if review.old_object is not None and "keep" in review.old_object.metadata.labels:
            raise Denied(f"{review.name} is kept")


def guarded() -> tuple[InMemory, MemoryBackend, Guard]:
    clock, guard = VirtualClock(), Guard()
    backend = MemoryBackend(clock=clock)
    return (
        InMemory(APIServer(serve=[Boats, BoatV1Alpha1], admission=[guard]), backend=backend, clock=clock),
        backend,
        guard,
    )


@walk
async def test_the_first_error_in_the_order_of_the_list_is_the_answer_and_little_is_begun_after_it():
    api, _, guard = guarded()
    async with api:
        for number in range(COUNT):
            kept = {"labels": {"keep": "yes"}} if number in (10, 20, 150) else {}
            await made(api, BOATS, boat(f"b{number:04d}", **kept))
        code, reason, message = failure(await api.delete(BOATS))
        assert (code, reason) == (403, "Forbidden")
        assert "b0010 is kept" in message
        left = await names_at(api, BOATS)
        assert {"b0010", "b0020", "b0150"} <= set(left)
        assert len(guard.reviewed) <= AT_A_TIME + 10
        assert max(guard.reviewed) < "b0100"
        assert left[-1] == f"b{COUNT - 1:04d}"


@walk
async def test_a_dry_run_asks_admission_and_deletes_nothing():
    api, _, guard = guarded()
    async with api:
        for number in range(COUNT):
            await made(api, BOATS, boat(f"b{number:04d}"))
        answer = await api.delete(BOATS + "?dryRun=All")
        assert answer.status == 200
        assert len(answer.json["items"]) == COUNT
        assert sorted(guard.reviewed) == await names_at(api, BOATS)


@walk
async def test_a_lost_race_takes_back_only_what_its_own_object_said():
    api, backend, guard = guarded()
    async with api:
        for number in range(8):
            await made(api, BOATS, boat(f"b{number}"))
        changed: set[str] = set()

        async def rival(key: str) -> None:
            if key not in changed:
                changed.add(key)
                kv, _ = await backend.get(key)
                assert kv is not None
                tree = json.loads(kv.value)
                tree["metadata"]["annotations"] = {"theirs": "1"}
                await backend.put(key, json.dumps(tree).encode(), expect=kv.mod_rev)

        Slow(backend, lambda number, key: rival(key) if key[-1] in "25" else None)
        answer = await api.delete(BOATS)
        assert answer.status == 200
        assert len(guard.reviewed) == 10
        assert [text.strip(' ",') for text in answer.warnings] == [f"deleting b{number}" for number in range(8)]
        assert await names_at(api, BOATS) == []


@walk
async def test_each_object_has_its_preconditions_and_finalizers():
    api, _ = fleet()
    async with api:
        for number in range(10):
            finalizers = ["x.io/f"] if number % 2 else []
            await made(api, PORTS, {"metadata": {"name": f"p{number}", "finalizers": finalizers}})
        uid = (await api.get(PORTS + "/p3")).json["metadata"]["uid"]
        assert failure(await api.delete(PORTS, {"preconditions": {"uid": uid}}))[0] == 409
        assert len(await names_at(api, PORTS)) == 10
        assert (await api.delete(PORTS)).status == 200
        left = (await api.get(PORTS)).json["items"]
        assert [item["metadata"]["name"] for item in left] == ["p1", "p3", "p5", "p7", "p9"]
        assert all(item["metadata"]["deletionTimestamp"] for item in left)


@walk
async def test_a_version_says_which_state_is_deleted():
    api, _ = fleet()
    async with api:
        first = await made(api, PORTS, {"metadata": {"name": "a"}})
        await made(api, PORTS, {"metadata": {"name": "b"}})
        rev = first["metadata"]["resourceVersion"]
        answer = await api.delete(f"{PORTS}?resourceVersion={rev}")
        assert answer.status == 200
        assert [item["metadata"]["name"] for item in answer.json["items"]] == ["a"]
        assert await names_at(api, PORTS) == ["b"]
        await made(api, PORTS, {"metadata": {"name": "c"}})
        any_state = await api.delete(f"{PORTS}?resourceVersion=0")
        assert any_state.status == 409  # the version is a precondition too, as in kube-apiserver
        assert await names_at(api, PORTS) == ["b", "c"]


class Gull(Resource, group="walk.example.com", version="v1", scope="Cluster"):
    """A bird."""


class Gulls(VirtualCollection[Gull]):
    """Counts who is at its storage."""

    def __init__(self) -> None:
        self._there = [f"g{number}" for number in range(20)]
        self._under_way = 0
        self._most = 0

    async def list(self, ctx: Context) -> list[Gull]:
        return [Gull(metadata=ObjectMeta(name=name)) for name in self._there]

    async def delete(self, name: str, ctx: Context) -> None:
        self._under_way += 1
        self._most = max(self._most, self._under_way)
        await asyncio.sleep(0)
        self._there.remove(name)
        self._under_way -= 1


@walk
async def test_a_users_own_storage_gets_one_deletion_after_the_other():
    gulls = Gulls()
    async with InMemory(APIServer(serve=[gulls]), clock=VirtualClock()) as api:
        assert len((await api.delete("/apis/walk.example.com/v1/gulls")).json["items"]) == 20
        assert gulls._there == []
        assert gulls._most == 1
