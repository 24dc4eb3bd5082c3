"""Bytes that are no object can only be deleted, by who may do so and says that it is meant."""

from __future__ import annotations

from typing import Any

import pytest
from walk_kit import BOATS, Boat, boat, causes, everything, failure, fleet, key, made, walk

from oarlock import Admission, APIServer, Context, ObjectMeta, Resource, Review, VirtualCollection
from oarlock.meta.context import Target, User
from oarlock.meta.errors import Denied
from oarlock.policy.authz.authorizer import Authorizer, Decision, Outcome
from oarlock.storage.memory import MemoryBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.server import InMemory

UNSAFE = "ignoreStoreReadErrorWithClusterBreakingPotential"
BROKEN = BOATS + "/broken"
OPTIONS = {"apiVersion": "v1", "kind": "DeleteOptions", UNSAFE: True}


async def with_broken(api: InMemory, backend: MemoryBackend) -> None:
    await backend.put(key("boats", "default", "broken"), b"\x00{", expect=0)
    await made(api, BOATS, boat("fine", port="oslo"))


@walk
@pytest.mark.parametrize("by_query", [True, False])
async def test_it_is_gone_and_everything_is_whole_again(by_query: bool) -> None:
    api, backend = fleet()
    async with api:
        await with_broken(api, backend)
        assert (await api.get(BOATS)).status == 500
        assert failure(await api.delete(BROKEN))[:2] == (500, "StorageReadError")
        answer = await (api.delete(f"{BROKEN}?{UNSAFE}=true") if by_query else api.delete(BROKEN, OPTIONS))
        assert (answer.status, answer.json["status"]) == (200, "Success"), answer.json
        assert answer.json["details"]["name"] == "broken"
        assert [one["metadata"]["name"] for one in (await api.get(BOATS)).json["items"]] == ["fine"]
        assert (await api.delete(f"{BROKEN}?{UNSAFE}=true")).status == 404
        await made(api, BOATS, boat("broken"))


@walk
async def test_what_can_be_read_is_not_deleted_so() -> None:
    api, _ = fleet()
    async with api:
        await made(api, BOATS, boat("fine"))
        answer = await api.delete(f"{BOATS}/fine?{UNSAFE}=true")
        assert failure(answer)[:2] == (422, "Invalid")
        assert causes(answer) == [UNSAFE]
        assert "exclusively used to delete corrupt object(s)" in answer.json["message"]
        assert (await api.get(BOATS + "/fine")).status == 200
        assert (await api.delete(f"{BOATS}/fine?{UNSAFE}=false")).status == 200


@walk
@pytest.mark.parametrize(
    "others",
    [
        {"dryRun": ["All"]}, {"propagationPolicy": "Background"}, {"orphanDependents": False},
        {"gracePeriodSeconds": 0}, {"preconditions": {"uid": "u"}},
    ],
)  # fmt: skip
async def test_it_goes_with_no_other_option(others: dict[str, Any]) -> None:
    api, backend = fleet()
    async with api:
        await with_broken(api, backend)
        answer = await api.delete(BROKEN, {**OPTIONS, **others})
        assert failure(answer)[:2] == (422, "Invalid")
        (name,) = others
        assert answer.json["message"].endswith(f"cannot be set together with .{name}")
        everything_at_once = await api.delete(f"{BOATS}?{UNSAFE}=true")
        assert failure(everything_at_once)[:2] == (422, "Invalid")
        assert "is not allowed with DELETECOLLECTION" in everything_at_once.json["message"]
        assert await backend.count(key("boats"), key("boats") + "0") == (2, await backend.current_rev())


class Careful(Authorizer):
    """Everybody may delete, and only root what can't be read."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def decide(self, user: User, target: Target) -> Decision:
        self.asked.append(target.verb)
        allowed = target.verb != "unsafe-delete-ignore-read-errors"
        return Decision(Outcome.ALLOW if allowed else Outcome.DENY, "only root may")


@walk
async def test_it_takes_a_right_of_its_own() -> None:
    clock, careful = VirtualClock(), Careful()
    backend = MemoryBackend(clock=clock)
    async with InMemory(everything(authorizer=careful), backend=backend, clock=clock) as api:
        await with_broken(api, backend)
        answer = await api.delete(f"{BROKEN}?{UNSAFE}=true")
        assert failure(answer)[:2] == (403, "Forbidden")
        assert 'cannot unsafe-delete-ignore-read-errors resource "boats"' in answer.json["message"]
        assert careful.asked[-2:] == ["delete", "unsafe-delete-ignore-read-errors"]


class Registrar(Admission[Boat], operations=["DELETE"]):
    waits = False

    def __init__(self) -> None:
        self.seen: list[Boat | None] = []

    async def validate(self, review: Review[Boat]) -> None:
        self.seen.append(review.old_object)
        if len(self.seen) == 1:
            raise Denied("not yet")


@walk
async def test_admission_is_asked_and_has_nothing_to_look_at() -> None:
    clock, registrar = VirtualClock(), Registrar()
    backend = MemoryBackend(clock=clock)
    async with InMemory(everything(admission=[registrar]), backend=backend, clock=clock) as api:
        await with_broken(api, backend)
        assert (await api.delete(f"{BROKEN}?{UNSAFE}=true")).status == 403
        assert (await api.delete(f"{BROKEN}?{UNSAFE}=true")).status == 200
    assert registrar.seen == [None, None]


class Gust(Resource, group="walk.example.com", version="v1", scope="Cluster"):
    """A virtual one."""


class Gusts(VirtualCollection[Gust]):
    async def get(self, name: str, ctx: Context) -> Gust:
        return Gust(metadata=ObjectMeta(name=name))

    async def delete(self, name: str, ctx: Context) -> None:
        raise AssertionError


@walk
async def test_of_virtual_resources_there_is_none() -> None:
    async with InMemory(APIServer(serve=[Gusts])) as api:
        answer = await api.delete(f"/apis/walk.example.com/v1/gusts/a?{UNSAFE}=true")
        assert failure(answer)[:2] == (422, "Invalid")
