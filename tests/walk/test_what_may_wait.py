"""What users write to wait has a task to wait in, though requests begin without one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from walk_kit import GROUP, Boat, Boats, path, walk

from oarlock import Admission, APIServer, Context, ObjectMeta, Resource, Review, VirtualCollection, subresource
from oarlock.endpoints.http import Peer, Request, Response
from oarlock.meta.context import Target, User
from oarlock.policy.authz.authorizer import ALLOWED, Decision
from oarlock.registry.waiting import may_wait
from oarlock.server.serving.drive import drive
from oarlock.testing.server import InMemory


async def patiently() -> None:
    """What an HTTP client does: it waits under a timeout, which asks for the current task."""
    async with asyncio.timeout(5):
        await asyncio.sleep(0)


class Gull(Resource, group=GROUP, version="v1"):
    """A bird somebody else keeps."""

    colour: str = "white"


class Gulls(VirtualCollection[Gull]):
    async def get(self, name: str, ctx: Context) -> Gull | None:
        await patiently()
        return None if name == "new" else Gull(metadata=ObjectMeta(name=name))

    async def list(self, ctx: Context) -> list[Gull]:
        await patiently()
        return [Gull(metadata=ObjectMeta(name="a"))]

    async def create(self, new: Gull, ctx: Context) -> Gull:
        await patiently()
        return new

    @subresource("cry")
    async def cry(self, name: str, ctx: Context) -> AsyncIterator[bytes]:
        await patiently()
        yield b"kee-ow\n"


class Inspection(Admission[Boat], operations=["CREATE"]):
    async def mutate(self, review: Review[Boat]) -> None:
        await patiently()

    async def validate(self, review: Review[Boat]) -> None:
        await patiently()


class Harbourmaster:
    async def decide(self, user: User, target: Target) -> Decision:
        await patiently()
        return ALLOWED


async def as_served(api: InMemory, method: str, where: str, body: Any = None) -> Response:
    """The answer as the serving layer gets it: the first step of a request is taken outside of any task."""
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[Response] = loop.create_future()

    async def read() -> bytes:
        return b"" if body is None else json.dumps(body).encode()

    headers = {"content-type": "application/json"}
    request = Request(method, where, "", headers, list(headers.items()), Peer("127.0.0.1", 1), read, loop.time())

    def start() -> None:
        outcome = drive(api._handle(request), loop)
        if isinstance(outcome, asyncio.Task):
            outcome.add_done_callback(lambda task: answered.set_result(task.result()))
        else:
            answered.set_result(outcome)

    loop.call_soon(start)
    return await answered


GULLS = f"/apis/{GROUP}/v1/namespaces/default/gulls"


@pytest.mark.parametrize(
    ("method", "where", "body"),
    [
        ("GET", f"{GULLS}/a", None),
        ("GET", GULLS, None),
        ("GET", f"{GULLS}/a/cry", None),
        ("POST", GULLS, {"metadata": {"name": "new"}}),
        ("POST", path("boats"), {"metadata": {"name": "a"}, "spec": {"port": "a"}}),
    ],
)
@walk
async def test_users_code_may_wait_under_a_timeout(method: str, where: str, body: Any) -> None:
    async with InMemory(APIServer(serve=[Gulls, Boats], admission=[Inspection()])) as api:
        response = await as_served(api, method, where, body)
        assert response.status == (201 if method == "POST" else 200), response.body


@walk
async def test_an_authorizer_may_wait_under_a_timeout() -> None:
    async with InMemory(APIServer(serve=[Boats], authorizer=Harbourmaster())) as api:
        assert (await as_served(api, "GET", path("boats"))).status == 200


def test_a_coroutine_function_without_await_never_waits() -> None:
    class Quick:
        async def decide(self) -> bool:
            return any(n > 1 for n in (1, 2))

    async def slow() -> None:
        await asyncio.sleep(0)

    async def loops(items: AsyncIterator[int]) -> None:
        async for _ in items:
            pass

    assert not may_wait(Quick().decide)
    assert may_wait(slow)
    assert may_wait(loops)
    assert may_wait(lambda: slow())
    assert may_wait(len)
