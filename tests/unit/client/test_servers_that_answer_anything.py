"""Whatever a server answers, a client ends in time, holds so many bytes at most, and says in a line what was wrong."""

from __future__ import annotations

import asyncio
import json
import socket
import zlib
from typing import Any

import pytest
from boats import GROUP, Boat
from raw_server import Asked, always, raw_server, whole

from oarlock import errors
from oarlock.client import Client, ClientConfig, RetryPolicy, TransportError, connect, http_transport
from oarlock.client.http_transport import HTTPTransport
from oarlock.client.transport import ClientRequest

pytestmark = pytest.mark.anyio
BOAT = {"apiVersion": f"{GROUP}/v1", "kind": "Boat", "metadata": {"name": "a", "namespace": "default"}, "spec": {}}


def plain(url: str, **settings: Any) -> Client:
    return connect(ClientConfig(url), retries=RetryPolicy(retries=0), **settings)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (whole(b"hello"), "isn't JSON"),
        (whole(b"[1]"), "isn't an object"),
        (whole(b'"x"'), "isn't an object"),
        (whole(b""), "isn't an object"),
        (whole(b"[" * 200_000), "isn't JSON"),
        (b"hello\r\n\r\n", "malformed HTTP response"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n", "[Cc]ontent-[Ll]ength"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000 + b"\r\n\r\n", "headers exceeded 65536 bytes"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-encoding: gzip\r\n\r\nhello", "interrupted"),
    ],
)
async def test_what_is_no_object_is_an_error_of_the_transport(answer: bytes, problem: str) -> None:
    async with raw_server(always(answer)) as server, plain(server.url) as client:
        with pytest.raises(TransportError, match=problem) as error:
            await client.get(Boat, "a", namespace="default")
        assert error.value.sent
        assert len(str(error.value)) < 1_000


@pytest.mark.parametrize("body", [b"{}", b'{"resources": 7}', b'{"resources": [7]}', b'{"resources": [{"name": 7}]}'])
async def test_discovery_that_makes_no_sense_is_an_error_of_the_transport(body: bytes) -> None:
    async with raw_server(always(whole(body))) as server, plain(server.url) as client:
        with pytest.raises(TransportError, match="an APIResourceList"):
            await client.get(f"{GROUP}/v1/Boat", "a")


@pytest.mark.parametrize("items", [7, "x", [7], {"a": 1}])
async def test_a_list_of_anything_else_is_an_error_of_the_transport(items: object) -> None:
    answer = always(whole(json.dumps({"metadata": {}, "items": items}).encode()))
    async with raw_server(answer) as server, plain(server.url) as client:
        with pytest.raises(TransportError, match="isn't a list of boats"):
            await anext(client.list(Boat))


async def test_an_answer_without_an_end_is_cut() -> None:
    async def endless(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
            await writer.drain()

    transport: HTTPTransport | None = None
    async with raw_server(endless) as server:
        transport = HTTPTransport(ClientConfig(server.url), max_answer_bytes=1_000_000)
        async with Client(transport, retries=RetryPolicy(retries=0)) as client:
            with pytest.raises(TransportError, match="an answer of more than 1000000 bytes: ask for smaller pages"):
                await client.get(Boat, "a", namespace="default")


async def test_an_answer_that_inflates_is_cut() -> None:
    packed = zlib.compressobj(wbits=31)
    data = b"".join(packed.compress(bytes(1_000_000)) for _ in range(100)) + packed.flush()
    async with raw_server(always(whole(data, content_encoding="gzip"))) as server:
        transport = HTTPTransport(ClientConfig(server.url), max_answer_bytes=1_000_000)
        async with Client(transport, retries=RetryPolicy(retries=0)) as client:
            with pytest.raises(TransportError, match="more than 1000000 bytes"):
                await client.get(Boat, "a", namespace="default")


async def test_a_page_instead_of_a_status_is_quoted_and_no_more_of_it_read_than_needed() -> None:
    page = b"<html>" + b"x" * 10_000_000
    async with raw_server(always(whole(page, "502 Bad Gateway"))) as server, plain(server.url) as client:
        with pytest.raises(errors.StatusError) as error:
            await client.get(Boat, "a", namespace="default")
        assert error.value.code == 502
        assert "<html>xxx" in error.value.message
        assert len(error.value.message) < 5_000


async def test_a_redirect_is_not_followed() -> None:
    async with raw_server(always(whole(b"", "307 Temporary Redirect", location="/elsewhere"))) as server:
        async with connect(ClientConfig(server.url, token="s3cret")) as client:
            with pytest.raises(errors.StatusError):
                await client.get(Boat, "a", namespace="default")
        assert len(server.asked) == 1


async def test_a_server_that_says_nothing_is_given_up() -> None:
    async def silent(asked: Asked, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with raw_server(silent) as server, plain(server.url, timeout_s=0.1) as client:
        with pytest.raises(TransportError, match=r"no answer within 0\.1 s") as error:
            await client.create(BOAT, kind=Boat)
        assert error.value.sent, "the server may have created it"


async def test_a_server_that_stops_within_its_answer_is_given_up() -> None:
    async def half(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(whole(b"x" * 100)[:-50])
        await writer.drain()
        await asyncio.Event().wait()

    async with raw_server(half) as server, plain(server.url, timeout_s=0.1) as client:
        with pytest.raises(TransportError, match="was interrupted: no data arrived in time"):
            await client.get(Boat, "a", namespace="default")


async def test_nobody_at_the_address_was_told_nothing() -> None:
    async with raw_server(always(b"")) as server:
        pass
    async with plain(server.url) as client:
        with pytest.raises(TransportError) as error:
            await client.create(BOAT, kind=Boat)
        assert not error.value.sent


async def test_a_connection_is_used_again() -> None:
    async with raw_server(always(whole(json.dumps(BOAT).encode()))) as server, plain(server.url) as client:
        for _ in range(5):
            await client.get(Boat, "a", namespace="default")
        assert server.connections == 1
        await asyncio.gather(*(client.get(Boat, "a", namespace="default") for _ in range(20)))
        assert server.connections <= 20


async def test_a_stream_is_probed_and_ends_after_silence() -> None:
    async def one_piece(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n")
        await writer.drain()
        await asyncio.Event().wait()

    async with raw_server(one_piece) as server:
        transport = HTTPTransport(ClientConfig(server.url))
        answer = await transport.send(ClientRequest("GET", "/", timeout_s=60, streams=True, silence_s=0.1))
        (connection,) = transport._pool._open
        assert connection._transport is not None
        connected = connection._transport.get_extra_info("socket")
        assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        chunks = answer.chunks()
        assert await anext(chunks) == b"x"
        with pytest.raises(TransportError, match="no data arrived in time"):
            await anext(chunks)
        await answer.close()
        await transport.close()


async def test_a_pool_that_is_used_up_is_told_apart_from_a_server_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    async def endless(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n")
        await writer.drain()
        await asyncio.Event().wait()

    monkeypatch.setattr(http_transport, "CONNECT_S", 0.1)
    async with raw_server(endless) as server:
        transport = HTTPTransport(ClientConfig(server.url), connections=1)
        async with Client(transport, retries=RetryPolicy(retries=0)) as client:
            answer = await client.open("/", ())
            watch = await client.open("/", (), streams=True)  # takes nothing from the others
            with pytest.raises(
                TransportError, match=r"no connection within 0\.1 s; at most 1 are open at a time"
            ) as error:
                await client.get(Boat, "a", namespace="default")
            assert not error.value.sent
            await answer.close()
            await watch.close()


async def test_cookies_are_not_kept() -> None:
    answer = always(whole(json.dumps(BOAT).encode(), Set_Cookie="a=b"))
    async with raw_server(answer) as server, plain(server.url) as client:
        await client.get(Boat, "a", namespace="default")
        await client.get(Boat, "a", namespace="default")
        assert "cookie" not in server.asked[1].headers


async def test_a_busy_server_is_asked_again_when_it_says() -> None:
    waits: list[float] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    async def busy_twice(asked: Asked, writer: asyncio.StreamWriter) -> None:
        busy = whole(b"{}", "429 Too Many Requests", Retry_After="7")
        writer.write(busy if len(server.asked) < 3 else whole(json.dumps(BOAT).encode(), "201 Created"))

    async with (
        raw_server(busy_twice) as server,
        connect(ClientConfig(server.url), retries=RetryPolicy(sleep=wait)) as client,
    ):
        await client.create(BOAT, kind=Boat)
    assert waits == [7.0, 7.0]
    assert [one.method for one in server.asked] == ["POST"] * 3


async def test_warnings_come_once_each_to_who_wants_them() -> None:
    warned: list[str] = []
    answer = whole(json.dumps(BOAT).encode(), Warning='299 - "old \\"boat\\"", 299 server "leaky", 110 - "other"')
    answer = answer.replace(b"\r\n\r\n", b'\r\nwarning: 299 - "slow"\r\n\r\n', 1)
    async with raw_server(always(answer)) as server, plain(server.url, on_warning=warned.append) as client:
        await client.get(Boat, "a", namespace="default")
    assert warned == ['old "boat"', "leaky", "slow"]


async def test_what_is_not_given_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    answer = whole(json.dumps(BOAT).encode(), Warning='299 - "old"')
    async with raw_server(always(answer)) as server, plain(server.url) as client:
        await client.get(Boat, "a", namespace="default")
        await client.get(Boat, "a", namespace="default")
    assert [one.message for one in caplog.records if one.name == "oarlock.client"] == ["the server warns: old"]


async def test_what_a_client_says_of_itself_and_of_its_writes() -> None:
    async with (
        raw_server(always(whole(json.dumps(BOAT).encode()))) as server,
        plain(server.url, field_manager="shop", field_validation="Strict") as client,
    ):
        await client.create(BOAT, kind=Boat)
        await client.patch(Boat, "a", {}, namespace="default", dry_run=True, field_manager="other")
        await client.apply(BOAT, kind=Boat, force=True)
        named = client.using(user_agent="shop/1.2", field_validation=None)
        await named.delete(Boat, "a", namespace="default", uid="u", propagation="Foreground", grace_period_s=0)
        await named.delete(Boat, "a", namespace="default", dry_run=True)
    created, patched, applied, deleted, tried = server.asked
    assert created.headers["user-agent"] == "oarlock (shop)"
    assert created.path.endswith("/boats?fieldManager=shop&fieldValidation=Strict")
    assert patched.path.endswith("/boats/a?dryRun=All&fieldManager=other&fieldValidation=Strict")
    assert applied.path.endswith("/boats/a?fieldManager=shop&fieldValidation=Strict&force=true")
    assert deleted.headers["user-agent"] == "shop/1.2"
    assert json.loads(deleted.body) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Foreground",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": "u"},
    }
    assert json.loads(tried.body)["dryRun"] == ["All"]


async def test_a_setting_that_does_not_exist_is_an_error() -> None:
    async with raw_server(always(b"")) as server, plain(server.url) as client:
        with pytest.raises(TypeError, match="manager"):
            client.using(manager="x")  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="dryrun"):
            await client.create(BOAT, kind=Boat, dryrun=True)  # type: ignore[call-arg]
