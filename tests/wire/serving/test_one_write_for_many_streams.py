"""The same bytes for many streams of a connection: each gets them in order with what is written to it alone."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

from oarlock.endpoints.http import Request, Response, Stream

pytestmark = pytest.mark.anyio


class Written:
    """A server whose answers are open-ended streams, and what was written to each."""

    def __init__(self) -> None:
        self.streams: dict[str, Stream] = {}
        self.expected: dict[str, bytes] = {}

    async def handler(self, request: Request) -> Response:
        def keep(stream: Stream) -> None:
            self.streams[request.path] = stream
            self.expected[request.path] = b""

        return Response(200, [], stream=keep)

    async def open(self, client: Any, paths: Sequence[str]) -> list[Any]:
        answers = [client.start(path) for path in paths]
        await client.until(lambda: all(path in self.streams for path in paths))
        return answers

    def write(self, path: str, data: bytes) -> None:
        self.streams[path].write(data)
        self.expected[path] += data

    def write_all(self, paths: Sequence[str], data: bytes) -> None:
        streams = [self.streams[path] for path in paths]
        (shared_writer,) = {stream.shared_writer for stream in streams}
        assert shared_writer is not None
        shared_writer.write_all(streams, data)
        for path in paths:
            self.expected[path] += data


async def test_each_stream_gets_one_frame_and_the_end_comes_after_it(server: Any, h2_client: Any) -> None:
    written = Written()
    paths = [f"/{number}" for number in range(100)]
    async with server(written.handler) as s:
        client = await h2_client(s)
        answers = await written.open(client, paths)
        written.write_all(paths, b"event")
        for stream in written.streams.values():
            stream.close()
        written.write_all(paths, b"")
        await client.until(lambda: all(answer.ended for answer in answers))
        assert {answer.body for answer in answers} == {b"event"}
        assert {answer.frames for answer in answers} <= {1, 2}  # the end may be a frame of its own


async def test_nothing_is_written_to_streams_that_have_ended(server: Any, h2_client: Any) -> None:
    written = Written()
    async with server(written.handler) as s:
        client = await h2_client(s)
        answers = await written.open(client, ["/closed", "/withdrawn", "/aborted", "/open"])
        written.streams["/closed"].close()
        client.reset(answers[1])
        written.streams["/aborted"].abort()
        await client.until(lambda: answers[0].ended and answers[2].reset is not None)
        while not written.streams["/withdrawn"].closed:  # noqa: ASYNC110 — the server's side has no event for it
            await asyncio.sleep(0)
        written.write_all(list(written.streams), b"event")
        await client.until(lambda: answers[3].body)
        assert [answer.body for answer in answers] == [b"", b"", b"", b"event"]


async def test_a_stream_without_window_keeps_no_other_waiting(server: Any, h2_client: Any) -> None:
    written = Written()
    paths = ["/narrow", "/other"]
    async with server(written.handler) as s:
        client = await h2_client(s, initial_window=10, acknowledge=False)
        narrow, other = await written.open(client, paths)
        written.write("/narrow", b"0123456789")
        await client.until(lambda: narrow.body)
        written.write_all(paths, b"first.")
        written.write("/narrow", b"more.")
        await client.until(lambda: other.body)
        assert written.streams["/narrow"].buffered == 11
        assert written.streams["/other"].buffered == 0
        client.acknowledge_all()
        await client.until(lambda: len(narrow.body) == 21)
        assert narrow.body == b"0123456789first.more."
        assert other.body == b"first."


async def test_a_client_that_reads_nothing_is_cut_off(server: Any, h2_client: Any) -> None:
    """What waits is bounded, whichever way it was written."""
    written = Written()
    paths = [f"/{number}" for number in range(8)]
    async with server(written.handler, stream_hard_bytes=100_000, connection_hard_bytes=400_000) as s:
        client = await h2_client(s, acknowledge=False)
        await written.open(client, paths)
        client.reading.cancel()
        await asyncio.wait((client.reading,))
        for _ in range(200):
            written.write_all(paths, b"x" * 10_000)
            await asyncio.sleep(0)
            if all(stream.closed for stream in written.streams.values()):
                break
            assert sum(stream.buffered for stream in written.streams.values()) <= 400_000 + 8 * 10_000
        assert all(stream.closed for stream in written.streams.values())


@pytest.mark.parametrize("seed", range(12))
async def test_whatever_is_written_how_arrives_in_order(server: Any, h2_client: Any, seed: int) -> None:
    dice = random.Random(seed)
    written = Written()
    paths = [f"/{number}" for number in range(12)]
    async with server(written.handler) as s:
        client = await h2_client(s, initial_window=dice.choice([None, 100, 5_000]))
        answers = dict(zip(paths, await written.open(client, paths), strict=True))
        ended: set[str] = set()
        for step in range(300):
            data = b"%d:" % step + b"x" * dice.choice([1, 10, 200, 20_000 if dice.random() < 0.05 else 3])
            still = [path for path in paths if path not in ended]
            match dice.randrange(12):
                case 0 | 1:
                    written.write(dice.choice(still), data)
                case 2:
                    await asyncio.sleep(0)
                case 3 if len(still) > 4 and dice.random() < 0.2:
                    ended.add(still[0])
                    written.streams[still[0]].close()
                case 4:
                    await asyncio.sleep(0.0005)
                case _:
                    written.write_all(dice.sample(still, dice.randrange(1, len(still))), data)
        for path in paths:
            written.streams[path].close()
        await client.until(lambda: all(answer.ended for answer in answers.values()))
        assert {path: answer.body for path, answer in answers.items()} == written.expected
