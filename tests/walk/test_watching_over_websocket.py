"""Watches over WebSocket: each event a message, the same events as over plain HTTP, and the same errors before."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from walk_kit import ALL_BOATS, BOATS, BOATS_V1, GROUP, boat, failure, fleet, made, path, walk
from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, Pong, TextMessage

from oarlock import APIServer, Context, Resource, VirtualCollection
from oarlock.endpoints.watching.over_websocket import MOST_IGNORED_BYTES
from oarlock.server.local.streams import MemoryTunnel
from oarlock.testing.server import InMemory

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PROTOBUF_METADATA = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
ASKED = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    "origin": "https://localhost",
}


class Client:
    """The client of a watch. `closed` is the code of the server's Close; it is answered unless `silent`."""

    def __init__(self, tunnel: MemoryTunnel, headers: dict[str, str]) -> None:
        self.tunnel = tunnel
        self.headers = headers
        self.socket = Connection(ConnectionType.CLIENT)
        self.closed = 0
        self.silent = False
        self.pongs: list[bytes] = []
        self._messages: list[Any] = []
        self._partial: Any = None

    def send(self, event: Any) -> None:
        self.tunnel.to_server.put(self.socket.send(event))

    async def message(self) -> Any:
        """The next message, text or bytes; EOFError once the server has closed."""
        while not self._messages:
            data = await self.tunnel.to_client.take()
            if not data:
                raise EOFError(self.closed)
            self._take(data)
        return self._messages.pop(0)

    async def event(self) -> tuple[str, Any]:
        text = await self.message()
        assert isinstance(text, str)
        event = json.loads(text)
        return event["type"], event["object"]

    async def rest(self) -> list[Any]:
        found = []
        try:
            while True:
                found.append(await self.message())
        except EOFError:
            return found

    def _take(self, data: bytes) -> None:
        self.socket.receive_data(data)
        for event in self.socket.events():
            match event:
                case TextMessage() | BytesMessage():
                    self._partial = event.data if self._partial is None else self._partial + event.data
                    if event.message_finished:
                        self._messages.append(self._partial)
                        self._partial = None
                case Pong():
                    self.pongs.append(bytes(event.payload))
                case Ping():
                    self.send(event.response())
                case CloseConnection():
                    self.closed = int(event.code)
                    if self.socket.state is ConnectionState.REMOTE_CLOSING and not self.silent:
                        self.send(event.response())


@asynccontextmanager
async def watching(api: InMemory, where: str, **headers: str) -> AsyncIterator[Client]:
    joined = where + ("&" if "?" in where else "?") + "watch=1"
    asked = ASKED | {name.replace("_", "-"): value for name, value in headers.items()}
    client = Client(*await api._open_tunnel(joined, asked))
    try:
        yield client
    finally:
        client.tunnel.close()


def said(kind: str, tree: Any) -> tuple[str, str]:
    return kind, tree["metadata"].get("name", "")


@walk
async def test_each_event_is_a_text_of_one_line():
    api, _ = fleet()
    async with api:
        await made(api, BOATS, boat("a"))
        async with watching(api, BOATS) as client:
            assert client.headers["upgrade"] == "websocket"
            assert client.headers["sec-websocket-accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
            assert "sec-websocket-protocol" not in client.headers
            first = await client.message()
            assert first.endswith("}\n")
            assert said(*json.loads(first).values()) == ("ADDED", "a")
            await made(api, BOATS, boat("b"))
            await api.delete(BOATS + "/a")
            assert [said(*await client.event()) for _ in range(2)] == [("ADDED", "b"), ("DELETED", "a")]


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("application/json", str),
        (TABLE, str),
        (METADATA, str),
        ("application/cbor", bytes),
        (PROTOBUF_METADATA, bytes),
        ("", str),
    ],
)
@pytest.mark.parametrize("version", [BOATS, BOATS_V1])
@walk
async def test_the_events_are_those_of_a_plain_watch(accept: str, kind: type, version: str):
    api, _ = fleet()
    async with api:
        for name in "abc":
            await made(api, BOATS, boat(name))
        query = f"{version}?resourceVersion=0&timeoutSeconds=20&allowWatchBookmarks=true"
        async with watching(api, query, accept=accept) as client:
            messages = await client.rest()
            assert client.closed == 1000
        plain = (await api.get(query + "&watch=1", accept=accept)).body
        assert len(messages) == 5  # three objects, where they end, and where the watch does
        assert {type(message) for message in messages} <= ({str} if kind is str else {bytes, bytearray})
        parts = [message.encode() if isinstance(message, str) else bytes(message) for message in messages]
        if "protobuf" in accept:
            parts = [len(part).to_bytes(4, "big") + part for part in parts]
        assert b"".join(parts) == plain


@walk
async def test_selectors_names_and_all_namespaces():
    api, _ = fleet()
    async with api:
        for name in "ab":
            await made(api, BOATS, boat(name))
        places = (
            f"{BOATS}?fieldSelector=metadata.name%3Db",
            f"{ALL_BOATS}?fieldSelector=metadata.name%3Db",
            f"{BOATS.replace('/namespaces', '/watch/namespaces')}/b",
        )
        for n, where in enumerate(places):
            async with watching(api, where) as client:
                assert said(*await client.event()) == ("ADDED", "b")
                await api.patch(f"{BOATS}/a", {"metadata": {"labels": {"x": "y"}}})
                await api.patch(f"{BOATS}/b", {"metadata": {"labels": {"x": f"{n}"}}})
                assert said(*await client.event()) == ("MODIFIED", "b")


@walk
async def test_a_watch_ends_with_its_timeout_or_with_the_server():
    api, _ = fleet()
    async with api:
        async with watching(api, BOATS + "?timeoutSeconds=5") as client:
            assert await client.rest() == []
            assert client.closed == 1000
        async with watching(api, BOATS) as client:
            api.parts.resources.router.watches.end_all()
            assert await client.rest() == []
            assert client.closed == 1000
            assert not api.parts.resources.router.watches.open


@walk
async def test_a_client_that_does_not_answer_a_close_is_not_waited_for():
    api, _ = fleet()
    async with api, watching(api, BOATS + "?timeoutSeconds=5") as client:
        client.silent = True
        assert await client.rest() == []
        assert client.closed == 1000
        assert client.tunnel.closed


@walk
async def test_what_goes_wrong_later_is_an_error_event():
    api, backend = fleet()
    await backend.start()
    for rev in range(3):
        await backend.put("/registry/other", b"{}", expect=rev)
    await backend.compact(2)
    async with api, watching(api, BOATS + "?resourceVersion=1") as client:
        kind, status = await client.event()
        assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
        assert await client.rest() == []
        assert client.closed == 1000


@pytest.mark.parametrize(
    ("query", "headers", "code"),
    [
        ("?resourceVersion=x", {}, 400),
        ("?labelSelector=%3D%3D", {}, 400),
        ("?timeoutSeconds=x", {}, 400),
        ("?resourceVersionMatch=Exact", {}, 422),
        ("", {"accept": "application/yaml"}, 406),
        ("", {"accept": "application/xml"}, 406),
        ("", {"sec-websocket-version": "8"}, 400),
        ("", {"sec-websocket-version": ""}, 400),
        ("", {"sec-websocket-key": ""}, 400),
        ("", {"sec-websocket-key": "AAAA"}, 400),
        ("", {"sec-websocket-protocol": "binary.k8s.io, base64.binary.k8s.io"}, 400),
        ("", {"origin": ""}, 403),
        ("", {"origin": "null"}, 403),
        ("", {"origin": "somewhere"}, 403),
        ("", {"origin": "a b://c"}, 403),
    ],
)
@walk
async def test_what_is_wrong_before_is_an_ordinary_answer(query: str, headers: dict[str, str], code: int):
    api, _ = fleet()
    async with api:
        answer = await api.request("GET", f"{BOATS}{query}{'&' if query else '?'}watch=1", None, ASKED | headers)
        assert answer.status == code
        if "accept" not in headers:
            assert failure(answer)[0] == code
        if "sec-websocket-version" in headers:
            assert answer.headers["sec-websocket-version"] == "13"
        assert not api.parts.resources.router.watches.open


@pytest.mark.parametrize("origin", ["https://console.example.com", "http://127.0.0.1:8001", "/", "file:///index.html"])
@walk
async def test_any_origin_will_do(origin: str):
    api, _ = fleet()
    async with api, watching(api, BOATS, origin=origin) as client:
        await made(api, BOATS, boat("a"))
        assert said(*await client.event()) == ("ADDED", "a")


@pytest.mark.parametrize("protocol", ["binary.k8s.io", "base64.binary.k8s.io", "anything"])
@walk
async def test_one_subprotocol_is_agreed_to_and_changes_nothing(protocol: str):
    api, _ = fleet()
    async with api:
        token = "base64url.bearer.authorization.k8s.io.dG9rZW4"
        for offered in (protocol, f"{protocol}, {token}"):
            async with watching(api, BOATS, sec_websocket_protocol=offered) as client:
                assert client.headers["sec-websocket-protocol"] == protocol
                await api.delete(BOATS + "/a")
                await made(api, BOATS, boat("a"))
                assert said(*await client.event()) == ("ADDED", "a")


@pytest.mark.parametrize(
    "headers",
    [
        {"upgrade": "h2c"},
        {"connection": "keep-alive"},
        {"upgrade": "websockets"},
    ],
)
@walk
async def test_who_asks_for_no_websocket_gets_a_plain_watch(headers: dict[str, str]):
    api, _ = fleet()
    async with api:
        await made(api, BOATS, boat("a"))
        asked = f"{BOATS}?watch=1&timeoutSeconds=3"
        answer = await api.request("GET", asked, None, ASKED | headers)
        assert answer.status == 200
        assert answer.headers["content-type"] == "application/json"
        assert said(*json.loads(answer.body).values()) == ("ADDED", "a")


@walk
async def test_a_list_is_a_list():
    api, _ = fleet()
    async with api:
        answer = await api.request("GET", BOATS, None, ASKED)
        assert (answer.status, answer.json["kind"]) == (200, "BoatList")


@walk
async def test_pings_are_answered_and_what_else_the_client_says_is_ignored():
    api, _ = fleet()
    async with api, watching(api, BOATS) as client:
        client.send(TextMessage(data="stop"))
        client.send(BytesMessage(data=b"\0" * 200_000))
        client.send(Ping(b"there?"))
        client.send(Pong(b"yes"))
        await made(api, BOATS, boat("a"))
        assert said(*await client.event()) == ("ADDED", "a")
        while not client.pongs:
            await asyncio.sleep(0)
            await made(api, BOATS, {"metadata": {"generateName": "b-"}, "spec": {"port": "x"}})
            await client.event()
        assert client.pongs == [b"there?"]


@walk
async def test_a_client_may_say_only_so_much():
    api, _ = fleet()
    async with api, watching(api, BOATS) as client:
        for _ in range(MOST_IGNORED_BYTES // 1_000_000 + 1):
            client.send(BytesMessage(data=b"\0" * 1_000_000))
        assert await client.rest() == []
        assert client.closed == 1008
        assert client.tunnel.closed


@pytest.mark.parametrize("leaves", ["says goodbye", "is gone", "breaks the rules"])
@walk
async def test_the_watch_ends_with_the_client(leaves: str):
    api, _ = fleet()
    async with api, watching(api, BOATS) as client:
        assert len(api.parts.resources.router.watches.open) == 1
        if leaves == "says goodbye":
            client.send(CloseConnection(code=1001))
        elif leaves == "is gone":
            client.tunnel.close()
        else:
            client.tunnel.to_server.put(b"\x81\x01x")
        assert await client.rest() == []
        assert client.closed == {"says goodbye": 1001, "is gone": 0, "breaks the rules": 1002}[leaves]
        assert client.tunnel.closed
        assert not api.parts.resources.router.watches.open
        await made(api, BOATS, boat("a"))


@walk
async def test_it_is_counted_as_a_watch():
    api, _ = fleet()

    async def counted(name: str) -> list[str]:
        page = (await api.get("/metrics")).body.decode()
        return [line for line in page.splitlines() if line.startswith(name + "{") and 'verb="WATCH"' in line]

    async with api:
        async with watching(api, BOATS) as client:
            await made(api, BOATS, boat("a"))
            await client.event()
            [running] = await counted("apiserver_longrunning_requests")
            assert running.endswith(" 1.0")
        [running] = await counted("apiserver_longrunning_requests")
        assert running.endswith(" 0.0")
        [answered] = await counted("apiserver_request_total")
        assert 'code="101"' in answered


class Star(Resource, group=GROUP, version="v1"):
    """A star."""


class Stars(VirtualCollection[Star]):
    """One star after another."""

    def __init__(self) -> None:
        self._ended: list[str] = []

    async def list(self, ctx: Context) -> list[Star]:
        return []

    async def watch(self, ctx: Context) -> AsyncIterator[tuple[str, Star]]:
        try:
            for name in "ab":
                yield "ADDED", Star(metadata={"name": name, "namespace": "default"})
            raise RuntimeError("a cloud")
        finally:
            self._ended.append("ended")


@walk
async def test_virtual_resources_are_watched_too():
    stars = Stars()
    async with InMemory(APIServer(serve=[stars])) as api, watching(api, path("stars", version="v1")) as client:
        assert [said(*await client.event()) for _ in range(2)] == [("ADDED", "a"), ("ADDED", "b")]
        kind, status = await client.event()
        assert (kind, status["code"]) == ("ERROR", 500)
        assert await client.rest() == []
        assert client.closed == 1000
        assert stars._ended == ["ended"]
