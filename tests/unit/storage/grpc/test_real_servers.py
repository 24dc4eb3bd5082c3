"""The client speaks to a server of gRPC's own implementation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from oarlock.storage.grpc.calls import GrpcCode, GrpcError
from oarlock.storage.grpc.channel import GrpcChannel, GrpcTarget

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("grpc_without_its_past")]

PIECE = bytes(1 << 20)


async def twice(request: bytes, context: Any) -> bytes:
    return request * 2


async def metadata(request: bytes, context: Any) -> bytes:
    return ";".join(f"{name}={value}" for name, value in context.invocation_metadata()).encode()


async def refuse(request: bytes, context: Any) -> bytes:
    await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "nicht möglich: 100 %")
    return b""


async def hang(request: bytes, context: Any) -> bytes:
    await asyncio.Event().wait()
    return b""


async def echo(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
    async for request in requests:
        yield request


async def pour(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
    async for request in requests:
        for _ in range(int(request)):
            yield PIECE
        return


@asynccontextmanager
async def serving(address: str) -> AsyncIterator[int]:
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1), ("grpc.so_reuseport", 0)])
    unary = {method.__name__: grpc.unary_unary_rpc_method_handler(method) for method in (twice, metadata, refuse, hang)}
    streams = {method.__name__: grpc.stream_stream_rpc_method_handler(method) for method in (echo, pour)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test", {**unary, **streams}),))
    port = server.add_insecure_port(address)
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)


@asynccontextmanager
async def channel_to_a_server() -> AsyncIterator[GrpcChannel]:
    async with serving("127.0.0.1:0") as port:
        channel = GrpcChannel(GrpcTarget("127.0.0.1", port))
        try:
            yield channel
        finally:
            await channel.close()


@pytest.mark.parametrize("size", [0, 1, 16_384 - 5, 16_384, 100_000, 10_000_000])
async def test_messages_of_any_size(size: int) -> None:
    async with channel_to_a_server() as channel:
        assert await channel.unary("/test/twice", b"a" * size, timeout_s=60) == b"a" * size * 2


async def test_many_calls_at_a_time_and_metadata() -> None:
    async with channel_to_a_server() as channel:
        messages = [b"%d" % number for number in range(500)]
        answers = await asyncio.gather(*(channel.unary("/test/twice", one, timeout_s=60) for one in messages))
        assert answers == [one * 2 for one in messages]
        for token in ("one", "two"):
            told = await channel.unary("/test/metadata", b"", timeout_s=60, metadata=(("token", token),))
            assert f"token={token}" in told.decode()


async def test_errors_are_told_with_their_texts() -> None:
    async with channel_to_a_server() as channel:
        with pytest.raises(GrpcError) as caught:
            await channel.unary("/test/refuse", b"", timeout_s=60)
        assert (caught.value.code, caught.value.details) == (GrpcCode.FAILED_PRECONDITION, "nicht möglich: 100 %")
        with pytest.raises(GrpcError) as caught:
            await channel.unary("/test/absent", b"", timeout_s=60)
        assert caught.value.code is GrpcCode.UNIMPLEMENTED
        with pytest.raises(GrpcError) as caught:
            await channel.unary("/test/hang", b"", timeout_s=0.05)
        assert caught.value.code is GrpcCode.DEADLINE_EXCEEDED


async def test_a_cancelled_call_disturbs_no_other() -> None:
    async with channel_to_a_server() as channel:
        tasks = [asyncio.create_task(channel.unary("/test/hang", b"", timeout_s=60)) for _ in range(20)]
        assert await channel.unary("/test/twice", b"a", timeout_s=60) == b"aa"
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert all(task.cancelled() for task in tasks)
        assert await channel.unary("/test/twice", b"b", timeout_s=60) == b"bb"


async def test_a_stream_goes_both_ways_until_it_is_closed() -> None:
    async with channel_to_a_server() as channel:
        stream = await channel.stream("/test/echo", timeout_s=60)
        for message in (b"one", b"two" * 100_000, b""):
            stream.write(message)
            assert await stream.read() == message
        stream.close()
        with pytest.raises(GrpcError, match="closed"):
            await stream.read()
        assert await channel.unary("/test/twice", b"a", timeout_s=60) == b"aa"


async def test_a_stream_that_nobody_reads_is_bounded_and_holds_up_no_other_call() -> None:
    async with channel_to_a_server() as channel:
        stream = await channel.stream("/test/pour", timeout_s=60)
        stream.write(b"100")
        while stream.hungry:
            await channel.unary("/test/twice", b"a", timeout_s=60)
        for _ in range(50):
            await channel.unary("/test/twice", b"a", timeout_s=60)
        assert len(stream._messages) <= 24
        count = 0
        while (message := await stream.read()) is not None:
            assert message == PIECE
            count += 1
        assert count == 100


async def test_a_server_that_comes_back_is_used_again(tmp_path: Path) -> None:
    socket = tmp_path / "server.sock"
    channel = GrpcChannel(GrpcTarget(path=str(socket)))
    try:
        with pytest.raises(GrpcError, match="No such file") as caught:
            await channel.unary("/test/twice", b"a", timeout_s=60)
        assert caught.value.unsent
        for _ in range(2):
            waiting = asyncio.create_task(channel.unary("/test/twice", b"a", timeout_s=60, patient=True))
            async with serving(f"unix:{socket}"):
                assert await waiting == b"aa"
        with pytest.raises(GrpcError) as caught:
            await channel.unary("/test/twice", b"a", timeout_s=0.3, patient=True)
        assert (caught.value.code, caught.value.unsent) == (GrpcCode.DEADLINE_EXCEEDED, True)
    finally:
        await channel.close()
    with pytest.raises(GrpcError, match="closed"):
        await channel.unary("/test/twice", b"a", timeout_s=60)
