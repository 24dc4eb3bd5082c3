"""What users write to wait has a task to wait in, though requests begin without one."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from walk_kit import GROUP, Boat, Boats, BoatV1, path, walk

from oarlock import (
    Admission,
    APIServer,
    Context,
    DeclarationError,
    ObjectMeta,
    Resource,
    Review,
    StoredCollection,
    VirtualCollection,
    subresource,
)
from oarlock.endpoints.http import Request, Response
from oarlock.meta.context import Peer, Target, User
from oarlock.policy.authn.authenticator import Authenticator, Credentials, Identity, Union
from oarlock.policy.authz.authorizer import ALLOWED, Authorizer, Decision
from oarlock.registry.write.write_request import AdmissionRequest
from oarlock.server.local.transport import FixedUser
from oarlock.server.serving.eager import run_eagerly
from oarlock.testing.server import InMemory


async def patiently() -> None:
    """What an HTTP client does: it waits under a timeout, which asks for the current task."""
    async with asyncio.timeout(60):
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


class Harbourmaster(Authorizer):
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
        outcome = run_eagerly(api._handle(request), loop)
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


class Doorman(Authenticator):
    """Asks somebody else who it is."""

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        await patiently()
        seen.append(asyncio.current_task())
        return Identity(User("a-stranger"))


@walk
async def test_an_authenticator_may_wait_under_a_timeout() -> None:
    async with InMemory(APIServer(serve=[Boats])) as api:
        for doorman in (Doorman(), Union([Nobody(), Doorman()])):
            api._handle = api.parts.handler(doorman)
            assert (await as_served(api, "GET", path("boats"))).status == 200


class Nobody(Authenticator):
    """Knows nobody, without asking."""

    waits = False

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        seen.append(asyncio.current_task())
        return None


seen: list[Any] = []


@walk
async def test_a_request_gets_a_task_when_an_authenticator_that_waits_is_asked() -> None:
    seen.clear()
    async with InMemory(APIServer(serve=[Boats])) as api:
        both = Union([Nobody(), FixedUser(User("somebody"))])
        api._handle = api.parts.handler(both)
        assert (await as_served(api, "GET", path("boats"))).status == 200
        both.exchange(1, Doorman())
        assert (await as_served(api, "GET", path("boats"))).status == 200
    alone, first, second = seen
    assert alone is None
    assert first is None
    assert second is not None


def retried(method: Any) -> Any:
    """A decorator such as people write: nothing in the wrapper's own body waits."""

    @functools.wraps(method)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return method(*args, **kwargs)

    return wrapper


class Decorated(Authorizer):
    """Doesn't say whether it waits."""

    @retried
    async def decide(self, user: User, target: Target) -> Decision:
        await patiently()
        return ALLOWED


def logged(method: Any) -> Any:
    """A decorator for methods that wait."""

    @functools.wraps(method)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        return await method(*args, **kwargs)

    return wrapper


class Inspector(Admission[Boat]):
    @logged
    async def validate(self, review: Review[Boat]) -> None:
        await patiently()


@walk
async def test_decorated_code_may_wait_under_a_timeout() -> None:
    server = APIServer(serve=[Boats], authorizer=Decorated(), admission=[Inspector()])
    async with InMemory(server) as api:
        body = {"metadata": {"name": "a"}, "spec": {"port": "a"}}
        assert (await as_served(api, "POST", path("boats"), body)).status == 201


def test_a_plugin_that_only_its_decorator_knows_to_wait_is_refused_with_what_to_write() -> None:
    with pytest.raises(DeclarationError, match=r"isn't async.*the wrapper of its decorator"):

        class Unmarked(Admission[Boat]):
            @retried
            async def validate(self, review: Review[Boat]) -> None: ...


class Hasty(Admission[Boat]):
    waits = False

    async def validate(self, review: Review[Boat]) -> None:
        seen.append(asyncio.current_task())
        await asyncio.sleep(0)
        seen.append(asyncio.current_task())


@walk
async def test_a_plugin_that_says_it_never_waits_and_does_gets_its_task_then() -> None:
    seen.clear()
    async with InMemory(APIServer(serve=[Boats], admission=[Hasty()])) as api:
        body = {"metadata": {"name": "a"}, "spec": {"port": "a"}}
        assert (await as_served(api, "POST", path("boats"), body)).status == 201
    assert seen[0] is None
    assert seen[1] is not None


class Switch:
    """A member of the admission chain whose configuration comes and goes, as a webhook's does."""

    def __init__(self) -> None:
        self.interested = False
        self.waits = False
        self.tasks: list[Any] = []

    def handles(self, request: AdmissionRequest) -> bool:
        return self.interested and request.operation == "CREATE" and request.ctx.target.resource == "boats"

    async def mutate(self, request: AdmissionRequest, new: Any, old: Any, offload: Any) -> Any:
        return new

    async def validate(self, request: AdmissionRequest, new: Any, old: Any, offload: Any, hub: Any) -> None:
        self.tasks.append(asyncio.current_task())
        if self.waits:
            await patiently()


@walk
async def test_the_interest_of_a_plugin_counts_at_each_request_of_the_same_route() -> None:
    switch = Switch()
    async with InMemory(APIServer(serve=[Boats], admission=[Hasty()])) as api:
        chain = api.parts.admission
        chain.plugins = (switch, *chain.plugins)
        names = iter("abcdefgh")

        async def create() -> tuple[list[Any], list[Any]]:
            """The tasks in which the switch and the plugin after it were called."""
            switch.tasks.clear()
            seen.clear()
            body = {"metadata": {"name": next(names)}, "spec": {"port": "a"}}
            assert (await as_served(api, "POST", path("boats"), body)).status == 201
            return switch.tasks[:], seen[:1]

        assert await create() == ([], [None])
        switch.interested = True
        assert await create() == ([None], [None])
        switch.waits = True
        (task,), (after,) = await create()
        assert task is after is not None
        switch.interested = False
        assert await create() == ([], [None])
        chain.plugins = ()
        assert await create() == ([], [])


class Late(StoredCollection[Boat], stored_as=BoatV1):
    @retried
    def validate(self, new: Boat, old: Boat | None, ctx: Context) -> Any:
        return patiently()


class Punctual(StoredCollection[Boat], stored_as=BoatV1):
    @retried
    def prepare(self, new: Boat, old: Boat | None, ctx: Context) -> Any:
        return patiently()


class Beacon(Resource, group=GROUP, version="v1"):
    """Its default waits, behind a decorator."""

    @retried
    def default(self) -> Any:
        return patiently()


@pytest.mark.parametrize(
    ("what", "where", "name"),
    [
        (Late, "boats", "Late.validate"),
        (Punctual, "boats", "Punctual.prepare"),
        (Beacon, "beacons", "Beacon.default"),
    ],
)
@walk
async def test_a_hook_that_may_not_wait_and_returns_something_to_wait_for_is_named(
    what: Any, where: str, name: str, caplog: Any
) -> None:
    async with InMemory(APIServer(serve=[what]), raise_server_exceptions=False) as api:
        version = "v1" if what is Beacon else "v2"
        answer = await api.post(path(where, version=version), {"metadata": {"name": "a"}, "spec": {"port": "a"}})
        assert answer.status == 500
    assert name in caplog.text
    assert "may not wait" in caplog.text
