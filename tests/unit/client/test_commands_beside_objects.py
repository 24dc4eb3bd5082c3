"""`exec` and the like over WebSocket, with a server of ours: output, input, terminal, exit code, refusals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from boats import GROUP, Boat, tree
from raw_server import always, raw_server, whole

from oarlock import APIServer, Channels, Context, Resource, StoredCollection, errors, subresource
from oarlock.client import Client, ClientConfig, RemoteCommand, RetryPolicy, TransportError, connect
from oarlock.client.transport import ClientConnection
from oarlock.testing import InMemory, ServerThread

pytestmark = pytest.mark.anyio


class Order(Resource, group=GROUP, version="v1"):
    """What a captain says."""

    text: str


class Boats(StoredCollection[Boat]):
    @subresource("exec", connect=True)
    async def _exec(self, parent: Boat, channels: Channels, *, command: list[str], tty: bool = False) -> int:
        match command:
            case ["cat"]:
                async for data in channels.stdin:
                    await channels.stdout.write(data)
            case ["both"]:
                await channels.stdout.write(b"out")
                await channels.stderr.write(b"err")
                return 7
            case ["size"]:
                size = await channels.resized()
                await channels.stdout.write(f"{size.width}x{size.height} {tty}".encode())
            case ["flood"]:
                for _ in range(40):
                    await channels.stdout.write(bytes(1_000_000))
            case ["sink"]:
                await channels.stdin.read()
            case ["fail"]:
                raise errors.BadRequest("there is no crew")
            case ["late"]:
                await channels.stdout.write(b"x")
                raise errors.BadRequest("the crew is gone")
            case _:
                return 127
        return 0

    @subresource("sail", method="POST")
    async def _sail(self, name: str, ctx: Context) -> None:
        ctx.warn(f"{name} sails")

    @subresource("obey")
    async def _obey(self, name: str, body: Order) -> Order:
        return Order(metadata=body.metadata, text=f"{name}: {body.text}")

    @subresource("log")
    async def _log(self, name: str, *, follow: bool = False, lines: int = 2) -> AsyncIterator[bytes]:
        for number in range(lines):
            yield f"{name} {number}\n".encode()
        if follow:
            await asyncio.Event().wait()


@pytest.fixture(params=["in process", "http"])
async def client(request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    server = APIServer(serve=[Boats])
    if request.param == "in process":
        async with InMemory(server) as api, api.client() as in_process:
            await in_process.create(tree("a"), kind=Boat)
            yield in_process
    else:
        with ServerThread(server) as running:
            async with connect(running.kubeconfig) as over_http:
                await over_http.create(tree("a"), kind=Boat)
                yield over_http


async def test_a_command_has_its_output_and_exit_code(client: Client) -> None:
    result = await client.run(Boat, "a", ["both"], namespace="default")
    assert (result.exit_code, result.stdout, result.stderr) == (7, b"out", b"err")
    unknown = await client.run(Boat, "a", ["nothing"], namespace="default")
    assert (unknown.exit_code, unknown.stdout, unknown.stderr) == (127, b"", b"")


async def test_a_command_reads_its_input_to_the_end(client: Client) -> None:
    data = bytes(range(256)) * 8_000
    result = await client.run(Boat, "a", ["cat"], namespace="default", stdin=data)
    assert result.exit_code == 0
    assert result.stdout == data
    assert (await client.run(Boat, "a", ["cat"], namespace="default")).stdout == b""


async def test_a_conversation(client: Client) -> None:
    async with client.exec(Boat, "a", ["cat"], namespace="default") as cat:
        outputs = aiter(cat)
        for word in (b"one", b"two"):
            await cat.write(word)
            output = await anext(outputs)
            assert (output.channel, output.data) == ("stdout", word)
        assert cat.exit_code is None
        await cat.close_stdin()
        with pytest.raises(StopAsyncIteration):
            await anext(outputs)
        assert cat.exit_code == 0


async def test_a_terminal_has_a_size(client: Client) -> None:
    async with client.exec(Boat, "a", ["size"], namespace="default", tty=True) as terminal:
        await terminal.resize(132, 43)
        assert [output.data async for output in terminal] == [b"132x43 True"]


async def test_what_is_left_ends(client: Client) -> None:
    async with client.exec(Boat, "a", ["cat"], namespace="default") as cat:
        await cat.write(b"x")
    with pytest.raises(TransportError):
        await cat.write(b"y")


async def test_a_command_that_ends_without_reading_is_no_error(client: Client) -> None:
    result = await client.run(Boat, "a", ["sink"], namespace="default", stdin=bytes(3_000_000))
    assert result.exit_code == 0


async def test_output_without_an_end_is_not_kept(client: Client) -> None:
    with pytest.raises(TransportError, match="printed more than 16777216 bytes: use exec"):
        await client.run(Boat, "a", ["flood"], namespace="default")


@pytest.mark.parametrize(
    ("name", "command", "error", "text"),
    [
        ("nobody", ["cat"], errors.NotFound, '"nobody" not found'),
        ("a", ["fail"], errors.BadRequest, "there is no crew"),
        ("a", ["late"], errors.BadRequest, "the crew is gone"),
    ],
)
async def test_a_refusal_is_the_servers_error(
    client: Client, name: str, command: list[str], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        await client.run(Boat, name, command, namespace="default")


async def test_an_action_answers_nothing_and_a_body_may_be_typed(client: Client) -> None:
    warned: list[str] = []
    assert await client.using(on_warning=warned.append).post(Boat, "a", "sail", namespace="default") is None
    assert warned == ["a sails"]
    answer = await client.post(Boat, "a", "obey", Order(text="hoist"), namespace="default")
    assert (answer["kind"], answer["text"]) == ("Order", "a: hoist")


async def test_a_log_is_read_as_it_comes(client: Client) -> None:
    text = b"".join([piece async for piece in client.log(Boat, "a", namespace="default", lines="3")])
    assert text == b"a 0\na 1\na 2\n"
    pieces = client.log(Boat, "a", namespace="default", follow=True)
    assert (await anext(pieces)).startswith(b"a 0\n")
    await pieces.aclose()


class Script(ClientConnection):
    """A connection on which a test says what comes."""

    def __init__(self, *messages: bytes, protocol: str = "v5.channel.k8s.io", then: Exception | None = None) -> None:
        self.protocol = protocol
        self.sent: list[bytes] = []
        self._messages = list(messages)
        self._then = then

    async def send(self, message: bytes) -> None:
        self.sent.append(message)

    async def receive(self) -> bytes | None:
        await asyncio.sleep(0)
        if self._messages:
            return self._messages.pop(0)
        if self._then is not None:
            raise self._then
        return None

    async def close(self) -> None:
        self._messages.clear()


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([], "ended before the command"),
        ([b"\x01out"], "ended before the command"),
        ([b"\x03hello"], "isn't JSON"),
        ([b"\x03[]"], "isn't a Status"),
        ([b"\x03" + b" " * 700_000] * 2, "more than 1048576 bytes"),
    ],
)
async def test_a_result_that_makes_no_sense_is_an_error_of_the_transport(messages: list[bytes], problem: str) -> None:
    with pytest.raises(TransportError, match=problem):
        await RemoteCommand(Script(*messages)).result()


async def test_channels_that_nobody_knows_and_empty_messages_are_skipped() -> None:
    status = b'\x03{"status":', b'\x03"Success"}'
    remote = RemoteCommand(Script(b"\x01", b"\x02", b"", b"\x09x", b"\x01a", *status, b"\x02b"))
    result = await remote.result()
    assert (result.exit_code, result.stdout, result.stderr) == (0, b"a", b"b")


async def test_an_exit_code_that_is_no_number_is_an_error() -> None:
    causes = b'[{"reason":"ExitCode","message":"x"}]'
    status = b'\x03{"status":"Failure","message":"odd","code":500,"details":{"causes":' + causes + b"}}"
    with pytest.raises(errors.StatusError, match="odd"):
        await RemoteCommand(Script(status)).result()


async def test_an_older_protocol_has_no_end_of_input() -> None:
    script = Script(b'\x03{"status":"Success"}', protocol="v4.channel.k8s.io")
    remote = RemoteCommand(script)
    with pytest.raises(TransportError, match="stdin can't be closed"):
        await remote.close_stdin()
    assert (await remote.result(b"x")).exit_code == 0
    assert script.sent == [b"\x00x"]


async def test_a_server_that_upgrades_nothing() -> None:
    async with (
        raw_server(always(whole(b"{}"))) as server,
        connect(ClientConfig(server.url), retries=RetryPolicy(retries=0)) as client,
    ):
        with pytest.raises(TransportError, match="the upgrade was answered with 200"):
            await client.run(Boat, "a", ["x"], namespace="default")
