"""A server put together, without sockets: starting, exchanging its catalog, leaving."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from token_users import by_token

from oarlock import APIServer, Informer, Model, Resource, served_from
from oarlock.apps.api_server import NotServing
from oarlock.client.informers.informer import NotRunning
from oarlock.endpoints.catalog import Catalog
from oarlock.endpoints.http import Handler, Request, Response
from oarlock.meta.context import Peer, Target, User
from oarlock.policy.authn.authenticator import Union
from oarlock.policy.authz.authorizer import ALLOWED, Authorizer, Decision, Outcome
from oarlock.schema.types.declaring import DeclarationError
from oarlock.server.assembly.parts import ServerParts
from oarlock.server.assembly.run import Running, assemble
from oarlock.server.config import ServerConfig
from oarlock.storage.memory import MemoryBackend

pytestmark = pytest.mark.anyio

THINGS = "/apis/test.example.com/v1/namespaces/default/things"


class ThingSpec(Model):
    """What is wanted."""

    size: int = 1


class Thing(Resource, group="test.example.com", version="v1"):
    """A thing."""

    spec: ThingSpec = ThingSpec()


class Other(Resource, group="test.example.com", version="v1"):
    """Another."""


class Listening:
    """What stands for the listener: notes what is asked of it."""

    port = 6443

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.asked: list[str] = []
        self.left_over = 0

    def stop_accepting(self) -> None:
        self.asked.append("stop accepting")

    async def drain(self, timeout_s: float) -> int:
        self.asked.append(f"drain {timeout_s:g}")
        return self.left_over

    async def close(self) -> None:
        self.asked.append("close")


class Stream:
    """The stream of a watch that nobody reads."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closed = False
        self.buffered = 0
        self.shared_writer = None
        self._callbacks: list[Callable[[], None]] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            for callback in self._callbacks:
                callback()

    abort = close

    def on_close(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)


class Server:
    """A server under test, and a way to ask it."""

    def __init__(self, app: APIServer, clock: Any, **config: Any) -> None:
        self.parts = ServerParts(app, ServerConfig(storage="memory://", **config), MemoryBackend(clock), clock)
        self.clock = clock
        self.listening: Listening
        self.running: Running

    async def listen(self) -> None:
        async def listen(handler: Handler) -> Listening:
            self.listening = Listening(handler)
            return self.listening

        tokens = by_token([("t", User("admin", groups=("system:masters",)))])
        self.running = await assemble(self.parts, Union([tokens]), listen)

    async def ask(self, path: str, method: str = "GET", body: Any = None) -> Response:
        async def read() -> bytes:
            return b"" if body is None else json.dumps(body).encode()

        path, _, query = path.partition("?")
        headers = {"authorization": "Bearer t", "content-type": "application/json"}
        peer = Peer("127.0.0.1", 1)
        request = Request(method, path, query, headers, list(headers.items()), peer, read, self.clock.monotonic())
        return await self.listening.handler(request)


async def started(app: APIServer, clock: Any, **config: Any) -> Server:
    server = Server(app, clock, **config)
    await server.listen()
    await server.running.load()
    return server


@pytest.fixture
def clock(chain: Any) -> Any:
    return chain.clock


@pytest.mark.parametrize(
    ("bound", "told"),
    [("127.0.0.1", "127.0.0.1:6443"), ("::1", "[::1]:6443"), ("0.0.0.0", ":6443"), ("::", ":6443")],
)
async def test_clients_are_told_where_the_server_is(clock: Any, bound: str, told: str) -> None:
    (core,) = served_from([Thing])
    core = replace(core, definition=replace(core.definition, group=""))
    for serve, path, address in (([core, Other], "/api", told), ([Other], "/apis", ":6443")):
        server = await started(APIServer(serve=serve), clock, bind_address=bound)
        body = (await server.ask(path)).body
        assert isinstance(body, bytes)
        tree = json.loads(body)
        found = tree["groups"][0] if path == "/apis" else tree
        assert [one["serverAddress"] for one in found["serverAddressByClientCIDRs"]] == [address]
        await server.running.close()


async def test_before_the_catalog_is_there_probes_are_answered_and_others_told_to_come_back(clock: Any) -> None:
    server = Server(APIServer(serve=[Thing]), clock)
    await server.listen()
    for path in (THINGS, "/apis", "/nope", "/version"):
        response = await server.ask(path)
        assert response.status == 503, path
        assert ("retry-after", "5") in response.headers
        assert isinstance(response.body, bytes)
        tree = json.loads(response.body)
        assert tree["message"] == (
            "the request has been made before all known HTTP paths have been installed, please try again"
        )
        assert tree["details"] == {"retryAfterSeconds": 5}
    assert (await server.ask("/livez/ping")).status == 200
    assert (await server.ask("/readyz")).status == 500
    await server.running.load()
    assert (await server.ask("/readyz")).status == 200
    assert (await server.ask(THINGS)).status == 200
    await server.running.close()


async def test_the_index_names_what_the_server_answers(clock: Any) -> None:
    informer = Informer(Thing)
    server = await started(APIServer(serve=[Thing], informers=[informer], name="sample-server"), clock)
    response = await server.ask("/nope")
    assert response.status == 404
    assert isinstance(response.body, bytes)
    paths = json.loads(response.body)["paths"]
    assert {"/livez", "/readyz/informer-sync", "/metrics", "/metrics/slis", "/apis/test.example.com/v1"} <= set(paths)
    assert "/healthz/poststarthook/start-sample-server-informers" in paths
    for path in paths:
        assert (await server.ask(path)).status == 200, path
    await server.running.close()


async def test_informers_are_live_once_the_server_is(clock: Any) -> None:
    informer = Informer(Thing)
    server = Server(APIServer(serve=[Thing], informers=[informer]), clock)
    with pytest.raises(NotRunning):
        list(informer)
    await server.listen()
    await server.running.load()
    assert (await server.ask(THINGS, "POST", {"metadata": {"name": "a"}})).status == 201
    assert [thing.metadata.name for thing in informer] == ["a"]
    await server.running.close()


def test_an_informer_of_something_that_is_not_served_is_a_mistake() -> None:
    with pytest.raises(DeclarationError, match="Other is not stored here"):
        APIServer(serve=[Thing], informers=[Informer(Other)])
    with pytest.raises(ValueError, match="write 'none' or 'external'"):
        APIServer(serve=[Thing], garbage_collection="maybe")  # type: ignore[arg-type]


async def test_replacing_the_catalog_ends_the_watches_of_what_goes_and_no_others(clock: Any) -> None:
    app = APIServer(serve=[Thing, Other])
    server = await started(app, clock)
    streams = []
    for plural in ("things", "others"):
        response = await server.ask(f"/apis/test.example.com/v1/{plural}?watch=1")
        assert response.stream is not None
        stream = Stream()
        response.stream(stream)
        streams.append(stream)
    things, others = streams
    kept = app.catalog.entries[:1]
    await app.replace(Catalog.of(kept, generation=2))
    assert (await server.ask("/apis/test.example.com/v1/others")).status == 404
    assert (await server.ask(THINGS)).status == 200
    await asyncio.sleep(0)
    assert (things.closed, others.closed) == (False, True)
    assert (await server.ask(THINGS, "POST", {"metadata": {"name": "a"}})).status == 201
    assert b'"ADDED"' in b"".join(things.written)
    await app.replace(Catalog.of([*kept, *served_from([Other])], generation=3))
    assert (await server.ask("/apis/test.example.com/v1/others")).status == 200
    await server.running.shut_down()
    with pytest.raises(NotServing):
        await app.replace(app.catalog)


async def test_leaving_goes_in_phases(clock: Any) -> None:
    server = await started(APIServer(serve=[Thing]), clock, shutdown_delay_s=0.25, request_timeout_s=7.0)
    response = await server.ask(f"{THINGS}?watch=1")
    assert response.stream is not None
    stream = Stream()
    response.stream(stream)
    seen: list[tuple[int, int, bool]] = []

    async def look(timeout_s: float) -> int:
        assert timeout_s == 7.0
        seen.append(((await server.ask("/readyz")).status, (await server.ask(THINGS)).status, stream.closed))
        return 0

    leaving = asyncio.ensure_future(server.running.shut_down())
    await asyncio.sleep(0)
    seen.append(((await server.ask("/readyz")).status, (await server.ask(THINGS)).status, stream.closed))
    server.listening.drain = look  # type: ignore[method-assign]
    await leaving
    assert seen == [(500, 200, False), (500, 429, True)]
    assert server.listening.asked == ["stop accepting", "close"]
    assert (await server.ask(THINGS)).status == 503


async def test_a_put_that_creates_needs_the_right_to_create(clock: Any) -> None:
    class NoCreating(Authorizer):
        async def decide(self, user: User, target: Target) -> Decision:
            return Decision(Outcome.DENY, "no rule") if target.verb == "create" else ALLOWED

    app = APIServer(serve=[Thing], authorizer=NoCreating())
    server = await started(app, clock)
    assert (await server.ask(THINGS, "POST", {"metadata": {"name": "a"}})).status == 403
    assert (await server.ask(f"{THINGS}/a", "PUT", {"metadata": {"name": "a"}})).status in (403, 404)
    await server.running.close()


async def test_metrics_know_what_is_stored(clock: Any) -> None:
    server = await started(APIServer(serve=[Thing]), clock)
    for name in ("a", "b"):
        await server.ask(THINGS, "POST", {"metadata": {"name": name}})
    response = await server.ask("/metrics")
    assert isinstance(response.body, bytes)
    text = response.body.decode()
    assert 'apiserver_storage_objects{resource="things.test.example.com"} 2.0' in text
    assert 'etcd_requests_total{group="test.example.com",operation="create",resource="things"} 2.0' in text
    await server.running.close()
