"""Subresources that answer with a stream: what users write as an async generator, until one side has enough."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from walk_kit import GROUP, catalog, failure, made, path, walk

from oarlock import APIServer, Context, DeclarationError, Resource, StoredCollection, errors, subresource
from oarlock.server.config import ServerConfig
from oarlock.testing.server import InMemory, Lines

DAY_S = 86_400.0


class Heron(Resource, group=GROUP, version="v1"):
    """A bird that says what it does."""

    mood: str = "calm"


class Herons(StoredCollection[Heron]):
    """Herons, and what they say."""

    def __init__(self) -> None:
        self._ended: list[str] = []
        self._said = asyncio.Event()

    @subresource("log")
    async def log(
        self,
        name: str,
        parent: Heron,
        ctx: Context,
        *,
        follow: bool = False,
        tail_lines: int | None = None,
        at_least: float = 0.5,
        word: str = "",
        only: list[str] = [],  # noqa: B006 never changed
    ) -> AsyncIterator[bytes]:
        if word == "refused":
            raise errors.BadRequest("herons don't say that")
        try:
            yield f"{name} {parent.mood} {ctx.user.name} {tail_lines} {at_least} {word} {only}\n".encode()
            if word == "broken":
                raise ValueError("broken")
            while follow:
                await self._said.wait()
                self._said.clear()
                yield b"again\n"
        finally:
            self._ended.append(name)

    @subresource("silence", media_type="application/x-nothing")
    async def silence(self, *, forever: bool) -> AsyncIterator[bytes]:
        if forever:
            await asyncio.Event().wait()
        for piece in ():
            yield piece

    @subresource("late")
    async def late(self) -> AsyncIterator[bytes]:
        await asyncio.sleep(5)
        raise errors.BadRequest("too late for an ordinary answer")
        yield b""

    @subresource("wrong")
    async def wrong(self, name: str) -> AsyncIterator[bytes]:
        yield "text"  # type: ignore[misc]

    @subresource("count", method="GET")
    async def count(self, *, by: int = 1) -> Heron:
        return Heron(mood=str(by))


HERONS = path("herons", version="v1")
LOG = f"{HERONS}/h/log"


def birds(**config: Any) -> tuple[InMemory, Herons]:
    herons = Herons()
    settings = ServerConfig(storage="memory://", **config)
    return InMemory(APIServer(serve=[herons]), config=settings, raise_server_exceptions=False), herons


async def opened(api: InMemory, where: str) -> Lines:
    """A stream that stays open until the test ends it."""
    response = await api._send("GET", where, None, {})
    assert response.status == 200, response.body
    assert response.stream is not None
    lines = Lines()
    response.stream(lines)
    return lines


@walk
async def test_what_is_yielded_is_the_answer() -> None:
    api, herons = birds()
    async with api:
        await made(api, HERONS, {"metadata": {"name": "h"}})
        answer = await api.get(LOG)
        assert (answer.status, answer.headers["content-type"]) == (200, "text/plain")
        assert answer.body == b"h calm admin None 0.5  []\n"
        assert herons._ended == ["h"]
        asked = await api.get(f"{LOG}?tailLines=3&atLeast=2.5&word=a%20b&only=x&only=y&unknown=1&word=second")
        assert asked.body == b"h calm admin 3 2.5 a b ['x', 'y']\n"
        empty = await api.get(f"{HERONS}/h/silence?forever=false")
        assert (empty.status, empty.headers["content-type"], empty.body) == (200, "application/x-nothing", b"")
        assert (await api.get(f"{HERONS}/h/count?by=7")).json["mood"] == "7"


@walk
@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("follow=maybe", 'follow is "maybe"'),
        ("tailLines=many", 'tailLines: strconv.ParseInt: parsing "many"'),
        ("tailLines=99999999999999999999", "out of range"),
        ("atLeast=nan", 'atLeast is "nan"'),
        ("atLeast=1_0", "must be a number"),
        ("word=refused", "herons don't say that"),
    ],
)
async def test_what_is_wrong_before_the_first_piece_is_an_ordinary_answer(query: str, words: str) -> None:
    api, _ = birds()
    async with api:
        await made(api, HERONS, {"metadata": {"name": "h"}})
        code, reason, message = failure(await api.get(f"{LOG}?{query}"))
        assert (code, reason) == (400, "BadRequest")
        assert words in message


@walk
async def test_other_refusals() -> None:
    api, _ = birds()
    async with api:
        assert failure(await api.get(f"{HERONS}/none/log"))[:2] == (404, "NotFound")
        await made(api, HERONS, {"metadata": {"name": "h"}})
        assert failure(await api.get(f"{HERONS}/h/silence"))[2] == "the query parameter forever is required"
        assert failure(await api.get(f"{HERONS}/h/count?by="))[0] == 400
        assert failure(await api.post(LOG, {}))[:2] == (405, "MethodNotAllowed")
        assert (await api.get(f"{HERONS}/h/wrong")).status == 500


@walk
async def test_following_outlives_the_deadline_and_ends_with_the_client() -> None:
    api, herons = birds(request_timeout_s=5.0)
    async with api:
        await made(api, HERONS, {"metadata": {"name": "h"}})
        async with api.follow(f"{LOG}?follow=true&timeout=1s") as events:
            assert (await events.line()).startswith(b"h calm")
            await asyncio.sleep(DAY_S)
            herons._said.set()
            assert await events.line() == b"again"
            assert not events.closed
            assert b'verb="GET",version="v1"} 1.0' in await running(api)
        await asyncio.sleep(1)
        assert herons._ended == ["h"]
        assert b'verb="GET",version="v1"} 0.0' in await running(api)


async def running(api: InMemory) -> bytes:
    page = (await api.get("/metrics")).body
    return b"\n".join(one for one in page.splitlines() if b"apiserver_longrunning_requests{" in one)


@walk
async def test_a_silent_stream_is_answered_soon() -> None:
    api, _ = birds()
    async with api:
        await made(api, HERONS, {"metadata": {"name": "h"}})
        events = await asyncio.wait_for(opened(api, f"{HERONS}/h/silence?forever=1"), 2)
        assert not events.closed
        events.close()


@walk
async def test_a_client_that_leaves_before_the_first_piece() -> None:
    api, herons = birds()
    async with api:
        await made(api, HERONS, {"metadata": {"name": "h"}})
        asking = asyncio.ensure_future(api._send("GET", f"{HERONS}/h/silence?forever=1", None, {}))
        await asyncio.sleep(0.1)
        asking.cancel()
        await asyncio.wait((asking,))
        begun = await api._send("GET", f"{LOG}?follow=1", None, {})  # and one whose answer nobody took
        assert begun.stream is not None
        await asyncio.sleep(60)
        assert herons._ended == ["h"]


@walk
async def test_what_fails_halfway_is_cut() -> None:
    api, herons = birds()
    async with api:
        await made(api, HERONS, {"metadata": {"name": "h"}})
        events = await opened(api, f"{LOG}?word=broken")
        await asyncio.sleep(1)
        assert (events.closed, events.aborted, herons._ended) == (True, True, ["h"])


@walk
async def test_what_fails_once_the_answer_has_begun_is_cut_too() -> None:
    api, _ = birds()
    async with api:
        await made(api, HERONS, {"metadata": {"name": "h"}})
        events = await opened(api, f"{HERONS}/h/late")
        await asyncio.sleep(10)
        assert (events.closed, events.aborted) == (True, True)


@walk
async def test_a_client_that_does_not_read_is_waited_for() -> None:
    api, herons = birds()
    async with api:
        await made(api, HERONS, {"metadata": {"name": "h"}})
        events = await opened(api, f"{LOG}?follow=1")
        await events.line()
        events.buffered = 10**9
        for _ in range(3):
            herons._said.set()
            await asyncio.sleep(1)
        assert events.rest().count(b"\n") == 1
        events.buffered = 0
        await asyncio.sleep(1)
        assert events.rest().count(b"\n") == 1
        events.close()


@walk
async def test_it_ends_when_the_server_leaves_or_the_resource_goes() -> None:
    api, herons = birds()
    async with api:
        await made(api, HERONS, {"metadata": {"name": "h"}})
        kept = await opened(api, f"{LOG}?follow=1")
        await api.replace(catalog(keep=api.server.catalog))
        assert not kept.closed
        await api.replace(catalog(Herons(), generation=3))
        await asyncio.sleep(1)
        assert (kept.closed, kept.aborted, herons._ended) == (True, False, ["h"])
        last = await opened(api, f"{LOG}?follow=1")
    assert (last.closed, last.aborted) == (True, False)


@walk
async def test_what_clients_are_told() -> None:
    api, _ = birds()
    async with api:
        found = (await api.get(f"/apis/{GROUP}/v1")).json["resources"]
        log = next(one for one in found if one["name"] == "herons/log")
        assert (log["kind"], log["verbs"]) == ("Heron", ["get"])
        where = f"/apis/{GROUP}/v1/namespaces/{{namespace}}/herons/{{name}}"
        operation = (await api.get(f"/openapi/v3/apis/{GROUP}/v1")).json["paths"][f"{where}/log"]["get"]
        asked = {one["name"]: one["schema"] for one in operation["parameters"]}
        assert asked["follow"]["type"] == "boolean"
        assert asked["tailLines"]["type"] == "integer"
        assert asked["only"] == {"type": "array", "items": {"type": "string"}}
        assert operation["responses"]["200"]["content"] == {"text/plain": {"schema": {"type": "string"}}}
        old = (await api.get("/openapi/v2")).json["paths"]
        forever, *_ = old[f"{where}/silence"]["get"]["parameters"]
        assert (forever["name"], forever["required"]) == ("forever", True)
        only = next(one for one in old[f"{where}/log"]["get"]["parameters"] if one["name"] == "only")
        assert (only["type"], only["items"], only["collectionFormat"]) == ("array", {"type": "string"}, "multi")
        assert "text/plain" in old[f"{where}/log"]["get"]["produces"]
        packed = {"accept": "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"}
        assert b"multi" in (await api.request("GET", "/openapi/v2", None, packed)).body


def test_mistakes() -> None:
    with pytest.raises(DeclarationError, match="a stream can't answer POST"):

        @subresource("log", method="POST")
        async def log() -> AsyncIterator[bytes]:
            yield b""

    with pytest.raises(DeclarationError, match="is no media type"):
        subresource("log", media_type="text")
    with pytest.raises(DeclarationError, match="'since' can't be read from a query"):

        class A(StoredCollection[Heron]):
            @subresource("log")
            async def log(self, *, since: dict[str, int]) -> AsyncIterator[bytes]:
                yield b""

    with pytest.raises(DeclarationError, match="two parameters are 'aB' in the query"):

        class B(StoredCollection[Heron]):
            @subresource("log")
            async def log(self, *, a_b: int = 0, aB: int = 0) -> AsyncIterator[bytes]:
                yield b""
