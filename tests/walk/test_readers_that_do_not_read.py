"""Who doesn't read costs nothing while nothing happens, and what begins while the server leaves is ended at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from walk_kit import BOATS, GROUP, boat, fleet, made, path, walk

from oarlock import APIServer, Context, ObjectMeta, Resource, StoredCollection, VirtualCollection, subresource
from oarlock.server.config import ServerConfig
from oarlock.testing.server import InMemory, Lines


class Unread(Lines):
    """The stream of a client that takes nothing, and counts how often somebody looks whether it did."""

    def __init__(self) -> None:
        self.looks = 0
        super().__init__()
        self.buffered = 10**9

    @property
    def buffered(self) -> int:
        self.looks += 1
        return self._buffered

    @buffered.setter
    def buffered(self, size: int) -> None:
        self._buffered = size
        self._changed.set()


class Gull(Resource, group=GROUP, version="v1", scope="Namespaced"):
    mood: str = "calm"


class Gulls(StoredCollection[Gull]):
    @subresource("cries")
    async def cries(self, name: str) -> AsyncIterator[bytes]:
        while True:
            yield b"aah\n" * 100_000


class Tern(Resource, group=GROUP, version="v1", scope="Namespaced"):
    mood: str = "calm"


class Terns(VirtualCollection[Tern]):
    async def watch(self, ctx: Context) -> AsyncIterator[tuple[str, Tern]]:
        while True:
            yield "ADDED", Tern(metadata=ObjectMeta(name="t"), mood="loud" * 100_000)

    async def list(self, ctx: Context) -> list[Tern]:
        return []


GULLS, TERNS = path("gulls", version="v1"), path("terns", version="v1")


def birds() -> InMemory:
    return InMemory(APIServer(serve=[Gulls(), Terns()]), config=ServerConfig(storage="memory://"))


async def unread(api: InMemory, where: str) -> Unread:
    response = await api._send("GET", where, None, {})
    assert response.stream is not None, response.body
    stream = Unread()
    response.stream(stream)
    return stream


async def looks_while_nothing_happens(stream: Unread) -> int:
    await asyncio.sleep(1)
    before = stream.looks
    await asyncio.sleep(100)
    assert not stream.closed
    return stream.looks - before


@walk
async def test_a_watch_that_waits_to_send_what_was_there() -> None:
    api, _ = fleet()
    async with api:
        await made(api, BOATS, boat("a"))
        stream = await unread(api, f"{BOATS}?watch=1")
        assert await looks_while_nothing_happens(stream) == 0
        stream.buffered = 0
        assert b'"ADDED"' in await stream.line()
        stream.close()


@walk
async def test_a_watch_of_a_virtual_resource() -> None:
    async with birds() as api:
        stream = await unread(api, f"{TERNS}?watch=1")
        assert await looks_while_nothing_happens(stream) == 0
        stream.close()


@walk
async def test_a_stream_of_a_subresource() -> None:
    async with birds() as api:
        await made(api, GULLS, {"metadata": {"name": "g"}})
        stream = await unread(api, f"{GULLS}/g/cries")
        assert await looks_while_nothing_happens(stream) == 0
        stream.close()


@walk
async def test_a_generator_that_never_waits_leaves_the_loop_to_others() -> None:
    async with birds() as api:
        await made(api, GULLS, {"metadata": {"name": "g"}})
        for where in (f"{TERNS}?watch=1", f"{GULLS}/g/cries"):
            stream = await unread(api, where)
            for _ in range(3):
                stream.rest()
                stream.buffered = 0
                assert await stream.line()
            stream.close()


@walk
async def test_what_opens_while_the_server_leaves_ends_at_once() -> None:
    api, _ = fleet()
    async with api, birds() as others:
        await made(others, GULLS, {"metadata": {"name": "g"}})
        begun = [
            await api._send("GET", f"{BOATS}?watch=1", None, {}),
            await others._send("GET", f"{TERNS}?watch=1", None, {}),
            await others._send("GET", f"{GULLS}/g/cries", None, {}),
        ]
        for server in (api, others):
            server.parts.resources.router.watches.end_all()
        for response in begun:
            lines = Lines()
            assert response.stream is not None
            response.stream(lines)
            assert (lines.closed, lines.aborted) == (True, False)
        assert not api.parts.resources.router.watches.open
        assert not others.parts.resources.router.watches.long_running


@walk
async def test_a_stream_of_a_resource_that_went_before_its_answer_began_ends_at_once() -> None:
    async with birds() as api:
        await made(api, GULLS, {"metadata": {"name": "g"}})
        begun = await api._send("GET", f"{GULLS}/g/cries", None, {})
        api.parts.resources.router.watches.withdraw(api.parts.resources.live.resources.values())
        lines = Lines()
        assert begun.stream is not None
        begun.stream(lines)
        assert lines.closed
